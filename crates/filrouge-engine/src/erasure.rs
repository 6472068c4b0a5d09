//! Redaction and erasure (DESIGN §9). A redaction erases contents, and records who redacted, when and why. An erasure
//! deletes a session except for its id.

use filrouge_store::command::{
    Erase, Erased, Outcome, Redact, Redacted, RedactionTarget, Scope, SessionFilter, Viewer, Write,
};
use filrouge_store::record::Seqs;
use filrouge_store::rules::redaction_seqs;
use filrouge_types::{ErrorCode, Failure, IdentityId, Item, SessionId, Timestamp, Turn, TurnId};
use serde::Serialize;

use crate::caller::{Caller, Permission};
use crate::cleaning::{ERASED, PENDING, StoreReceipt};
use crate::conversation::CONTENTS_MAX;
use crate::engine::Erasure;
use crate::requests::{RedactItems, RedactTurn};
use crate::shared::{invalid, unexpected_outcome};
use crate::written::Written;

/// The number of sessions that `erase_all` lists with one query.
const SESSIONS_PER_PAGE: usize = 100;

/// The receipt of an erasure, for the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ErasureReceipt {
    /// The session.
    pub session_id: SessionId,
    /// When it was erased.
    pub erased_at: Timestamp,
    /// The number of items it had.
    pub items: u64,
    /// The number of turns it had.
    pub turns: u64,
    /// The result in each store.
    pub stores: Vec<StoreReceipt>,
}

/// The receipt of a redaction of items, for the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct RedactionReceipt {
    /// The session.
    pub session_id: SessionId,
    /// The ranges of items that were named, each as its first and its last seq, ascending and merged.
    #[schema(value_type = Vec<Vec<u64>>)]
    pub seqs: Vec<(u64, u64)>,
    /// The seq of the item that records the redaction; for a replay, that of the newest such item.
    pub redaction_seq: u64,
    /// The time of that item, by the store's clock.
    pub at: Timestamp,
    /// Whether all these items were redacted before.
    pub replayed: bool,
}

impl Erasure {
    /// Erases the contents of a turn that has ended, with all versions that it replaced and that replaced it. Repeating
    /// it changes nothing.
    ///
    /// # Errors
    /// `turn_open`, `invalid` without a reason, `limit_exceeded`, `session_not_found`, `turn_not_found`,
    /// `turn_mismatch`, `integrity_error`, and the ledger's errors.
    pub async fn redact_turn(
        &self,
        caller: &Caller,
        session: SessionId,
        turn: TurnId,
        request: RedactTurn,
    ) -> Result<Written<Turn>, Failure> {
        let target = RedactionTarget::Turn(turn);
        let redacted = self
            .redact(caller, session, target, &request.reason)
            .await?;
        let turn = redacted.value.turn.ok_or_else(unexpected_outcome)?;
        let replayed = turn.replayed;
        Ok(Written::new(*turn, replayed, redacted.durability))
    }

    /// Erases the contents of items of any turns. Repeating it changes nothing.
    ///
    /// # Errors
    /// `invalid` without ranges, and as [`Self::redact`].
    pub async fn redact_items(
        &self,
        caller: &Caller,
        session: SessionId,
        request: RedactItems,
    ) -> Result<Written<RedactionReceipt>, Failure> {
        let seqs = Seqs::from_ranges(request.seqs).filter(|seqs| seqs.count() > 0);
        let seqs = seqs.ok_or_else(|| {
            invalid("seqs: no ranges of seqs")
                .with_hint("seqs count from 1; send the first and the last of each range, such as [[4, 4], [7, 9]]")
        })?;
        let target = RedactionTarget::Items(seqs);
        let redacted = self.redact(caller, session.clone(), target, &request.reason);
        let redacted = redacted.await?;
        Ok(redacted.map(|redacted| RedactionReceipt {
            session_id: session,
            seqs: redacted.seqs.ranges().collect(),
            redaction_seq: redacted.redaction_seq,
            at: redacted.at,
            replayed: redacted.replayed,
        }))
    }

    /// The items that [`Self::redact`] would erase, as far as 256 MiB of contents.
    ///
    /// # Errors
    /// As [`Self::redact`], for the target.
    pub async fn items_to_redact(
        &self,
        caller: &Caller,
        session_id: &SessionId,
        target: &RedactionTarget,
    ) -> Result<Vec<Item>, Failure> {
        let scope = &caller.scope(Permission::Redact)?;
        let target = target.clone();
        let items = self
            .ledger
            .query_session(scope, session_id, move |snapshot, scope, id| {
                let session = snapshot.get(scope, id)?;
                let seqs = redaction_seqs(snapshot, scope, &session, &target)?;
                let (mut items, mut bytes_left) = (Vec::new(), CONTENTS_MAX);
                for (first, last) in seqs.ranges() {
                    match snapshot.items_between(&session, first, last, &mut bytes_left) {
                        Ok(mut range) => items.append(&mut range),
                        Err(failure) if failure.code == ErrorCode::LimitExceeded => break,
                        Err(failure) => return Err(failure),
                    }
                }
                Ok(items)
            });
        items.await
    }

