//! What stands around a webhook's work: resuming, checkpoints, giving free, events.

use std::sync::atomic::Ordering::Relaxed;

use filrouge_engine::{CreateSession, RecordEvent, ResumeSession, SaveCheckpoint};
use filrouge_types::{ErrorCode, EventKey, Failure, RawJson, SessionId};
use serde_json::{Value, json};

use super::{Calls, Held, Reply, Utterance, lease_was_lost, written};
use crate::cache::Known;
use crate::fsm::{Dialogue, Heard, State};

impl Calls {
    /// A name to hold a call under that nobody else uses.
    pub(super) fn holder(&self) -> String {
        format!("{}:{}", self.config.instance, uuid::Uuid::now_v7())
    }

    /// How a call is gone on with under this name, telling up to where it is known here.
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

    /// Puts a checkpoint, which gives the call free; first the events of a call that has come to its end. The turn is in the
    /// journal already: what fails here is made up for by the next webhook, which replays it.
    pub(super) async fn settle(&self, call: &SessionId, held: &Held) {
        let dialogue = &held.dialogue;
        match dialogue.state {
            State::Confirmed => {
                let detail = json!({ "slot": dialogue.chosen });
                self.tell(call, "booking_confirmed", "booking_confirmed", Some(detail))
                    .await;
            }
            State::Transferred => {
                self.counters.transferred.fetch_add(1, Relaxed);
                let detail = json!({ "reason": dialogue.transfer_reason });
                self.tell(call, "transferred", "transferred", Some(detail))
                    .await;
                self.give_back(call, held.fence).await;
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

    /// What a webhook is answered with that cannot be worked at.
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

    /// A call that begins, as a status update tells it.
    pub(crate) async fn started(&self, call: &SessionId) {
        let create = CreateSession {
            session_id: Some(call.clone()),
            ..CreateSession::default()
        };
        match self.engine.sessions.create(&self.caller, create).await {
            Ok(_) => self.tell(call, "call_started", "call_started", None).await,
            Err(failure) => self.not_recorded(call, "call_started", &failure),
        }
    }

    /// What a completion is answered with in a call that has come to its end by a transcript of the same words.
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

    /// Gives back what was booked for a turn that was refused, because somebody else has the call, or nobody: what they book
    /// is under a newer fence, and stays.
    pub(super) async fn give_back_unsaid(&self, call: &SessionId, held: &Held, refused: &Failure) {
        if lease_was_lost(refused.code) && held.dialogue.state == State::Confirmed {
            self.give_back(call, held.fence).await;
        }
    }

    async fn give_back(&self, call: &SessionId, fence: u64) {
        if let Err(failure) = self.agenda.give_back(call, fence).await {
            self.warn(call, "agenda", &failure);
        }
    }

    pub(super) async fn tell_if(&self, wanted: bool, call: &SessionId, kind: &str) {
        if wanted {
            self.tell(call, kind, kind, None).await;
        }
    }

    pub(super) async fn tell_unknown(&self, call: &SessionId, seq: u64, place: &str) {
        self.counters.unknown_state.fetch_add(1, Relaxed);
        let key = format!("unknown_state:{place}:{seq}");
        self.tell(call, "unknown_state", &key, Some(json!({ "in": place })))
            .await;
    }

    async fn tell(&self, call: &SessionId, kind: &str, key: &str, detail: Option<Value>) {
        if let Err(failure) = self.record(call, kind, key, detail).await {
            self.not_recorded(call, kind, &failure);
        }
    }

    /// Records an event, once for each key. One that is there with other details came first and stays.
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

    /// A call as the journal tells it, for whoever wants to look.
    ///
    /// # Errors
    /// `session_not_found`, and the ledger's.
    pub(crate) async fn told(&self, call: &SessionId) -> Result<Value, Failure> {
        let session = self.engine.sessions.get(&self.caller, call).await?;
        let mut items = Vec::new();
        self.read_on(call, &mut items).await?;
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

    /// What waits for the database, and what it has refused; absent where there is no spool.
    pub(crate) fn spool(&self) -> Option<Value> {
        let spool = self.engine.spool()?.view();
        let (entries, dead_letters) = (spool.entries, spool.dead_letters);
        Some(json!({ "entries": entries, "dead_letters": dead_letters, "down": spool.down }))
    }

    /// Who has which slot.
    ///
    /// # Errors
    /// The ledger's.
    pub(crate) async fn agenda(&self) -> Result<Value, Failure> {
        Ok(json!(self.agenda.booked().await?))
    }
}
