//! Handles a call's webhook, from the lease to the spoken answer.
//!
//! Each webhook enters the call (one read returns the lease, the newest checkpoint and the items after it), runs a
//! step, and writes one turn and, if it is due, a checkpoint. The last write releases the call. The cached copy of a
//! call is used only while the store has nothing newer.

mod end;
mod resume;
mod shared;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use filrouge_engine::Caller;
use filrouge_engine::{
    CheckpointPolicy, Engine, OnBusy, Resumed, StartTurn, Webhook, WebhookAdmission,
};
use filrouge_types::{ErrorCode, Failure, ItemBody, JsonText, RawJson, RequestId, SessionId, Turn};
use serde::Serialize;

use crate::cache::{Cache, CachedCall};
use crate::calendar::Calendar;
use crate::config::{Config, DelayPoint};
use crate::fsm::{CalendarAnswer, CalendarRequest, Dialogue, HeardUtterance, StepResult};
use crate::replay::calendar_items;
use crate::store::OpenStore;

/// The phrase in a call that has ended.
pub(crate) const VOCAL_RESUME_ALREADY_TERMINATED: &str =
    "Votre demande a déjà été prise en compte. Au revoir.";
/// The phrase that the caller hears instead of silence while the call cannot continue.
pub(crate) const FILLER: &str = "Un instant, s'il vous plaît.";

/// The maximum number of attempts of a webhook whose lease is lost before anything was written.
const ATTEMPTS_MAX: u32 = 3;

/// The caller's utterance.
pub(crate) enum Utterance {
    /// One utterance, or the call of a tool as text.
    Words(String),
    /// All of the caller's messages so far; those that were already handled are skipped.
    Messages(Vec<String>),
}

/// The answer to a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Speak this text, which the ledger contains up to `seq`.
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

/// A webhook as received. All its attempts use the same holder name, so a retry may acquire the lease of an earlier
/// attempt, but of no other webhook.
struct Delivery<'a> {
    call: &'a SessionId,
    request: &'a RequestId,
    heard: &'a HeardUtterance,
    utterance: &'a Utterance,
    holder: String,
}

/// A held call and its state.
struct HeldCall {
    fence: u64,
    holder: Box<str>,
    dialogue: Dialogue,
    policy: CheckpointPolicy,
    last_seq: u64,
    /// The label of the newest checkpoint in the store: the state of the dialogue at that checkpoint.
    checkpoint_label: Option<Box<str>>,
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
    /// Calls whose end a background task of this process still retries to record.
    ending: Mutex<HashSet<SessionId>>,
}

impl Calls {
    pub(crate) fn new(open_store: &OpenStore, config: Config) -> Self {
        let (ledger, clock) = (open_store.engine.shared_ledger(), open_store.clock.clone());
        Self {
            engine: open_store.engine.clone(),
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

    /// Handles one webhook. After any failure, the answer is a phrase or nothing, never an error.
    pub(crate) async fn answer(
        &self,
        call: &SessionId,
        request: &RequestId,
        heard: &HeardUtterance,
        utterance: &Utterance,
    ) -> Reply {
        let delivery = Delivery {
            call,
            request,
            heard,
            utterance,
            holder: self.new_holder_name(),
        };
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt(&delivery).await {
                Ok(reply) => return reply,
                // Another process may have acquired the lease and answered this same webhook.
                Err(failure) if lease_was_lost(failure.code) => {
                    self.counters.leases_lost.fetch_add(1, Relaxed);
                    self.cache.remove(call);
                    self.warn(call, "lease", &failure);
                }
                Err(failure) if failure.code == ErrorCode::SessionTerminated => {
                    let last = self.last_answer(call, heard, utterance).await;
                    return last.unwrap_or_else(|| self.refusal_reply(call, &failure));
                }
                Err(failure) => return self.refusal_reply(call, &failure),
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
            WebhookAdmission::Work(resumed) => *resumed,
            WebhookAdmission::Answered(turn) => return Ok(recorded_reply(&turn)),
            WebhookAdmission::Busy => return Ok(Reply::Nothing),
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

    /// Handles a webhook whose call this process holds.
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
            let is_repeat = held.dialogue.was_transcribed(delivery.heard.route, &text);
            return Ok(match is_repeat {
                true => held.dialogue.repeat(held.last_seq),
                false => self.terminated(),
            });
        }
        if held.dialogue.is_copy(delivery.heard.route) {
            return Ok(Reply::Copy);
        }
        let heard = HeardUtterance {
            text,
            ..delivery.heard.clone()
        };
        let previous = held.dialogue.clone();
        self.config.delay_at(call, DelayPoint::Step).await;
        let (answer, items) = self.step(call, &mut held, &heard).await?;
        self.config.delay_at(call, DelayPoint::Turn).await;
        held.policy.count_write();
        let proposed_slots = previous.proposed != held.dialogue.proposed;
        let label = held.dialogue.state.as_str();
        let is_checkpoint_due = held.policy.is_due(
            held.checkpoint_label.as_deref(),
            Some(label),
            proposed_slots,
        );
        // The agent speaks first, and after a silence.
        let question = match heard.text.trim() {
            "" => "[silence]",
            _ => &heard.text,
        };
        let turn = StartTurn {
            question_neutral: Some(JsonText::from_plain(question)),
            runtime_context: Some(to_raw_json(&heard)?),
            items,
            answer_neutral: Some(JsonText::from_plain(&answer)),
            fence: Some(held.fence),
            release: !is_checkpoint_due,
            ..StartTurn::new(request.clone())
        };
        let is_first = previous.turns == 0;
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
            // Another process acquired the lease meanwhile, and has answered this same webhook.
            self.cache.remove(call);
            return Ok(recorded_reply(&turn));
        }
        held.last_seq = turn.last_seq;
        if is_checkpoint_due {
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
        held: &mut HeldCall,
        heard: &HeardUtterance,
    ) -> Result<(String, Vec<ItemBody>), Failure> {
        let mut items = Vec::new();
        let mut step_result = match held.unreadable {
            true => held.dialogue.transfer("unknown_state"),
            false => held.dialogue.hear(heard),
        };
        loop {
            let request = match step_result {
                StepResult::Say(answer) => return Ok((answer, items)),
                StepResult::AskCalendar(request) => request,
            };
            let answer = self.ask_calendar(call, held.fence, &request).await?;
            let calendar_exchange = calendar_items(items.len() / 2 + 1, &request, &answer);
            items.extend(
                calendar_exchange.map(|(role, channel, parts)| ItemBody::new(role, channel, parts)),
            );
            step_result = held.dialogue.calendar_answered(&request, answer);
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

/// Returns the recorded answer of a turn as a reply.
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
