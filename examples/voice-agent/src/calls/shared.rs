//! Operations that several webhooks share: resume requests, checkpoints, release, events, and views of a call.

use std::sync::atomic::Ordering::Relaxed;

use filrouge_engine::{CreateSession, RecordEvent, ResumeSession, SaveCheckpoint};
use filrouge_types::{ErrorCode, EventKey, Failure, RawJson, SessionId};
use serde_json::{Value, json};

use super::{Calls, HeldCall, Reply, Utterance, lease_was_lost, to_raw_json};
use crate::cache::CachedCall;
use crate::fsm::{Dialogue, HeardUtterance, State};

impl Calls {
    /// Generates a unique holder name for a webhook.
    pub(super) fn new_holder_name(&self) -> String {
        format!("{}:{}", self.config.instance, uuid::Uuid::now_v7())
    }

    /// Builds a request to resume a call under this holder name, with the seq of the cached copy.
    pub(super) fn resume_request(
        &self,
        holder: &str,
        cached: Option<&CachedCall>,
        create: bool,
    ) -> ResumeSession {
        let milliseconds =
            |d: std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        ResumeSession {
            ttl_ms: Some(milliseconds(self.config.lease_ttl)),
            wait_ms: Some(milliseconds(self.config.lease_wait)),
            known_seq: cached.map(|cached| cached.seq),
            create,
            ..ResumeSession::new(holder)
        }
    }

    /// Writes a checkpoint, which releases the call; in a terminal state, records the event of that state first. A
    /// failure is only logged: the next webhook replays the recorded turn.
    pub(super) async fn save_checkpoint(&self, call: &SessionId, held: &HeldCall) {
        let dialogue = &held.dialogue;
        match dialogue.state {
            State::Confirmed => {
                let detail = json!({ "slot": dialogue.chosen });
                self.record_event(call, "booking_confirmed", "booking_confirmed", Some(detail))
                    .await;
            }
            State::Transferred => {
                self.counters.transferred.fetch_add(1, Relaxed);
                let detail = json!({ "reason": dialogue.transfer_reason });
                self.record_event(call, "transferred", "transferred", Some(detail))
                    .await;
                self.release_slot(call, held.fence).await;
            }
            _ => {}
        }
        let checkpoint = async {
            let save = SaveCheckpoint {
                seq: None,
                label: Some(dialogue.state.as_str().into()),
                state: to_raw_json(dialogue)?,
                fence: Some(held.fence),
                release: true,
            };
            self.engine
                .calls
                .put_checkpoint(&self.caller, call, save)
                .await
        };
        if let Err(failure) = checkpoint.await {
            self.warn(call, "checkpoint", &failure);
            self.release(call, &held.holder, held.fence).await;
        }
    }

    /// Caches a call after its turn; removes a call in a terminal state, which does not continue.
    pub(super) fn cache_call(&self, call: &SessionId, held: &HeldCall) {
        if held.dialogue.state.is_terminal() {
            return self.cache.remove(call);
        }
        let cached = CachedCall {
            seq: held.last_seq,
            dialogue: held.dialogue.clone(),
            policy: held.policy,
        };
        self.cache.put(call, cached);
    }

    pub(super) async fn release(&self, call: &SessionId, holder: &str, fence: u64) {
        let released = self
            .engine
            .calls
            .release(&self.caller, call, holder, Some(fence))
            .await;
        if let Err(failure) = released {
            self.warn(call, "release", &failure);
        }
    }

    /// Returns the reply to a webhook that failed.
    pub(super) fn refusal_reply(&self, call: &SessionId, failure: &Failure) -> Reply {
        match failure.code {
            ErrorCode::SessionTerminated | ErrorCode::SessionClosed => self.terminated(),
            ErrorCode::LeaseTimeout if self.config.silent_when_busy => Reply::Nothing,
            code => {
                if !matches!(code, ErrorCode::LeaseTimeout | ErrorCode::TurnBusy) {
                    self.warn(call, "webhook", failure);
                }
                self.filler()
            }
        }
    }

    pub(super) fn filler(&self) -> Reply {
        self.counters.fillers.fetch_add(1, Relaxed);
        Reply::Filler
    }

    pub(super) fn terminated(&self) -> Reply {
        self.counters.already_terminated.fetch_add(1, Relaxed);
        Reply::Terminated
    }

    /// Creates the session of a call and records its beginning, after a status update.
    pub(crate) async fn record_start(&self, call: &SessionId) {
        let create = CreateSession {
            session_id: Some(call.clone()),
            ..CreateSession::default()
        };
        match self.engine.sessions.create(&self.caller, create).await {
            Ok(_) => {
                self.record_event(call, "call_started", "call_started", None)
                    .await;
            }
            Err(failure) => self.count_unrecorded(call, "call_started", &failure),
        }
    }

