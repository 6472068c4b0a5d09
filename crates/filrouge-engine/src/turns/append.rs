//! Appends items to an open turn (DESIGN §4.2), and late items to an interrupted or closed one.

use std::sync::Arc;

use filrouge_store::command::{Append, Outcome, Scope, Write};
use filrouge_store::record::{Batch, Entry};
use filrouge_store::rules::refusal::{check_expected_seq, check_lease, turn_closed};
use filrouge_types::{ErrorCode, Failure, SessionId, TurnId, TurnStatus, unassigned};
use serde::Serialize;

use crate::caller::{Caller, Permission};
use crate::calls::fenced_scope;
use crate::core::Core;
use crate::engine::Turns;
use crate::record_policy::Omissions;
use crate::requests::AppendItems;
use crate::secrets::Masked;
use crate::shared::unexpected_outcome;
use crate::validate::Author;
use crate::written::Written;

/// The positions of appended items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = AppendedItems)]
pub struct Appended {
    /// The first item's seq; absent while the items wait for the ledger.
    #[serde(serialize_with = "unassigned::serialize")]
    #[schema(value_type = Option<u64>)]
    pub first_seq: u64,
    /// The last item's seq; absent while the items wait for the ledger.
    #[serde(serialize_with = "unassigned::serialize")]
    #[schema(value_type = Option<u64>)]
    pub last_seq: u64,
    /// The number of these items that are not recorded, because the tenant records only conversations; absent when all
    /// are recorded. When none is recorded, `last_seq` is the session's newest seq, and `first_seq` the one after it.
    #[serde(skip_serializing_if = "is_none")]
    #[schema(required = false, minimum = 1)]
    pub not_recorded: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_none(items: &u64) -> bool {
    *items == 0
}

impl Turns {
    /// Appends items to an open turn, or errors and notes to an interrupted or closed one. If the tenant records only
    /// conversations, all other items are left out and counted.
    ///
    /// # Errors
    /// `seq_conflict`, `turn_closed`, `partial_replay`, `idempotency_mismatch`, `final_exists`, `invalid`,
    /// `limit_exceeded`, `credential_refused`, `session_not_found`, `turn_not_found`, the errors of fences, and the
    /// ledger's.
    pub async fn append(
        &self,
        caller: &Caller,
        session_id: SessionId,
        turn_id: TurnId,
        request: AppendItems,
    ) -> Result<Written<Appended>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        if request.items.is_empty() {
            return Err(Failure::new(ErrorCode::Invalid, "items must not be empty"));
        }
        let mut items = self.limits().check_items(request.items, Author::Caller)?;
        let scope = &fenced_scope(scope, request.fence, request.release)?;
        let retention = self.retention(scope, &session_id).await?;
        let all_keyed = items.iter().all(|item| item.body.item_id.is_some());
        let all_late = items.iter().all(|item| item.body.channel.may_be_late());
        let mut omissions = Omissions::default();
        items.retain(|item| omissions.keep_or_omit(retention.record, &item.body.channel));
        let expected_seq = request.expected_seq;
        let appended = if items.is_empty() {
            let kind = (all_keyed, all_late);
            self.append_unrecorded(scope, &session_id, turn_id, expected_seq, kind)
                .await?
        } else {
            let masker = self.masker(self.secrets_of(turn_id));
            let (items, masked) = self.masked_items(&scope.tenant, masker, items)?;
            let entries: Vec<Entry> = items.into_iter().map(Into::into).collect();
            let append = Append {
                session_id,
                turn_id,
                batch: Batch::pack(entries, self.entropy.as_ref())?,
                expected_seq,
                progress: None,
            };
            self.write_append(scope, append, &masked).await?
        };
        self.count_omissions(&omissions, appended.replayed);
        let not_recorded = omissions.items();
        Ok(appended.map(|positions| Appended {
            not_recorded,
            ..positions
        }))
    }

    /// The response to an append of which no item is recorded. The append is refused for the same reasons as any other.
    /// If it is accepted, the response has an empty range after the newest item.
    ///
    /// After the turn's end, an append whose items all have keys (`all_keyed`) gets the response of a replay: it may be
    /// the retry of an append from before the end, which has left no trace in the ledger. `all_late` says whether a
    /// turn that is not open takes all of the items.
    async fn append_unrecorded(
        &self,
        scope: &Scope,
        session_id: &SessionId,
        turn_id: TurnId,
        expected_seq: Option<u64>,
        (all_keyed, all_late): (bool, bool),
    ) -> Result<Written<Appended>, Failure> {
        let now = self.clock.lease_now();
        let (turn, last_seq, lease_check) = self
            .ledger
            .query_session(scope, session_id, move |snapshot, scope, id| {
                let turn = snapshot.turn(scope, id, &turn_id)?;
                let session = snapshot.get(scope, id)?;
                let lease_check = check_lease(&session, scope, now);
                Ok((turn, session.head.last_seq, lease_check))
            })
            .await?;
        let takes_late = all_late && turn.deleted_at.is_none();
        let is_closed = turn.status != TurnStatus::Open && !takes_late;
        if !is_closed {
            lease_check?;
        }
        check_expected_seq(expected_seq, last_seq)?;
        if is_closed && (expected_seq.is_some() || !all_keyed) {
            let is_redacted = turn.deleted_at.is_some();
            return Err(turn_closed(&turn_id, turn.status, is_redacted));
        }
        let released = match scope.fence.filter(|token| token.release) {
            Some(own) => {
                self.release_lease_with_fence(scope, session_id, own.fence)
                    .await?
            }
            None => None,
        };
        let appended = Appended {
            first_seq: last_seq + 1,
            last_seq,
            not_recorded: 0,
        };
        // In an ephemeral session all items are recorded, so this session is in the ledger.
        let durability = released.unwrap_or(self.ledger.backend().durability);
        Ok(Written::new(appended, is_closed, durability))
    }
}

impl Core {
    /// Writes an append to the ledger. `masked` counts the credentials that were masked in its items; they are added to
    /// the engine's counters unless the write is a replay.
    pub(crate) async fn write_append(
        &self,
        scope: &Scope,
        append: Append,
        masked: &Masked,
    ) -> Result<Written<Appended>, Failure> {
        let stored = self.write(scope, Write::Append(Arc::new(append))).await?;
        match stored.outcome {
            Outcome::Appended {
                first_seq,
                last_seq,
                replayed,
                ..
            } => {
                let appended = Appended {
                    first_seq,
                    last_seq,
                    not_recorded: 0,
                };
                let written = Written::new(appended, replayed, stored.durability);
                Ok(self.count_masked(written, masked))
            }
            _ => Err(unexpected_outcome()),
        }
    }
}
