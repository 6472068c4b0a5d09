//! A webhook of a call, from the lease to the spoken answer.
//!
//! Enter (the lease, the checkpoint and the tail in one look), step, one turn, and where it is due a checkpoint; the last
//! write gives the call free. What this process remembers of a call counts only while the store has nothing newer.

mod ending;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use filrouge_engine::live::Live;
use filrouge_engine::{CheckpointPolicy, Engine, Entered, OnBusy, Resumed, StartTurn, Webhook};
use filrouge_store::{Scope, Viewer};
use filrouge_types::{
    ErrorCode, Failure, Item, JsonText, NewItem, RawJson, RequestId, SessionId, Turn,
};
use serde::Serialize;

use crate::agenda::Agenda;
use crate::cache::{Cache, Known};
use crate::config::{Config, Place};
use crate::fsm::{Ask, Dialogue, Heard, Next, Told};
use crate::replay::{agenda_items, replay};
use crate::store::Opened;

/// What is spoken in a call that has come to its end.
pub(crate) const VOCAL_RESUME_ALREADY_TERMINATED: &str =
    "Votre demande a déjà été prise en compte. Au revoir.";
/// What is spoken while the call cannot be gone on with: never silence.
pub(crate) const FILLER: &str = "Un instant, s'il vous plaît.";

/// How often a webhook is begun again when its lease was lost before anything was written.
const ATTEMPTS: u32 = 3;
/// Items read at once when there are more than a resume gives.
const PAGE: usize = 500;

/// The source of a call that goes on without the database.
const SPOOL: &str = "spool";

/// What the caller said.
pub(crate) enum Utterance {
    /// The words, or a tool's call in words.
    Words(String),
    /// All of the caller's messages so far; those that were heard before are left out.
    Messages(Vec<String>),
}

/// What a webhook is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// This is to be spoken; it is in the journal up to this seq.
    Said { text: String, seq: u64 },
    /// The call has come to its end before.
    Terminated,
    /// The call cannot be gone on with now: somebody else holds it, or the store does not answer.
    Filler,
    /// Nothing is to be spoken: 204.
    Nothing,
    /// The utterance comes another way, too.
    Copy,
}

/// What this instance has done.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Counters {
    fillers: AtomicU64,
    already_terminated: AtomicU64,
    leases_lost: AtomicU64,
    from_cache: AtomicU64,
    rebuilt: AtomicU64,
    replays_differing: AtomicU64,
    unknown_state: AtomicU64,
    transferred: AtomicU64,
    agenda_failures: AtomicU64,
    not_recorded: AtomicU64,
}

/// A call that is held, and what is known of it.
struct Held {
    fence: u64,
    holder: Box<str>,
    dialogue: Dialogue,
    policy: CheckpointPolicy,
    last_seq: u64,
    /// The state that the store knows of.
    label: Option<Box<str>>,
    /// Nobody knows where the call stands.
    lost: bool,
}

pub(crate) struct Calls {
    engine: Arc<Engine>,
    live: Live,
    agenda: Agenda,
    scope: Scope,
    cache: Cache,
    config: Config,
    counters: Counters,
}

