//! Handles a call's webhook, from the lease to the spoken answer.
//!
//! The order: enter (the lease, the checkpoint and the tail in one read), step, one turn, and a checkpoint if one is
//! due. The last write releases the call. This process's copy of a call is used only while the store has nothing newer.

mod end;
mod resume;
mod shared;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use filrouge_engine::Caller;
use filrouge_engine::{CheckpointPolicy, Engine, Entered, OnBusy, Resumed, StartTurn, Webhook};
use filrouge_types::{ErrorCode, Failure, ItemBody, JsonText, RawJson, RequestId, SessionId, Turn};
use serde::Serialize;

use crate::cache::{Cache, CachedCall};
use crate::calendar::Calendar;
use crate::config::{Config, DelayPoint};
use crate::fsm::{CalendarAnswer, CalendarRequest, Dialogue, Heard, Next};
use crate::replay::calendar_items;
use crate::store::Opened;

/// The phrase in a call that has ended.
pub(crate) const VOCAL_RESUME_ALREADY_TERMINATED: &str =
    "Votre demande a déjà été prise en compte. Au revoir.";
/// The phrase while the call cannot continue, so that the caller does not hear silence.
pub(crate) const FILLER: &str = "Un instant, s'il vous plaît.";

/// How many times a webhook is attempted if its lease is lost before anything was written.
const ATTEMPTS: u32 = 3;

/// The caller's utterance.
pub(crate) enum Utterance {
    /// The text, or the call of a tool as text.
    Words(String),
    /// All of the caller's messages so far; those that were heard before are skipped.
    Messages(Vec<String>),
}

/// The answer to a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Speak this text; the ledger has it up to this seq.
    Speak { text: String, seq: u64 },
    /// The call has already ended.
    Terminated,
    /// The call cannot continue now: another webhook holds it, or the store does not answer.
    Filler,
    /// Nothing to speak: 204.
    Nothing,
    /// A copy: the same utterance also arrives on another route.
    Copy,
}

/// The counters of this instance, shown by `/status`.
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
    #[serde(rename = "agenda_failures")]
    calendar_failures: AtomicU64,
    not_recorded: AtomicU64,
}

/// A webhook as received. All its attempts hold the call under the same name, so that a retry takes the lease only from
/// an earlier attempt.
struct Delivery<'a> {
    call: &'a SessionId,
    request: &'a RequestId,
    heard: &'a Heard,
    utterance: &'a Utterance,
    holder: String,
}

/// A held call and its state.
struct Held {
    fence: u64,
    holder: Box<str>,
    dialogue: Dialogue,
    policy: CheckpointPolicy,
    last_seq: u64,
    /// The state of the newest checkpoint in the store.
    label: Option<Box<str>>,
    /// Whether the recorded state of the call cannot be read.
    unreadable: bool,
}

/// The calls of this instance.
pub(crate) struct Calls {
    engine: Arc<Engine>,
    calendar: Calendar,
    caller: Caller,
    cache: Cache,
    config: Config,
    counters: Counters,
    /// Calls whose end a task of this process still has to record.
    ending: Mutex<HashSet<SessionId>>,
}

