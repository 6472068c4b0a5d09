//! What all services share: one ledger, and what is known of its use in this process.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use filrouge_store::command::{Command, ConcurrentTurns, Outcome, Scope, Write};
use filrouge_store::{Durability, Entropy, Ledger, Stored};
use filrouge_types::{
    Channel, Clock, ErrorCode, Failure, ItemBody, JsonText, RawJson, Role, Turn, Variant,
};

use crate::calls::{CallCounters, CallSettings, Journaled};
use crate::claim::Claim;
use crate::following::Live;
use crate::metadata::MetadataPolicy;
use crate::record_policy::{Omissions, RecordPolicies};
use crate::scopes::TwoScopes;
use crate::secrets::{Counters, CredentialPolicy, Masked, Registry};
use crate::spool::Spooling;
use crate::trace::Trace;
use crate::upkeep::Indexing;
use crate::validate::Limits;
use crate::written::Written;

/// How the engine behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether a session may have several open turns.
    pub concurrent_turns: ConcurrentTurns,
    /// Silence after which a turn counts as interrupted.
    pub turn_timeout: Duration,
    /// Silence of who records a stream after which it counts as gone. Those who are there give a sign of life three
    /// times as often, and at least every [`crate::stream::BEAT`]; all processes of a store need the same timeout.
    pub stream_timeout: Duration,
    /// Members of `runtime_context` that become metadata of the question.
    pub runtime_context_allow: Vec<String>,
    /// What is done with credentials in what users say and in parameters of tools.
    pub credentials: CredentialPolicy,
    /// Which members of turns' metadata reach the ledger.
    pub metadata: MetadataPolicy,
    /// Which items reach the ledger.
    pub record: RecordPolicies,
    /// How live calls are handled.
    pub calls: CallSettings,
    /// Whether every anonymous session has a session token: the caller's own, or a random one.
    pub require_session_token: bool,
    /// Upper bounds.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        let allow = [
            "channel",
            "device_type",
            "ip_hash",
            "language",
            "locale",
            "timezone",
        ];
        Self {
            concurrent_turns: ConcurrentTurns::Allow,
            turn_timeout: Duration::from_secs(15 * 60),
            stream_timeout: Duration::from_secs(30),
            runtime_context_allow: allow.map(str::to_owned).to_vec(),
            credentials: CredentialPolicy::default(),
            metadata: MetadataPolicy::default(),
            record: RecordPolicies::default(),
            calls: CallSettings::default(),
            require_session_token: false,
            limits: Limits::default(),
        }
    }
}

/// What the services share.
pub struct Core {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) secrets: Registry,
    pub(crate) credentials: Counters,
    pub(crate) omissions: Omissions,
    pub(crate) runtime_context_dropped: AtomicU64,
    pub(crate) counts: CallCounters,
    pub(crate) index: OnceLock<Indexing>,
    pub(crate) tiers: Option<Arc<TwoScopes>>,
    pub(crate) spool: Option<Arc<Spooling>>,
    pub(crate) links_refused: AtomicU64,
    live: OnceLock<Live>,
}

pub(crate) fn unexpected() -> Failure {
    Failure::new(ErrorCode::Internal, "the ledger answered another question")
}

fn text_parts(text: &JsonText) -> RawJson {
    RawJson::from_checked(format!(r#"[{{"type":"text","text":{}}}]"#, text.as_token()))
}

pub(crate) fn text_item(
    role: Role,
    channel: Channel,
    variant: Variant,
    text: &JsonText,
) -> ItemBody {
    ItemBody {
        variant,
        ..ItemBody::new(role, channel, text_parts(text))
    }
}

/// The hot store in front of a ledger and the spool behind it: what the ledger itself is made of.
fn found(ledger: &Arc<dyn Ledger>) -> (Option<Arc<TwoScopes>>, Option<Arc<Spooling>>) {
    let spool = as_a::<Spooling>(ledger);
    let behind = spool.as_ref().map_or(ledger, |spool| spool.inner());
    (as_a(behind), spool)
}

fn as_a<T: Any + Send + Sync>(ledger: &Arc<dyn Ledger>) -> Option<Arc<T>> {
    let any: Arc<dyn Any + Send + Sync> = ledger.clone();
    any.downcast().ok()
}

impl Core {
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let (tiers, spool) = found(&ledger);
        Self {
            ledger,
            entropy,
            clock,
            settings,
            secrets: Registry::default(),
            credentials: Counters::default(),
            omissions: Omissions::default(),
            runtime_context_dropped: AtomicU64::new(0),
            counts: CallCounters::default(),
            index: OnceLock::new(),
            tiers,
            spool,
            links_refused: AtomicU64::new(0),
            live: OnceLock::new(),
        }
    }

    /// Wakes those who follow sessions; begins with the first of them.
    pub(crate) fn live(&self) -> &Live {
        self.live.get_or_init(|| Live::start(self.ledger.clone()))
    }

    pub(crate) async fn write(&self, scope: &Scope, write: Write) -> Result<Stored, Failure> {
        match self.index.get() {
            Some(indexing) => self.write_and_forget(indexing, scope, write).await,
            None => self.put(scope, write).await,
        }
    }

    pub(crate) async fn put(&self, scope: &Scope, write: Write) -> Result<Stored, Failure> {
        let trace = Trace::begin(scope, &write);
        let claim = Claim::of(scope, &write);
        let journaled = Journaled::of(scope, &write);
        let scope = scope.clone();
        let written = self.ledger.write(Command { scope, write }).await;
        if let (Some(claim), Err(failure)) = (claim, &written)
            && claim.is_refused(failure)
        {
            self.links_refused.fetch_add(1, Ordering::Relaxed);
        }
        if let Err(failure) = &written {
            self.counts.refused(failure.code);
        }
        let stored = written?;
        if stored.durability == Durability::Spooled {
            // Its lines follow once it is durable in the ledger.
            return Ok(stored);
        }
        if let Some(trace) = trace {
            trace.done(&stored.outcome);
        }
        if let Some(journaled) = journaled {
            journaled.done(&stored.outcome);
        }
        Ok(stored)
    }

    /// A write that answers with a turn; what was `masked` in it counts unless it is a replay.
    pub(crate) async fn write_turn(
        &self,
        scope: &Scope,
        write: Write,
        masked: &Masked,
    ) -> Result<Written<Turn>, Failure> {
        let stored = self.write(scope, write).await?;
        match stored.outcome {
            Outcome::Turn(turn, _) => {
                let replayed = turn.replayed;
                let written = Written::new(*turn, replayed, stored.durability);
                Ok(self.counted(written, masked))
            }
            _ => Err(unexpected()),
        }
    }

    /// A fingerprint as it goes to the ledger: without the keyring nobody can make it from a guessed request.
    pub(crate) fn keyed(&self, fingerprint: [u8; 16]) -> [u8; 16] {
        self.ledger.keyring().request_fingerprint(&fingerprint)
    }
}

pub(crate) fn optional_bytes(text: Option<&str>) -> Vec<u8> {
    text.map_or_else(|| vec![0], |t| [b"1", t.as_bytes()].concat())
}
