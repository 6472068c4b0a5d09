//! Checks of a write before its first row is written.

use std::collections::BTreeSet;

use filrouge_types::{ErrorCode, Failure, Result};

use super::{ActiveWrite, TURN_ITEMS_MAX, final_slot};
use crate::read::VerifiedSession;
use crate::record::Batch;
use crate::rows::{SEQ_MAX, Tx};

/// Checks, before `added` items are appended, that the newest stored item is the one that the head names, and that the
/// session stays within the limit of items.
pub(in crate::rules) fn check_tail<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    added: u64,
) -> Result<()> {
    let newest = w.tx.newest_seq(session.pk)?;
    if newest != session.head.last_seq {
        let (seq, detail) = if newest < session.head.last_seq {
            (newest + 1, "the item is missing")
        } else {
            (session.head.last_seq + 1, "an item was added")
        };
        return Err(session.integrity_failure(Some(seq), detail));
    }
    if session.head.last_seq + added > SEQ_MAX {
        return Err(
            ErrorCode::LimitExceeded.failure(format!("a session has at most {SEQ_MAX} items"))
        );
    }
    Ok(())
}

/// Checks that the turn gets at most one final item of each variant (DESIGN §4.3). `has_final` states which variants
/// the turn has already.
pub(in crate::rules) fn check_finals(batch: &Batch, mut has_final: [bool; 2]) -> Result<()> {
    for item in batch.items() {
        if let Some(slot) = final_slot(item.role, &item.channel, item.variant) {
            if has_final[slot] {
                return Err(ErrorCode::FinalExists
                    .failure(format!(
                        "the turn has a final item of variant {} already",
                        item.variant
                    ))
                    .with_hint("use another channel, or replace the turn once it is closed"));
            }
            has_final[slot] = true;
        }
    }
    Ok(())
}

/// Checks that no item id occurs twice in a batch; ids are unique in their session.
pub(in crate::rules) fn check_unique_ids(batch: &Batch) -> Result<()> {
    let mut ids = BTreeSet::new();
    match batch
        .items()
        .filter_map(|i| i.item_id.as_ref())
        .find(|id| !ids.insert(*id))
    {
        Some(id) => Err(Failure::new(
            ErrorCode::Invalid,
            format!("item_id {:?} occurs twice in the batch", id.as_str()),
        )),
        None => Ok(()),
    }
}

/// Refuses a batch without items. Every change of a turn is stored with an item.
pub(in crate::rules) fn check_not_empty(batch: &Batch) -> Result<()> {
    if batch.count() == 0 {
        return Err(Failure::new(ErrorCode::Invalid, "the batch holds no item"));
    }
    Ok(())
}

/// Checks that a turn with `present` items stays within the limit when it gets this batch.
pub(in crate::rules) fn check_count(present: u64, batch: &Batch) -> Result<()> {
    if present + batch.count() > TURN_ITEMS_MAX {
        return Err(
            ErrorCode::LimitExceeded.failure(format!("a turn has at most {TURN_ITEMS_MAX} items"))
        );
    }
    Ok(())
}
