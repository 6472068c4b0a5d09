//! Redaction: contents are erased; who did it, when and why stays (DESIGN §9).

use filrouge_store::command::{Outcome, Redact, Redacted, Scope, Target, Viewer, Write};
use filrouge_store::record::Seqs;
use filrouge_types::{ErrorCode, Failure, SessionId, Turn, TurnId};

use crate::engine::{Engine, unexpected};
use crate::requests::RedactTurn;
use crate::written::Written;

impl Engine {
    /// Erases the contents of a turn that has ended, with all it replaced and all that replaces it. Doing it again
    /// changes nothing.
    ///
    /// # Errors
    /// `turn_open`, `invalid` without a reason, `limit_exceeded`, `session_not_found`, `turn_not_found`,
    /// `turn_mismatch`, `integrity_error`, and the ledger's.
    pub async fn redact_turn(
        &self,
        scope: &Scope,
        session: SessionId,
        turn: TurnId,
        request: RedactTurn,
    ) -> Result<Written<Turn>, Failure> {
        let target = Target::Turn(turn);
        let redacted = self.redact(scope, session, target, &request.reason).await?;
        let durability = redacted.durability;
        let turn = redacted.into_value().turn.ok_or_else(unexpected)?;
        let replayed = turn.replayed;
        Ok(Written::new(*turn, replayed, durability))
    }

    /// Erases the contents of items, also of a turn that is open.
    ///
    /// # Errors
    /// `invalid` for a seq that is not there or that is a redaction or a link, and as [`Self::redact_turn`].
    pub async fn redact_items(
        &self,
        scope: &Scope,
        session: SessionId,
        seqs: Seqs,
        reason: &str,
    ) -> Result<Written<Redacted>, Failure> {
        self.redact(scope, session, Target::Items(seqs), reason)
            .await
    }

    /// Erases contents; gives the receipt.
    ///
    /// # Errors
    /// As [`Self::redact_turn`] and [`Self::redact_items`].
    pub async fn redact(
        &self,
        scope: &Scope,
        session_id: SessionId,
        target: Target,
        reason: &str,
    ) -> Result<Written<Redacted>, Failure> {
        if reason.trim().is_empty() {
            return Err(Failure::new(
                ErrorCode::Invalid,
                "reason must not be empty: it tells later why something is missing",
            ));
        }
        self.settings.limits.label(Some(reason), "reason")?;
        let by = match &scope.viewer {
            Viewer::Operator => "operator",
            Viewer::EndUser(Some(identity)) => identity.as_str(),
            Viewer::EndUser(None) => "anonymous",
        };
        let redact = Redact {
            target,
            reason: reason.into(),
            by: by.into(),
            session_id,
        };
        let session_id = redact.session_id.clone();
        let stored = self.write(scope, Write::Redact(redact)).await?;
        match stored.outcome {
            Outcome::Redacted(redacted) => {
                tracing::info!(
                    %session_id,
                    items = redacted.seqs.count(),
                    redaction_seq = redacted.redaction_seq,
                    replayed = redacted.replayed,
                    "[SESSIONS][REDACT]"
                );
                let replayed = redacted.replayed;
                Ok(Written::new(redacted, replayed, stored.durability))
            }
            _ => Err(unexpected()),
        }
    }
}
