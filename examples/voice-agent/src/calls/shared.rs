//! What several webhooks need: resume requests, checkpoints, release, events, and views of a call.

use std::sync::atomic::Ordering::Relaxed;

use filrouge_engine::{CreateSession, RecordEvent, ResumeSession, SaveCheckpoint};
use filrouge_types::{ErrorCode, EventKey, Failure, RawJson, SessionId};
use serde_json::{Value, json};

use super::{Calls, Held, Reply, Utterance, lease_was_lost, to_raw_json};
use crate::cache::CachedCall;
use crate::fsm::{Dialogue, Heard, State};

impl Calls {
    /// A unique holder name for a webhook.
    pub(super) fn holder(&self) -> String {
        format!("{}:{}", self.config.instance, uuid::Uuid::now_v7())
    }

    /// A request to resume a call under this holder name, with the seq of this process's copy.
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

    /// Writes a checkpoint, which releases the call; in a terminal state, records the event of that state first. The
    /// ledger already has the turn, so after a failure here the next webhook replays it.
    pub(super) async fn save_checkpoint(&self, call: &SessionId, held: &Held) {
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

    /// Caches a call after its turn; a call in a terminal state is not continued, so it is removed.
    pub(super) fn cache_call(&self, call: &SessionId, held: &Held) {
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

    /// The answer to a webhook that cannot be handled.
    pub(super) fn refused(&self, call: &SessionId, failure: &Failure) -> Reply {
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

    /// Records the beginning of a call, after a status update.
    pub(crate) async fn started(&self, call: &SessionId) {
        let create = CreateSession {
            session_id: Some(call.clone()),
            ..CreateSession::default()
        };
        match self.engine.sessions.create(&self.caller, create).await {
            Ok(_) => {
                self.record_event(call, "call_started", "call_started", None)
                    .await;
            }
            Err(failure) => self.not_recorded(call, "call_started", &failure),
        }
    }

    /// The answer to a completion whose words, as a transcript, have just ended the call.
    pub(super) async fn last_answer(
        &self,
        call: &SessionId,
        heard: &Heard,
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
        let repeats = dialogue.was_transcribed(heard.route, &text);
        repeats.then(|| dialogue.repeat(checkpoint.seq))
    }

    /// Releases the slot that was booked for a refused turn, if the lease was lost. A slot that another process books
    /// for the call has a newer fence, and stays.
    pub(super) async fn release_unconfirmed_booking(
        &self,
        call: &SessionId,
        held: &Held,
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

    pub(super) async fn record_event_if(&self, is_wanted: bool, call: &SessionId, kind: &str) {
        if is_wanted {
            self.record_event(call, kind, kind, None).await;
        }
    }

    pub(super) async fn record_unknown_state(&self, call: &SessionId, seq: u64, place: &str) {
        self.counters.unknown_state.fetch_add(1, Relaxed);
        let key = format!("unknown_state:{place}:{seq}");
        self.record_event(call, "unknown_state", &key, Some(json!({ "in": place })))
            .await;
    }

    /// Records an event; a failure is counted and logged.
    async fn record_event(&self, call: &SessionId, kind: &str, key: &str, detail: Option<Value>) {
        if let Err(failure) = self.try_record_event(call, kind, key, detail).await {
            self.not_recorded(call, kind, &failure);
        }
    }

    /// Records an event, once for each key. An earlier event with the same key and other details stays.
    pub(super) async fn try_record_event(
        &self,
        call: &SessionId,
        kind: &str,
        key: &str,
        detail: Option<Value>,
    ) -> Result<(), Failure> {
        let internal = |e| Failure::new(ErrorCode::Internal, format!("{e}"));
        let event = RecordEvent {
            key: EventKey::new(key).map_err(internal)?,
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

    pub(super) fn not_recorded(&self, call: &SessionId, what: &str, failure: &Failure) {
        self.counters.not_recorded.fetch_add(1, Relaxed);
        self.warn(call, what, failure);
    }

    pub(super) fn warn(&self, call: &SessionId, reason: &str, failure: &Failure) {
        tracing::warn!(tenant_id = %self.caller.tenant(), call_id = %call, reason, err = %failure.code, "[VOICE_AGENT_WARN]");
    }

    /// A call as the ledger has it, for `/calls/{id}`.
    ///
    /// # Errors
    /// `session_not_found`, and the ledger's errors.
    pub(crate) async fn inspect(&self, call: &SessionId) -> Result<Value, Failure> {
        let session = self.engine.sessions.get(&self.caller, call).await?;
        let mut items = Vec::new();
        self.read_rest(call, &mut items).await?;
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

    /// The numbers of writes that wait for the database and of those that it refused; `None` if there is no spool.
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
