//! Checkpoints of live (telephone) calls (DESIGN §6).

use filrouge_store::command::{Outcome, PutCheckpoint, Scope, Write};
use filrouge_types::{Checkpoint, ErrorCode, Failure, RawJson, SessionId};

use super::lease::fenced_scope;
use super::requests::SaveCheckpoint;
use super::words::{log_seq, log_word, optional_log_word};
use crate::caller::{Caller, Permission};
use crate::engine::Calls;
use crate::secrets::Masked;
use crate::shared::{invalid, unexpected_outcome};
use crate::written::Written;

/// A checkpoint's label, and the application's state as JSON.
type LabelAndState = (Option<Box<str>>, RawJson);

impl Calls {
    /// Saves a checkpoint, at most one per seq. The checkpoint's `state` is the application's state as JSON. The
    /// checkpoint's label, not its `state`, becomes the session's field `state`. Repeating an identical
    /// checkpoint changes nothing.
    ///
    /// # Errors
    /// `idempotency_mismatch` if a different checkpoint exists at this seq; `invalid` if the seq does not exist yet or
    /// `state` is no object; `limit_exceeded`, `credential_refused`, `session_not_found`, `journal_off`, the errors of
    /// fences, and those of the ledger.
    pub async fn put_checkpoint(
        &self,
        caller: &Caller,
        session: &SessionId,
        request: SaveCheckpoint,
    ) -> Result<Written<Checkpoint>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        self.check_journal()?;
        let scope = fenced_scope(scope, request.fence, request.release)?;
        self.limits()
            .check_label(request.label.as_deref(), "label")?;
        let max_bytes = self.settings.calls.checkpoint_bytes;
        let bytes = request.state.as_str().len();
        if bytes > max_bytes {
            let detail = format!("state has {bytes} bytes, at most {max_bytes} are allowed");
            return Err(Failure::new(ErrorCode::LimitExceeded, detail));
        }
        if !request.state.is_object() {
            return Err(invalid("state must be a JSON object"));
        }
        let unmasked = (request.label, request.state);
        let ((label, state), masked) = self.masked_checkpoint(&scope, session, unmasked)?;
        let put_checkpoint = PutCheckpoint {
            session_id: session.clone(),
            seq: request.seq,
            label,
            state,
            keep: self.settings.calls.checkpoints_kept,
        };
        let stored = self
            .write(&scope, Write::PutCheckpoint(Box::new(put_checkpoint)))
            .await?;
        let Outcome::Checkpoint {
            checkpoint,
            created,
            ..
        } = stored.outcome
        else {
            return Err(unexpected_outcome());
        };
        if created {
            self.counters.checkpoints.add(1);
            let seq = log_seq(checkpoint.seq);
            tracing::info!(tenant_id = %log_word(scope.tenant.as_str()), call_id = %log_word(session.as_str()), seq = &*seq,
                state = %optional_log_word(checkpoint.label.as_deref()), "[CHECKPOINT]");
        }
        let written = Written::new(*checkpoint, !created, stored.durability);
        Ok(self.count_masked(written, &masked))
    }

    /// Masks the credentials in a checkpoint (DESIGN §6). These are the values of `runtime_context` of the session's
    /// open and recent turns on this server, and text that has the form of a credential.
    fn masked_checkpoint(
        &self,
        scope: &Scope,
        session: &SessionId,
        (mut label, mut state): LabelAndState,
    ) -> Result<(LabelAndState, Masked), Failure> {
        let mut all_masked = Masked::default();
        let registry = &self.secrets;
        for secrets in registry.secrets_of_session(&scope.tenant, session, self.clock.now()) {
            if let Some(masked) = secrets.mask_json(state.as_str(), &mut all_masked) {
                state = RawJson::from_checked(masked);
            }
            let text = label.as_deref();
            if let Some(masked) = text.and_then(|text| secrets.mask_text(text, &mut all_masked)) {
                label = Some(masked.into());
            }
        }
        let masker = self.masker(None);
        let (checkpoint, masked) =
            self.mask_with(masker, |masker| masker.mask_checkpoint(label, state))?;
        all_masked.join(&masked);
        Ok((checkpoint, all_masked))
    }

    /// The checkpoints of a session, newest first. An unreadable checkpoint is an `Err` with its seq.
    ///
    /// # Errors
    /// `session_not_found`, and those of the ledger.
    pub async fn checkpoints(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> Result<Vec<Result<Checkpoint, u64>>, Failure> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                snapshot.checkpoints(scope, id)
            })
            .await
    }

    /// The newest readable checkpoint.
    ///
    /// # Errors
    /// `checkpoint_not_found`, `session_not_found`, and those of the ledger.
    pub async fn latest_checkpoint(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> Result<Checkpoint, Failure> {
        let scope = &caller.scope(Permission::Read)?;
        let newest = self
            .ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                let session = snapshot.get(scope, id)?;
                snapshot.newest_checkpoint(&session)
            })
            .await?;
        newest.checkpoint.ok_or_else(|| {
            let detail = match newest.unreadable {
                0 => "the session has no checkpoint",
                _ => "no checkpoint of the session can be read",
            };
            Failure::new(ErrorCode::CheckpointNotFound, detail)
                .with_hint("resume the session: the items are all there")
        })
    }
}
