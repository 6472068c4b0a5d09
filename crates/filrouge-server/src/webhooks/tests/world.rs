//! A ledger in memory, a clock that stands still, constant randomness, and a receiver with prepared outcomes.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filrouge_engine::Caller;
use filrouge_engine::backoff::Backoff;
use filrouge_engine::{CreateSession, Engine, PatchSession, Settings};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Entropy, Keyring, Lane, Lanes, Ledger, OsEntropy};
use filrouge_types::{Clock, FixedClock, TenantId};
use serde_json::Value;

use crate::webhooks::counters::Counters;
use crate::webhooks::message::Message;
use crate::webhooks::sender::{MessageSender, Refusal, SendOutcome};
use crate::webhooks::worker::Worker;
use crate::webhooks::{WebhookFeed, WebhookSettings, WebhookStart, WebhookStatus, webhook_status};
use filrouge_http::Metrics;

/// Entropy that is always the same.
struct ConstantEntropy;

impl Entropy for ConstantEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), filrouge_types::Failure> {
        bytes.fill(0xff);
        Ok(())
    }
}

/// Returns the prepared outcomes, then accepts all later messages. Collects all messages.
#[derive(Clone, Default)]
pub(super) struct Receiver {
    outcomes: Arc<Mutex<VecDeque<SendOutcome>>>,
    received: Arc<Mutex<Vec<Message>>>,
}

impl MessageSender for Receiver {
    async fn send(&self, message: Message) -> SendOutcome {
        self.received.lock().unwrap().push(message);
        self.outcomes
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or(SendOutcome::Delivered)
    }
}

impl Receiver {
    /// Prepares the outcomes of the next messages.
    pub(super) fn will_return(&self, outcomes: impl IntoIterator<Item = SendOutcome>) {
        self.outcomes.lock().unwrap().extend(outcomes);
    }

    pub(super) fn count(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.received
            .lock()
            .unwrap()
            .iter()
            .map(|message| message.id.clone())
            .collect()
    }

    /// The bodies of the messages.
    pub(super) fn bodies(&self) -> Vec<Value> {
        let received = self.received.lock().unwrap();
        let bodies = received
            .iter()
            .map(|message| serde_json::from_slice(&message.body).unwrap());
        bodies.collect()
    }

    /// The sessions in each message.
    pub(super) fn sessions(&self) -> Vec<Vec<String>> {
        let sessions_of = |body: &Value| {
            let data = body["data"].as_array().unwrap();
            data.iter()
                .map(|change| change["session_id"].as_str().unwrap().to_owned())
                .collect()
        };
        self.bodies().iter().map(sessions_of).collect()
    }
}

/// The outcome for a receiver that refuses a message with this HTTP status.
pub(super) fn refused(status: u16) -> SendOutcome {
    SendOutcome::Refused {
        refusal: Refusal::Status(status),
        retry_after: None,
    }
}

pub(super) struct World {
    pub(super) clock: Arc<FixedClock>,
    engine: Engine,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) receiver: Receiver,
    pub(super) metrics: Metrics,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with_lanes(Lanes::ONE)
    }

    pub(super) fn with_lanes(lanes: Lanes) -> Self {
        let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
        let keyring = Arc::new(Keyring::single([1; 32]));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
        let ledger: Arc<dyn Ledger> = Arc::new(ledger.with_lanes(lanes));
        let engine = Engine::new(
            ledger.clone(),
            Arc::new(OsEntropy),
            clock.clone(),
            Settings::default(),
        );
        Self {
            clock,
            engine,
            ledger,
            receiver: Receiver::default(),
            metrics: Metrics::default(),
        }
    }

    pub(super) fn feed(&self) -> WebhookFeed {
        WebhookFeed {
            name: "crm".parse().unwrap(),
            tenant: TenantId::default_tenant(),
            kinds: None,
            batch: 2,
        }
    }

    /// A worker in a process with this name.
    pub(super) fn worker(&self, holder: &str) -> Worker<Receiver> {
        Worker {
            settings: WebhookSettings {
                feed: self.feed(),
                url: "https://example.org/hook".parse().unwrap(),
                secrets: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap(),
                timeout: Duration::from_secs(10),
                max_attempts: NonZeroU32::new(3).unwrap(),
                from: WebhookStart::Newest,
            },
            ledger: self.ledger.clone(),
            sender: self.receiver.clone(),
            clock: self.clock.clone(),
            backoff: Backoff::new(Arc::new(ConstantEntropy)),
            counters: Counters::register(&self.metrics).for_webhook("crm"),
            holder: holder.to_owned(),
            position: None,
            last_failure: None,
        }
    }

    /// Creates a session, which is one change of the feed.
    pub(super) async fn create_session(&self, id: &str) {
        let request: CreateSession =
            serde_json::from_value(serde_json::json!({ "session_id": id })).unwrap();
        let caller = Caller::operator(TenantId::default_tenant());
        self.engine.sessions.create(&caller, request).await.unwrap();
    }

    /// Changes a session's title, which is another change of the feed.
    pub(super) async fn patch_session(&self, id: &str) {
        let request = PatchSession {
            title: Some(Some("a title".into())),
            ..PatchSession::default()
        };
        let caller = Caller::operator(TenantId::default_tenant());
        let session = id.parse().unwrap();
        let patched = self.engine.sessions.patch(&caller, session, request, None);
        patched.await.unwrap();
    }

    /// Names of sessions that belong to a lane.
    pub(super) fn names_in(&self, lane: Lane, count: usize) -> Vec<String> {
        let (lanes, tenant) = (self.ledger.lanes(), TenantId::default_tenant());
        let is_in_lane = |name: &String| lanes.of_session(&tenant, &name.parse().unwrap()) == lane;
        let names = (0..).map(|n| format!("s{n}")).filter(is_in_lane);
        names.take(count).collect()
    }

    pub(super) fn advance_seconds(&self, seconds: i64) {
        self.clock.advance(seconds * 1_000_000);
    }

    pub(super) async fn status(&self) -> WebhookStatus {
        webhook_status(self.ledger.as_ref(), &self.feed(), self.clock.now())
            .await
            .unwrap()
    }
}