    /// Returns the last answer again, for a completion whose words, as a transcript, have just ended the call.
    pub(super) async fn last_answer(
        &self,
        call: &SessionId,
        heard: &HeardUtterance,
        utterance: &Utterance,
    ) -> Option<Reply> {
        let Utterance::Messages(messages) = utterance else {
            return None;
        };
        let checkpoint = self
            .engine
            .calls
            .latest_checkpoint(&self.caller, call)
            .await;
        let checkpoint = checkpoint.inspect_err(|failure| self.warn(call, "checkpoint", failure));
        let checkpoint = checkpoint.ok()?;
        let dialogue: Dialogue = serde_json::from_str(checkpoint.state.as_str()).ok()?;
        let text = dialogue.unheard(messages);
        let is_repeat = dialogue.was_transcribed(heard.route, &text);
        is_repeat.then(|| dialogue.repeat(checkpoint.seq))
    }

    /// Releases the slot that was booked for a refused turn, if the lease was lost. A slot booked by another process
    /// under a newer fence stays.
    pub(super) async fn release_unconfirmed_booking(
        &self,
        call: &SessionId,
        held: &HeldCall,
        refusal: &Failure,
    ) {
        if lease_was_lost(refusal.code) && held.dialogue.state == State::Confirmed {
            self.release_slot(call, held.fence).await;
        }
    }

    async fn release_slot(&self, call: &SessionId, fence: u64) {
        if let Err(failure) = self.calendar.release_slot(call, fence).await {
            self.warn(call, "agenda", &failure);
        }
    }

    pub(super) async fn record_event_if(&self, condition: bool, call: &SessionId, kind: &str) {
        if condition {
            self.record_event(call, kind, kind, None).await;
        }
    }

    pub(super) async fn record_unknown_state(&self, call: &SessionId, seq: u64, location: &str) {
        self.counters.unknown_state.fetch_add(1, Relaxed);
        let key = format!("unknown_state:{location}:{seq}");
        self.record_event(call, "unknown_state", &key, Some(json!({ "in": location })))
            .await;
    }

    /// Records an event; a failure is counted and logged.
    async fn record_event(&self, call: &SessionId, kind: &str, key: &str, detail: Option<Value>) {
        if let Err(failure) = self.try_record_event(call, kind, key, detail).await {
            self.count_unrecorded(call, kind, &failure);
        }
    }

    /// Records an event once for each key. If an event with this key exists, keeps it, even if its detail differs.
    pub(super) async fn try_record_event(
        &self,
        call: &SessionId,
        kind: &str,
        key: &str,
        detail: Option<Value>,
    ) -> Result<(), Failure> {
        let to_failure = |e| Failure::new(ErrorCode::Internal, format!("{e}"));
        let event = RecordEvent {
            key: EventKey::new(key).map_err(to_failure)?,
            kind: kind.into(),
            at: None,
            detail: detail.map(|detail| RawJson::from_checked(detail.to_string())),
        };
        let recorded = self.engine.events.record(&self.caller, call.clone(), event);
        match recorded.await {
            Err(failure) if failure.code != ErrorCode::IdempotencyMismatch => Err(failure),
            _ => Ok(()),
        }
    }

    pub(super) fn count_unrecorded(&self, call: &SessionId, kind: &str, failure: &Failure) {
        self.counters.not_recorded.fetch_add(1, Relaxed);
        self.warn(call, kind, failure);
    }

    pub(super) fn warn(&self, call: &SessionId, reason: &str, failure: &Failure) {
        tracing::warn!(tenant_id = %self.caller.tenant(), call_id = %call, reason, err = %failure.code, "[VOICE_AGENT_WARN]");
    }

    /// Returns the recorded session, checkpoint, items and events of a call, for `/calls/{id}`.
    ///
    /// # Errors
    /// `session_not_found`, and the ledger's errors.
    pub(crate) async fn inspect(&self, call: &SessionId) -> Result<Value, Failure> {
        let session = self.engine.sessions.get(&self.caller, call).await?;
        let mut items = Vec::new();
        self.read_remaining_items(call, &mut items).await?;
        let (events, _) = self.engine.events.list(&self.caller, call, 0, 1000).await?;
        let newest = self
            .engine
            .calls
            .latest_checkpoint(&self.caller, call)
            .await;
        let dialogue = match newest {
            Ok(checkpoint) => serde_json::from_str::<Dialogue>(checkpoint.state.as_str()).ok(),
            Err(failure) if failure.code == ErrorCode::CheckpointNotFound => None,
            Err(failure) => return Err(failure),
        };
        Ok(json!({ "session": session, "checkpoint": dialogue, "items": items, "events": events }))
    }

    /// Returns the number of spooled writes and of those that the database refused; `None` without a spool.
    pub(crate) fn spool(&self) -> Option<Value> {
        let spool = self.engine.spool()?.view();
        let (entries, dead_letters) = (spool.entries, spool.dead_letters);
        Some(json!({ "entries": entries, "dead_letters": dead_letters, "down": spool.down }))
    }

    /// All booked slots with their holders.
    ///
    /// # Errors
    /// The ledger's.
    pub(crate) async fn calendar(&self) -> Result<Value, Failure> {
        Ok(json!(self.calendar.booked().await?))
    }
}