impl Calls {
    pub(crate) fn new(opened: &Opened, config: Config) -> Self {
        let (ledger, clock) = (opened.engine.shared_ledger(), opened.clock.clone());
        Self {
            engine: opened.engine.clone(),
            calendar: Calendar::new(ledger, clock, &config.tenant, config.calendar_from),
            caller: Caller::operator(config.tenant.clone()),
            cache: Cache::default(),
            config,
            counters: Counters::default(),
            ending: Mutex::default(),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Handles one webhook. There is always an answer, whatever fails.
    pub(crate) async fn answer(
        &self,
        call: &SessionId,
        request: &RequestId,
        heard: &Heard,
        utterance: &Utterance,
    ) -> Reply {
        let delivery = Delivery {
            call,
            request,
            heard,
            utterance,
            holder: self.holder(),
        };
        for _ in 0..ATTEMPTS {
            match self.attempt(&delivery).await {
                Ok(reply) => return reply,
                // The process that took the call over may have answered this same webhook.
                Err(failure) if lease_was_lost(failure.code) => {
                    self.counters.leases_lost.fetch_add(1, Relaxed);
                    self.cache.remove(call);
                    self.warn(call, "lease", &failure);
                }
                Err(failure) if failure.code == ErrorCode::SessionTerminated => {
                    let last = self.last_answer(call, heard, utterance).await;
                    return last.unwrap_or_else(|| self.refused(call, &failure));
                }
                Err(failure) => return self.refused(call, &failure),
            }
        }
        self.filler()
    }

    async fn attempt(&self, delivery: &Delivery<'_>) -> Result<Reply, Failure> {
        let Delivery { call, request, .. } = *delivery;
        let cached = self.cache.get(call);
        let webhook = Webhook {
            session: call.clone(),
            request: request.clone(),
            resume: self.resume_request(&delivery.holder, cached.as_ref(), true),
            on_busy: match self.config.silent_when_busy {
                true => OnBusy::NoContent,
                false => OnBusy::Wait(self.config.lease_wait),
            },
        };
        let resumed = match self.engine.calls.enter(&self.caller, webhook).await? {
            Entered::Work(resumed) => *resumed,
            Entered::Answered(turn) => return Ok(recorded_reply(&turn)),
            Entered::Busy => return Ok(Reply::Nothing),
        };
        let (fence, holder) = (resumed.fence, resumed.holder.clone());
        let result = self.handle(delivery, resumed, cached).await;
        if result.is_err() {
            // It is unknown how much of the turn was written.
            self.cache.remove(call);
        }
        if !matches!(result, Ok(Reply::Speak { .. })) {
            self.release(call, &holder, fence).await;
        }
        result
    }

    /// Handles a webhook whose call is held.
    async fn handle(
        &self,
        delivery: &Delivery<'_>,
        resumed: Resumed,
        cached: Option<CachedCall>,
    ) -> Result<Reply, Failure> {
        let Delivery { call, request, .. } = *delivery;
        let mut held = self.restore(call, resumed, cached).await?;
        let text = match delivery.utterance {
            Utterance::Words(words) => words.clone(),
            Utterance::Messages(messages) => held.dialogue.unheard(messages),
        };
        if held.dialogue.state.is_terminal() {
            self.save_checkpoint(call, &held).await;
            let repeats = held.dialogue.was_transcribed(delivery.heard.route, &text);
            return Ok(match repeats {
                true => held.dialogue.repeat(held.last_seq),
                false => self.terminated(),
            });
        }
        if held.dialogue.is_copy(delivery.heard.route) {
            return Ok(Reply::Copy);
        }
        let heard = Heard {
            text,
            ..delivery.heard.clone()
        };
        let before = held.dialogue.clone();
        self.config.delay_at(call, DelayPoint::Step).await;
        let (answer, items) = self.step(call, &mut held, &heard).await?;
        self.config.delay_at(call, DelayPoint::Turn).await;
        held.policy.wrote();
        let proposed_slots = before.proposed != held.dialogue.proposed;
        let label = held.dialogue.state.as_str();
        let due = held
            .policy
            .is_due(held.label.as_deref(), Some(label), proposed_slots);
        let turn = StartTurn {
            question_neutral: Some(JsonText::from_plain(&heard.text)),
            runtime_context: Some(to_raw_json(&heard)?),
            items,
            answer_neutral: Some(JsonText::from_plain(&answer)),
            fence: Some(held.fence),
            release: !due,
            ..StartTurn::new(request.clone())
        };
        let is_first = before.turns == 0;
        // Concurrently, so that both are written in one commit.
        let (turn, ()) = tokio::join!(
            self.engine.turns.start(&self.caller, call.clone(), turn),
            self.record_event_if(is_first, call, "call_started")
        );
        let turn = match turn {
            Ok(turn) => turn.value,
            Err(failure) => {
                self.release_unconfirmed_booking(call, &held, &failure)
                    .await;
                return Err(failure);
            }
        };
        if turn.replayed {
            // The process that took the call over meanwhile has answered this same webhook.
            self.cache.remove(call);
            return Ok(recorded_reply(&turn));
        }
        held.last_seq = turn.last_seq;
        if due {
            self.config.delay_at(call, DelayPoint::Checkpoint).await;
            self.save_checkpoint(call, &held).await;
        }
        self.cache_call(call, &held);
        Ok(Reply::Speak {
            text: answer,
            seq: held.last_seq,
        })
    }

    /// Runs one step of the dialogue; returns the answer, and the items that record the requests to the calendar.
    async fn step(
        &self,
        call: &SessionId,
        held: &mut Held,
        heard: &Heard,
    ) -> Result<(String, Vec<ItemBody>), Failure> {
        let mut items = Vec::new();
        let mut next = match held.unreadable {
            true => held.dialogue.transfer("unknown_state"),
            false => held.dialogue.hear(heard),
        };
        loop {
            let request = match next {
                Next::Say(answer) => return Ok((answer, items)),
                Next::AskCalendar(request) => request,
            };
            let answer = self.ask_calendar(call, held.fence, &request).await?;
            let pair = calendar_items(items.len() / 2 + 1, &request, &answer);
            items.extend(pair.map(|(role, channel, parts)| ItemBody::new(role, channel, parts)));
            next = held.dialogue.calendar_answered(&request, answer);
        }
    }

    async fn ask_calendar(
        &self,
        call: &SessionId,
        fence: u64,
        request: &CalendarRequest,
    ) -> Result<CalendarAnswer, Failure> {
        let answer = match request {
            CalendarRequest::Free { except, day } => {
                let day = day.and_then(crate::french::day_named);
                self.calendar
                    .free(call, except, day)
                    .await
                    .map(CalendarAnswer::Free)
            }
            CalendarRequest::Book { slot } => match self.calendar.book(call, fence, *slot).await {
                Ok(true) => Ok(CalendarAnswer::Booked),
                Ok(false) => Ok(CalendarAnswer::Taken),
                Err(failure) => Err(failure),
            },
        };
        match answer {
            Err(failure) if !lease_was_lost(failure.code) => {
                self.counters.calendar_failures.fetch_add(1, Relaxed);
                self.warn(call, "agenda", &failure);
                Ok(CalendarAnswer::Unreachable)
            }
            answer => answer,
        }
    }
}

impl Dialogue {
    /// A reply that repeats the last answer.
    fn repeat(&self, seq: u64) -> Reply {
        let text = self.last_utterance.clone();
        Reply::Speak { text, seq }
    }
}

/// The reply with the recorded answer of a turn.
fn recorded_reply(turn: &Turn) -> Reply {
    let text = turn.answer_neutral.as_ref().map(JsonText::to_plain);
    Reply::Speak {
        text: text.unwrap_or_default(),
        seq: turn.last_seq,
    }
}

/// Whether the failure means that this process no longer holds the call, so that nothing was written.
const fn lease_was_lost(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::StaleFence | ErrorCode::LeaseExpired | ErrorCode::LeaseHeld
    )
}

fn to_raw_json<T: Serialize>(value: &T) -> Result<RawJson, Failure> {
    RawJson::write(value).map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))
}