impl Calls {
    pub(crate) fn new(opened: &Opened, config: Config) -> Self {
        let (ledger, clock) = (opened.engine.shared_ledger(), opened.clock.clone());
        Self {
            engine: opened.engine.clone(),
            live: Live::start(ledger.clone()),
            agenda: Agenda::new(ledger, clock, &config.tenant, config.agenda_from),
            scope: Scope::new(config.tenant.clone(), Viewer::Operator),
            cache: Cache::default(),
            config,
            counters: Counters::default(),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Handles one webhook. Whatever happens there is an answer.
    pub(crate) async fn answer(
        &self,
        call: &SessionId,
        request: &RequestId,
        heard: &Heard,
        utterance: &Utterance,
    ) -> Reply {
        for _ in 0..ATTEMPTS {
            match self.attempt(call, request, heard, utterance).await {
                Ok(reply) => return reply,
                // Whoever took the call over may have answered this very webhook.
                Err(failure) if lease_was_lost(failure.code) => {
                    self.counters.leases_lost.fetch_add(1, Relaxed);
                    self.cache.forget(call);
                    self.warn(call, "lease", &failure);
                }
                Err(failure) => return self.refused(call, &failure),
            }
        }
        self.filler()
    }

    async fn attempt(
        &self,
        call: &SessionId,
        request: &RequestId,
        heard: &Heard,
        utterance: &Utterance,
    ) -> Result<Reply, Failure> {
        let known = self.cache.get(call);
        let webhook = Webhook {
            session: call.clone(),
            request: request.clone(),
            resume: self.resume(known.as_ref(), true),
            on_busy: match self.config.silent_when_busy {
                true => OnBusy::NoContent,
                false => OnBusy::Wait(self.config.lease_wait),
            },
        };
        let resumed = match self.engine.enter(&self.live, &self.scope, webhook).await? {
            Entered::Work(resumed) => *resumed,
            Entered::Answered(turn) => return Ok(answered(&turn)),
            Entered::Busy => return Ok(Reply::Nothing),
        };
        let (fence, holder) = (resumed.fence, resumed.holder.clone());
        let worked = self
            .work(call, request, resumed, known, heard, utterance)
            .await;
        if !matches!(worked, Ok(Reply::Said { .. })) {
            self.release(call, &holder, fence).await;
        }
        worked
    }

    /// Works at a webhook whose call is held.
    async fn work(
        &self,
        call: &SessionId,
        request: &RequestId,
        resumed: Resumed,
        known: Option<Known>,
        heard: &Heard,
        utterance: &Utterance,
    ) -> Result<Reply, Failure> {
        let mut held = self.go_on(call, resumed, known).await?;
        if held.dialogue.state.is_terminal() {
            self.settle(call, &held).await;
            return Ok(self.terminated());
        }
        if held.dialogue.comes_another_way(heard.route) {
            return Ok(Reply::Copy);
        }
        let heard = Heard {
            said: held.dialogue.unheard(utterance),
            ..heard.clone()
        };
        let before = held.dialogue.clone();
        self.config.linger(Place::Step).await;
        let (said, items) = self.step(call, &mut held, &heard).await?;
        self.config.linger(Place::Turn).await;
        held.policy.wrote();
        let critical = before.proposed != held.dialogue.proposed;
        let label = held.dialogue.state.as_str();
        let due = held
            .policy
            .is_due(held.label.as_deref(), Some(label), critical);
        let turn = StartTurn {
            question_neutral: Some(JsonText::from_plain(&heard.said)),
            runtime_context: Some(written(&heard)?),
            items,
            answer_neutral: Some(JsonText::from_plain(&said)),
            fence: Some(held.fence),
            release: !due,
            ..StartTurn::new(request.clone())
        };
        let first = before.turns == 0;
        // Both go to the store in one commit.
        let (turn, ()) = tokio::join!(
            self.engine.start_turn(&self.scope, call.clone(), turn),
            self.tell_if(first, call, "call_started")
        );
        let turn = turn?.value;
        if turn.replayed {
            // Whoever took the call over meanwhile has answered this very webhook.
            self.cache.forget(call);
            return Ok(answered(&turn));
        }
        held.last_seq = turn.last_seq;
        if due {
            self.config.linger(Place::Checkpoint).await;
            self.settle(call, &held).await;
        }
        self.remember(call, &held);
        Ok(Reply::Said {
            text: said,
            seq: held.last_seq,
        })
    }

    /// One step of the dialogue: what is said, and what the journal has of the agenda.
    async fn step(
        &self,
        call: &SessionId,
        held: &mut Held,
        heard: &Heard,
    ) -> Result<(String, Vec<NewItem>), Failure> {
        let mut items = Vec::new();
        let mut next = match held.lost {
            true => held.dialogue.transfer("unknown_state"),
            false => held.dialogue.hear(heard),
        };
        loop {
            let ask = match next {
                Next::Say(said) => return Ok((said, items)),
                Next::Ask(ask) => ask,
            };
            let told = self.ask_agenda(call, held.fence, &ask).await?;
            let pair = agenda_items(items.len() / 2 + 1, &ask, &told);
            items.extend(pair.map(|(role, channel, parts)| NewItem::new(role, channel, parts)));
            next = held.dialogue.told(&ask, told);
        }
    }

    async fn ask_agenda(&self, call: &SessionId, fence: u64, ask: &Ask) -> Result<Told, Failure> {
        let told = match ask {
            Ask::Free { except, day } => {
                let day = day.and_then(crate::french::day_named);
                self.agenda.free(call, except, day).await.map(Told::Free)
            }
            Ask::Book { slot } => match self.agenda.book(call, fence, *slot).await {
                Ok(true) => Ok(Told::Booked),
                Ok(false) => Ok(Told::Taken),
                Err(failure) => Err(failure),
            },
        };
        match told {
            Err(failure) if !lease_was_lost(failure.code) => {
                self.counters.agenda_failures.fetch_add(1, Relaxed);
                self.warn(call, "agenda", &failure);
                Ok(Told::Unreachable)
            }
            told => told,
        }
    }

    /// The dialogue as it stands in the store: this process's copy when there is nothing newer, else the newest checkpoint
    /// and the items behind it.
    async fn go_on(
        &self,
        call: &SessionId,
        resumed: Resumed,
        known: Option<Known>,
    ) -> Result<Held, Failure> {
        let mut held = Held {
            fence: resumed.fence,
            holder: resumed.holder,
            dialogue: Dialogue::default(),
            policy: CheckpointPolicy::default(),
            last_seq: resumed.last_seq,
            label: resumed.state,
            lost: false,
        };
        // While the database does not answer, nobody but this process goes on with its calls.
        let newest = resumed.stale == Some(false) || resumed.source == SPOOL;
        if let Some(known) = known.filter(|_| newest) {
            self.counters.from_cache.fetch_add(1, Relaxed);
            (held.dialogue, held.policy) = (known.dialogue, known.policy);
            return Ok(held);
        }
        if resumed.last_seq > 0 {
            self.counters.rebuilt.fetch_add(1, Relaxed);
        }
        let (mut tail, mut more) = (resumed.tail, resumed.tail_cursor.is_some());
        let state = resumed
            .checkpoint
            .map(|c| serde_json::from_str(c.state.as_str()));
        match state {
            None => {}
            Some(Ok(dialogue)) => held.dialogue = dialogue,
            // A state that this version does not know: the journal tells it all.
            Some(Err(_)) => {
                self.tell_unknown(call, held.last_seq, "checkpoint").await;
                (tail, more) = (Vec::new(), true);
            }
        }
        if more {
            self.read_on(call, &mut tail).await?;
        }
        match replay(&mut held.dialogue, &tail) {
            Some(replayed) => {
                (0..replayed.turns).for_each(|_| held.policy.wrote());
                self.counters
                    .replays_differing
                    .fetch_add(replayed.differing, Relaxed);
            }
            None => {
                self.tell_unknown(call, held.last_seq, "journal").await;
                held.lost = true;
            }
        }
        Ok(held)
    }

    /// Reads the items behind those that are there.
    async fn read_on(&self, call: &SessionId, items: &mut Vec<Item>) -> Result<(), Failure> {
        loop {
            let after = items.last().map_or(0, |item| item.seq);
            let ledger = self.engine.ledger();
            let (page, next) = ledger.items(&self.scope, call, after, PAGE).await?;
            items.extend(page);
            if next.is_none() {
                return Ok(());
            }
        }
    }
}

impl Dialogue {
    /// The words of an utterance that were not heard before: what was said over a filler is among them.
    fn unheard(&self, utterance: &Utterance) -> String {
        match utterance {
            Utterance::Words(words) => words.clone(),
            Utterance::Messages(messages) => {
                let from = self.heard.min(messages.len().saturating_sub(1));
                messages[from..].join(" ")
            }
        }
    }
}

/// What a turn was answered with.
fn answered(turn: &Turn) -> Reply {
    let text = turn.answer_neutral.as_ref().map(JsonText::to_plain);
    Reply::Said {
        text: text.unwrap_or_default(),
        seq: turn.last_seq,
    }
}

/// Whether somebody else has the call now, or nobody: nothing of the write was done.
const fn lease_was_lost(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::StaleFence | ErrorCode::LeaseExpired | ErrorCode::LeaseHeld
    )
}

fn written<T: Serialize>(value: &T) -> Result<RawJson, Failure> {
    RawJson::write(value).map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))
}
