//! Putting checkpoints, and reading them (DESIGN §6).

use filrouge_store::command::{Outcome, PutCheckpoint, Scope, Write};
use filrouge_types::{Checkpoint, ErrorCode, Failure, RawJson, SessionId, UNPLACED};
use tracing::field::{Value, display};

use super::lease::held;
use super::requests::SaveCheckpoint;
use super::words::{word, word_of};
use crate::caller::{Caller, Permission};
use crate::core::unexpected;
use crate::engine::Calls;
use crate::secrets::Masked;
use crate::written::Written;

/// A checkpoint's label and state.
type Told = (Option<Box<str>>, RawJson);

impl Calls {
    /// Puts a checkpoint, once for each seq; its label becomes the session's state. The same one again changes nothing.
    ///
    /// # Errors
    /// `idempotency_mismatch` when another one is at its seq, `invalid` when its seq is not there yet or its state is no
    /// object, `limit_exceeded`, `credential_refused`, those of fences, `session_not_found`, `journal_off`, and the
    /// ledger's.
    pub async fn put_checkpoint(
        &self,
        caller: &Caller,
        session: &SessionId,
        request: SaveCheckpoint,
    ) -> Result<Written<Checkpoint>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        self.check_journal()?;
        let scope = held(scope, request.fence, request.release)?;
        self.limits().label(request.label.as_deref(), "label")?;
        let most = self.settings.calls.checkpoint_bytes;
        let bytes = request.state.as_str().len();
        if bytes > most {
            let what = format!("state has {bytes} bytes, at most {most} are allowed");
            return Err(Failure::new(ErrorCode::LimitExceeded, what));
        }
        if !request.state.is_object() {
            return Err(Failure::new(
                ErrorCode::Invalid,
                "state must be a JSON object",
            ));
        }
        let given = (request.label, request.state);
        let ((label, state), masked) = self.sifted_checkpoint(&scope, session, given)?;
        let put = PutCheckpoint {
            session_id: session.clone(),
            seq: request.seq,
            label,
            state,
            keep: self.settings.calls.checkpoints_kept,
        };
        let stored = self
            .write(&scope, Write::PutCheckpoint(Box::new(put)))
            .await?;
        match stored.outcome {
            Outcome::Checkpoint {
                checkpoint,
                created,
                ..
            } => {
                if created {
                    self.counters.checkpoints.add(1);
                    let none = display("-");
                    // A number, as in all other lines, once the ledger has given it.
                    let seq: &dyn Value = match checkpoint.seq {
                        UNPLACED => &none,
                        _ => &checkpoint.seq,
                    };
                    tracing::info!(tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), seq,
                        state = %word_of(checkpoint.label.as_deref()), "[CHECKPOINT]");
                }
                let written = Written::new(*checkpoint, !created, stored.durability);
                Ok(self.counted(written, &masked))
            }
            _ => Err(unexpected()),
        }
    }

    /// A checkpoint without the credentials that it holds (DESIGN §6): what came in the `runtime_context` of the session's
    /// turns, here and lately, and, as in parameters of tools, what has the form of one.
    fn sifted_checkpoint(
        &self,
        scope: &Scope,
        session: &SessionId,
        (mut label, mut state): Told,
    ) -> Result<(Told, Masked), Failure> {
        let mut known = Masked::default();
        let held = self.secrets();
        for secrets in held.of_session(&scope.tenant, session, self.clock.now()) {
            if let Some(masked) = secrets.mask_json(state.as_str(), &mut known) {
                state = RawJson::from_checked(masked);
            }
            let text = label.as_deref();
            if let Some(masked) = text.and_then(|text| secrets.mask_text(text, &mut known)) {
                label = Some(masked.into());
            }
        }
        let sieve = self.sieve(None);
        let (sifted, masked) = self.sift(sieve, |sieve| sieve.checkpoint(label, state))?;
        known.join(&masked);
        Ok((sifted, known))
    }

    /// The checkpoints of a session, newest first; of one that cannot be read its seq alone.
    ///
    /// # Errors
    /// `session_not_found`, and the ledger's.
    pub async fn checkpoints(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> Result<Vec<Result<Checkpoint, u64>>, Failure> {
        let scope = &caller.scope(Permission::Read)?;
        let (viewer, id) = (scope.clone(), session.clone());
        self.ledger
            .ask_in(scope, session, move |sight| sight.checkpoints(&viewer, &id))
            .await
    }

    /// The newest checkpoint that can be read.
    ///
    /// # Errors
    /// `checkpoint_not_found`, `session_not_found`, and the ledger's.
    pub async fn latest_checkpoint(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> Result<Checkpoint, Failure> {
        let scope = &caller.scope(Permission::Read)?;
        let (viewer, id) = (scope.clone(), session.clone());
        let newest = self
            .ledger
            .ask_in(scope, session, move |sight| {
                let session = sight.get(&viewer, &id)?;
                sight.newest_checkpoint(&session)
            })
            .await?;
        newest.checkpoint.ok_or_else(|| {
            let what = match newest.unreadable {
                0 => "the session has no checkpoint",
                _ => "no checkpoint of the session can be read",
            };
            Failure::new(ErrorCode::CheckpointNotFound, what)
                .with_hint("resume the session: the items are all there")
        })
    }
}
