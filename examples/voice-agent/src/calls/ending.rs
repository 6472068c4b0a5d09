//! Shared steps of webhooks: resuming, checkpoints, release, events.

use std::sync::atomic::Ordering::Relaxed;

use filrouge_engine::{CreateSession, RecordEvent, ResumeSession, SaveCheckpoint};
use filrouge_types::{ErrorCode, EventKey, Failure, RawJson, SessionId};
use serde_json::{Value, json};

use super::{Calls, Held, Reply, Utterance, lease_was_lost, written};
use crate::cache::Known;
use crate::fsm::{Dialogue, Heard, State};

impl Calls {
    /// A unique holder name for a webhook.
    pub(super) fn holder(&self) -> String {
        format!("{}:{}", self.config.instance, uuid::Uuid::now_v7())
    }

    /// A request to resume a call under this name, with the seq up to which this process knows it.
    pub(super) fn resume(
        &self,
        holder: &str,
        known: Option<&Known>,
        create: bool,
    ) -> ResumeSession {
        let milliseconds =
            |d: std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        ResumeSession {
            ttl_ms: Some(milliseconds(self.config.lease_ttl)),
            wait_ms: Some(milliseconds(self.config.lease_wait)),
            known_seq: known.map(|known| known.seq),
            create,
            ..ResumeSession::new(holder)
        }
    }

    /// Writes a checkpoint, which releases the call; before it, the events of a call that has ended. The ledger already has the
    /// turn, so the next webhook makes up for a failure here by replaying it.
    pub(super) async fn settle(&self, call: &SessionId, held: &Held) {
        let dialogue = &held.dialogue;
        match dialogue.state {
            State::Confirmed => {
                let detail = json!({ "slot": dialogue.chosen });
                self.report(call, "booking_confirmed", "booking_confirmed", Some(detail))
                    .await;
            }
            State::Transferred => {
                self.counters.transferred.fetch_add(1, Relaxed);
                let detail = json!({ "reason": dialogue.transfer_reason });
                self.report(call, "transferred", "transferred", Some(detail))
                    .await;
                self.release_slot(call, held.fence).await;
            }
            _ => {}
        }
        let checkpoint = async {
            let save = SaveCheckpoint {
                seq: None,
                label: Some(dialogue.state.as_str().into()),
                state: written(dialogue)?,
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

    pub(super) fn remember(&self, call: &SessionId, held: &Held) {
        if held.dialogue.state.is_terminal() {
            return self.cache.forget(call);
        }
        let known = Known {
            seq: held.last_seq,
            dialogue: held.dialogue.clone(),
            policy: held.policy,
        };
        self.cache.put(call, known);
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

    /// Records that a call begins, as reported by a status update.
    pub(crate) async fn started(&self, call: &SessionId) {
        let create = CreateSession {
            session_id: Some(call.clone()),
            ..CreateSession::default()
        };
        match self.engine.sessions.create(&self.caller, create).await {
            Ok(_) => {
                self.report(call, "call_started", "call_started", None)
                    .await;
            }
            Err(failure) => self.not_recorded(call, "call_started", &failure),
        }
    }

    /// The answer to a completion in a call that a transcript of the same words has ended.
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
        let said = dialogue.unheard(messages);
        let repeats = dialogue.was_transcribed(heard.route, &said);
        repeats.then(|| dialogue.said(checkpoint.seq))
    }

    /// Releases the slot booked for a refused turn: another process holds the call, or none. A slot that another process books
    /// has a newer fence, and stays.
    pub(super) async fn release_unsaid(&self, call: &SessionId, held: &Held, refused: &Failure) {
        if lease_was_lost(refused.code) && held.dialogue.state == State::Confirmed {
            self.release_slot(call, held.fence).await;
        }
    }

    async fn release_slot(&self, call: &SessionId, fence: u64) {
        if let Err(failure) = self.agenda.release_slot(call, fence).await {
            self.warn(call, "agenda", &failure);
        }
    }

    pub(super) async fn report_if(&self, wanted: bool, call: &SessionId, kind: &str) {
        if wanted {
            self.report(call, kind, kind, None).await;
        }
    }

    pub(super) async fn report_unknown(&self, call: &SessionId, seq: u64, place: &str) {
        self.counters.unknown_state.fetch_add(1, Relaxed);
        let key = format!("unknown_state:{place}:{seq}");
        self.report(call, "unknown_state", &key, Some(json!({ "in": place })))
            .await;
    }

    async fn report(&self, call: &SessionId, kind: &str, key: &str, detail: Option<Value>) {
        if let Err(failure) = self.record(call, kind, key, detail).await {
            self.not_recorded(call, kind, &failure);
        }
    }

    /// Records an event, once for each key. An earlier event with the same key and other details stays.
    pub(super) async fn record(
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

    /// A call as recorded in the ledger, for inspection.
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

    /// The writes that wait for the database, and those that it refused; `None` if there is no spool.
    pub(crate) fn spool(&self) -> Option<Value> {
        let spool = self.engine.spool()?.view();
        let (entries, dead_letters) = (spool.entries, spool.dead_letters);
        Some(json!({ "entries": entries, "dead_letters": dead_letters, "down": spool.down }))
    }

    /// All booked slots with their holders.
    ///
    /// # Errors
    /// The ledger's.
    pub(crate) async fn agenda(&self) -> Result<Value, Failure> {
        Ok(json!(self.agenda.booked().await?))
    }
}
