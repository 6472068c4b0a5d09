//! Applies a group of writes in one transaction.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use filrouge_types::{ErrorCode, Failure, Timestamp};

use super::Request;
use crate::command::Outcome;
use crate::keyring::{Entropy, Keyring};
use crate::lane::Lane;
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
    /// The row of the commit log of each lane that the transaction has changed.
    pub commits: Vec<LogRow>,
    /// The lanes in which contents were redacted or erased, so that the store must also remove them from its free space.
    pub erases: BTreeSet<Lane>,
}

/// The reason why a transaction was rolled back.
pub enum Aborted {
    /// One write failed after it had written rows, panicked, or made the transaction unusable.
    Write(Failure),
    /// The store failed.
    Store(Failure),
    /// Another server kept this lane locked. Its writes that have waited for it for at least this time are refused with
    /// the failure. All other writes of the group stay pending.
    Lane(Lane, Duration, Failure),
}

/// Whether the store itself failed, perhaps in the middle of a write. Any other failure is a refusal by the rules.
pub const fn is_store_failure(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::StoreUnavailable | ErrorCode::StoreFull | ErrorCode::StoreReadOnly
    )
}

/// Applies the rules to each write of `group`, and adds a row to the commit log of each lane that they change. Heads
/// are compared with those that `verified` knows. `lease_now` is the time by which leases end, `server` returns the name
/// of this server. The caller commits, or rolls back after [`Aborted`].
///
/// # Errors
/// [`Aborted`]
pub fn apply_group<T: GroupTx>(
    tx: &mut T,
    group: &[Request],
    (verified, keyring, server): (&VerifiedLog, &Keyring, &(dyn Fn() -> String + Sync)),
    (entropy, now, lease_now): (&dyn Entropy, Timestamp, Timestamp),
) -> Result<GroupOutcome, Aborted> {
    let suspects = verified.suspects();
    let ctx = RuleContext {
        keyring,
        entropy,
        now,
        lease_now,
        server,
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
    let mut groups: BTreeMap<Lane, CommitGroup> = BTreeMap::new();
    let mut outcomes = Vec::with_capacity(group.len());
    let mut erases = BTreeSet::new();
    for request in group {
        let lane = request.lane;
        let log = match groups.entry(lane) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let log = CommitGroup::begin(tx, lane, ctx.keyring).map_err(Aborted::Store)?;
                entry.insert(log)
            }
        };
        let before = tx.rows_written();
        let outcome = rules::apply(tx, log, ctx, &request.command);
        let changed = tx.rows_written() != before;
        match outcome {
            Err(failure) if is_store_failure(&failure) => return Err(Aborted::Store(failure)),
            // The rows that a failed write has already written must not be committed with those of the others.
            Err(failure) if changed || failure.code == ErrorCode::Internal || tx.is_unusable() => {
                return Err(Aborted::Write(failure));
            }
            outcome => {
                let is_erasing = match &outcome {
                    Ok(Outcome::Redacted(redacted)) => !redacted.replayed,
                    Ok(Outcome::Erased(_)) => changed,
                    _ => false,
                };
                erases.extend(is_erasing.then_some(lane));
                outcomes.push(outcome);
            }
        }
    }
    let mut commits = Vec::with_capacity(groups.len());
    for log in groups.into_values() {
        commits.extend(log.finish(tx, ctx).map_err(Aborted::Store)?);
    }
    Ok(GroupOutcome {
        outcomes,
        commits,
        erases,
    })
}
