//! Applies a group of writes in one transaction.

use std::panic::{AssertUnwindSafe, catch_unwind};

use filrouge_types::{ErrorCode, Failure, Timestamp};

use super::Request;
use crate::command::Outcome;
use crate::keyring::{Entropy, Keyring};
use crate::rows::{LogRow, Tx};
use crate::rules::{self, CommitGroup, RuleContext};
use crate::verify::VerifiedLog;

/// A transaction of several writes.
pub trait GroupTx: Tx {
    /// A number that changes with every row that the transaction writes.
    fn rows_written(&self) -> u64;

    /// Whether the transaction accepts no further statement, because one has failed.
    fn is_unusable(&self) -> bool;
}

/// The effect of a group's transaction.
pub struct GroupOutcome {
    /// The outcome of each write, in the order of the group.
    pub outcomes: Vec<Result<Outcome, Failure>>,
    /// The commit's row of the commit log; `None` if no write has changed anything.
    pub log: Option<LogRow>,
    /// Whether contents were redacted or erased, so that the store must also remove them from its free space.
    pub erases: bool,
}

/// The reason why a transaction was rolled back.
pub enum Aborted {
    /// One write failed after it had written rows, panicked, or made the transaction unusable.
    Write(Failure),
    /// The store failed.
    Store(Failure),
}

/// Whether the store itself failed, perhaps in the middle of a write. Any other failure is a refusal by the rules.
#[must_use]
pub const fn is_store_failure(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::StoreUnavailable | ErrorCode::StoreFull | ErrorCode::StoreReadOnly
    )
}

/// Applies the rules to each write of `group`, and adds the row of the commit log. Heads are compared with those that
/// `verified` knows. The caller commits, or rolls back after [`Aborted`].
///
/// # Errors
/// [`Aborted`]
pub fn apply_group<T: GroupTx>(
    tx: &mut T,
    group: &[Request],
    (verified, keyring): (&VerifiedLog, &Keyring),
    (entropy, now): (&dyn Entropy, Timestamp),
) -> Result<GroupOutcome, Aborted> {
    let suspects = verified.suspects();
    let ctx = RuleContext {
        keyring,
        entropy,
        now,
        suspects: &suspects,
        known_heads: Some(verified.known_heads()),
    };
    // A panic in the rules must fail the write that caused it, and must not end the writer's thread.
    let applied = catch_unwind(AssertUnwindSafe(|| apply_all(tx, group, &ctx)));
    verified.add_found_suspects();
    applied.unwrap_or_else(|_| {
        let what = "a write panicked; the panic is in the log";
        Err(Aborted::Write(Failure::new(ErrorCode::Internal, what)))
    })
}

fn apply_all<T: GroupTx>(
    tx: &mut T,
    group: &[Request],
    ctx: &RuleContext<'_>,
) -> Result<GroupOutcome, Aborted> {
    let mut log = CommitGroup::begin(tx, ctx.keyring).map_err(Aborted::Store)?;
    let mut outcomes = Vec::with_capacity(group.len());
    let mut erases = false;
    for request in group {
        let before = tx.rows_written();
        let outcome = rules::apply(tx, &mut log, ctx, &request.command);
        let changed = tx.rows_written() != before;
        match outcome {
            Err(failure) if is_store_failure(&failure) => return Err(Aborted::Store(failure)),
            // The rows that a failed write has already written must not be committed with those of the others.
            Err(failure) if changed || failure.code == ErrorCode::Internal || tx.is_unusable() => {
                return Err(Aborted::Write(failure));
            }
            outcome => {
                erases |= match &outcome {
                    Ok(Outcome::Redacted(redacted)) => !redacted.replayed,
                    Ok(Outcome::Erased(_)) => changed,
                    _ => false,
                };
                outcomes.push(outcome);
            }
        }
    }
    let log = log.finish(tx, ctx).map_err(Aborted::Store)?;
    Ok(GroupOutcome {
        outcomes,
        log,
        erases,
    })
}