    /// Erases the contents of a turn, which may be open, or of items; returns the receipt. Projections are cleaned
    /// before it returns, or as soon as they can be ([`Self::store_receipts`]).
    ///
    /// # Errors
    /// `invalid` for a seq that does not exist or that is a redaction or a link, and as [`Self::redact_turn`].
    pub async fn redact(
        &self,
        caller: &Caller,
        session_id: SessionId,
        target: RedactionTarget,
        reason: &str,
    ) -> Result<Written<Redacted>, Failure> {
        let redacted = self.redact_in_ledger(caller, session_id.clone(), target, reason);
        let redacted = redacted.await?;
        let scope = &caller.scope(Permission::Redact)?;
        self.clean_copies(scope, &session_id).await;
        Ok(redacted)
    }

    /// As [`Self::redact`], but leaves the projections to [`Self::store_receipts`], which the caller must call next.
    ///
    /// # Errors
    /// As [`Self::redact`].
    pub async fn redact_in_ledger(
        &self,
        caller: &Caller,
        session_id: SessionId,
        target: RedactionTarget,
        reason: &str,
    ) -> Result<Written<Redacted>, Failure> {
        let scope = &caller.scope(Permission::Redact)?;
        if reason.trim().is_empty() {
            return Err(invalid(
                "reason must not be empty: it explains later why something is missing",
            ));
        }
        self.limits().check_label(Some(reason), "reason")?;
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
        let Outcome::Redacted(redacted) = stored.outcome else {
            return Err(unexpected_outcome());
        };
        let replayed = redacted.replayed;
        tracing::info!(
            %session_id,
            items = redacted.seqs.count(),
            redaction_seq = redacted.redaction_seq,
            replayed,
            "[SESSIONS][REDACT]"
        );
        Ok(Written::new(redacted, replayed, stored.durability))
    }

    /// Erases a session. Only its id remains, so that no other session is created under that id. Erasing it again
    /// returns the first receipt (DESIGN §9).
    ///
    /// # Errors
    /// `session_not_found`, and the ledger's errors.
    pub async fn erase(
        &self,
        caller: &Caller,
        session_id: SessionId,
    ) -> Result<Written<ErasureReceipt>, Failure> {
        let scope = &caller.scope(Permission::Erase)?;
        let erase = Erase {
            session_id: session_id.clone(),
        };
        let stored = self.write(scope, Write::Erase(erase)).await?;
        let Outcome::Erased(Erased {
            at, items, turns, ..
        }) = stored.outcome
        else {
            return Err(unexpected_outcome());
        };
        tracing::info!(%session_id, items, turns, "[SESSIONS][ERASE]");
        let stores = self.store_receipts(scope, &session_id).await;
        let receipt = ErasureReceipt {
            session_id,
            erased_at: at,
            items,
            turns,
            stores,
        };
        Ok(Written::new(receipt, false, stored.durability))
    }

    /// The result in each store of a redaction or an erasure of the session that the ledger has committed. Cleans the
    /// projections, and waits for this as long as their settings allow.
    pub async fn store_receipts(&self, scope: &Scope, session: &SessionId) -> Vec<StoreReceipt> {
        let mut stores = vec![StoreReceipt {
            store: "ledger",
            name: None,
            status: ERASED,
            remains: self.ledger.backend().remains,
        }];
        stores.extend(self.tiers.as_ref().map(|tiers| StoreReceipt {
            store: "hot",
            name: None,
            status: tiers.receipt(scope, session).as_str(),
            remains: tiers.remains(),
        }));
        // An index that keeps nothing is not listed.
        let index = self.index.get().and_then(|index| index.remains());
        stores.extend(index.map(|remains| StoreReceipt {
            store: "index",
            name: None,
            status: "erased",
            remains: Some(remains),
        }));
        stores.extend(self.clean_copies(scope, session).await);
        stores
    }

    /// Erases all sessions of an identity, or of the entire tenant without one, one after the other. Calls `on_receipt`
    /// with every receipt. Returns the number of erased sessions. After a failure, another call erases the remaining
    /// sessions.
    ///
    /// # Errors
    /// `forbidden` for any caller but the operator, those of `on_receipt`, and the ledger's errors.
    pub async fn erase_all(
        &self,
        caller: &Caller,
        identity_id: Option<IdentityId>,
        mut on_receipt: impl FnMut(&ErasureReceipt) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let scope = &caller.scope(Permission::Erase)?;
        if scope.viewer != Viewer::Operator {
            return Err(
                ErrorCode::Forbidden.failure("only the operator erases many sessions at once")
            );
        }
        let filter = SessionFilter {
            identity_id,
            ..SessionFilter::default()
        };
        let mut count = 0;
        loop {
            // An erased session is no longer listed, so the first page always has the next sessions to erase.
            let page = self
                .ledger
                .sessions(scope, filter.clone(), None, SESSIONS_PER_PAGE);
            let (sessions, _) = page.await?;
            if sessions.is_empty() {
                return Ok(count);
            }
            for session in sessions {
                let receipt = self.erase(caller, session.session_id).await?;
                on_receipt(&receipt)?;
                count += 1;
            }
        }
    }

    /// Cleans the copies of a session outside the ledger. Returns their receipts.
    async fn clean_copies(&self, scope: &Scope, session: &SessionId) -> Vec<StoreReceipt> {
        let Some(cleaner) = self.cleaner.get() else {
            return Vec::new();
        };
        let receipts = cleaner.clean(&scope.tenant, session).await;
        for receipt in receipts.iter().filter(|receipt| receipt.status == PENDING) {
            let projection = receipt.name.as_deref().unwrap_or_default();
            tracing::warn!(session_id = %session, projection, "[PROJECTIONS][CLEAN] pending");
        }
        receipts
    }
}
