//! Lets an index follow the ledger: finds the sessions of all tenants that new commits changed, and reads those
//! sessions or the turns that changed (DESIGN §10).

mod reading;

use std::collections::HashMap;

use filrouge_store::ledger::{LanePosition, Position};
use filrouge_store::read::LedgerSnapshot;
use filrouge_store::rows::{Change, LogEntry, LogRow, SessionPk, View};
use filrouge_store::{Lane, MAC_BYTES, Viewer};
use filrouge_types::{Channel, ErrorCode, Failure, Recorded, SessionId, TenantId, Timestamp};
use tokio::sync::watch;

pub use reading::{Extent, SessionAtCommit, SessionPart};

use crate::caller::Caller;
use crate::engine::IndexFeed;

/// A session that a range of commits changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSession {
    /// The session's tenant.
    pub tenant: TenantId,
    /// The session's id.
    pub session: SessionId,
    /// The number, in the session's lane, of the newest commit in the range that changed the session.
    pub newest: u64,
    /// Whether the session was erased.
    pub erased: bool,
    /// Whether the entire session must be read again.
    pub must_reread_entirely: bool,
    /// Whether the session's listed fields or its owner changed.
    pub is_patched: bool,
    /// The ranges of seqs that were added, as first and last seq, ascending. Empty if no items were added, for example
    /// if only the title changed.
    pub seq_ranges: Vec<(u64, u64)>,
}

impl ChangedSession {
    /// Whether one of the added items is a redaction, in the session as read after the change.
    #[must_use]
    pub fn adds_redaction(&self, read: &Recorded) -> bool {
        let is_added = |seq| {
            let mut ranges = self.seq_ranges.iter();
            ranges.any(|(first, last)| (*first..=*last).contains(&seq))
        };
        let mut loose = read.loose.iter();
        loose.any(|item| item.body.channel == Channel::Redaction && is_added(item.seq))
    }
}

/// Whether a failure of [`IndexFeed::read_session`] concerns this session alone, and not the store.
#[must_use]
pub const fn is_of_session(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::IntegrityError | ErrorCode::KeyMissing | ErrorCode::LimitExceeded
    )
}

/// The sessions that a range of commits changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSessions {
    /// The sessions, by lane, and in a lane in the order in which they first changed.
    pub sessions: Vec<ChangedSession>,
    /// The number of changed sessions that `sessions` lacks, because the store has no readable row of them.
    pub unreadable: u64,
    /// The last commit of each lane that was examined, or the requested position in a lane in which none was.
    pub end: Position,
    /// Of the lanes in which commits follow the requested position: the earliest time of the commit at the position.
    /// `None` if there is no such lane, or if the position is at the beginning of one of them.
    pub since: Option<Timestamp>,
    /// The number of the store's commits.
    pub newest: u64,
}

impl IndexFeed {
    /// A receiver of the number of the ledger's commits, which is notified when the number changes.
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.ledger.commits()
    }

    /// The newest commit of each lane of the ledger, as far as this process knows.
    pub fn position(&self) -> Position {
        self.ledger.position()
    }

    /// The store's unique id.
    pub fn store_id(&self) -> &str {
        self.ledger.store_id()
    }

    /// The keyed hash of the owner whose sessions `caller` may list; `None` if it may list those of the entire tenant.
    pub fn owner(&self, caller: &Caller) -> Option<[u8; MAC_BYTES]> {
        let keyring = self.ledger.keyring();
        match &caller.viewer() {
            Viewer::Operator => None,
            Viewer::EndUser(Some(identity)) => Some(keyring.owner(Some(identity), None)),
            Viewer::EndUser(None) => Some(keyring.owner(None, caller.token())),
        }
    }

    /// The sessions of all tenants that the next commits after `after` changed. At most `commits` commits are examined,
    /// at most the same number of each lane, but at least one of each lane. Commit number 0 means the beginning of a
    /// lane. `None` if `after` is not a commit of this store in every lane. Ephemeral sessions are not included.
    ///
    /// # Errors
    /// `integrity_error` and `key_missing` if the commits cannot be verified, and the ledger's errors.
    pub async fn changed_after(
        &self,
        after: Position,
        commits: usize,
    ) -> Result<Option<ChangedSessions>, Failure> {
        self.query_changes(after, commits, false).await
    }

    /// As [`Self::changed_after`], and also the sessions that got an event or a checkpoint.
    ///
    /// # Errors
    /// As [`Self::changed_after`].
    pub async fn all_changed_after(
        &self,
        after: Position,
        commits: usize,
    ) -> Result<Option<ChangedSessions>, Failure> {
        self.query_changes(after, commits, true).await
    }

    async fn query_changes(
        &self,
        after: Position,
        commits: usize,
        with_events: bool,
    ) -> Result<Option<ChangedSessions>, Failure> {
        let query = move |snapshot: &LedgerSnapshot<'_>| {
            collect_changes(snapshot, after, commits, with_events)
        };
        self.ledger.query(query).await
    }
}

/// The sessions that the next commits after `after` changed, as [`IndexFeed::changed_after`] or
/// [`IndexFeed::all_changed_after`].
fn collect_changes(
    snapshot: &LedgerSnapshot<'_>,
    after: Position,
    commits: usize,
    with_events: bool,
) -> Result<Option<ChangedSessions>, Failure> {
    let lanes = snapshot.view.lanes();
    if after.iter().any(|(lane, _)| lane.number() >= lanes.count()) {
        return Ok(None);
    }
    let limit = (commits / usize::from(lanes.count())).max(1);
    let start = |lane| (lane, after.lane(lane).commit_no.saturating_sub(1));
    let starts: Vec<_> = lanes.iter().map(start).collect();
    let (mut end, mut newest, mut times) = (after.clone(), 0, Vec::new());
    let mut collector = ChangeCollector {
        with_events,
        ..ChangeCollector::default()
    };
    // The log is read from the commit at each position on.
    for (lane, rows) in lanes.iter().zip(snapshot.view.logs(&starts, limit + 1)?) {
        let at = after.lane(lane);
        let Some(next) = NextCommits::of_lane(snapshot.view, (lane, at), rows, limit)? else {
            return Ok(None);
        };
        newest += next.newest;
        if next.newest > at.commit_no {
            times.push(next.previous.as_ref().map(|row| row.at));
        }
        let mut previous = next.previous;
        for row in next.rows {
            for entry in snapshot.entries(&row, previous.as_ref())? {
                collector.add(snapshot, row.commit_no, &entry)?;
            }
            end.set(lane, LanePosition::of_commit(Some(&row)));
            previous = Some(row);
        }
    }
    Ok(Some(ChangedSessions {
        sessions: collector.sessions,
        unreadable: collector.unreadable,
        end,
        // `None`, the beginning of a lane, is less than every time.
        since: times.into_iter().min().flatten(),
        newest,
    }))
}

/// The next commits of a lane after a position.
struct NextCommits {
    /// The commit at the position; `None` at the beginning.
    previous: Option<LogRow>,
    rows: Vec<LogRow>,
    /// The number of the lane's newest commit.
    newest: u64,
}

impl NextCommits {
    /// Takes at most `limit` commits after the position `at` from `rows`, which are the next `limit + 1` commits from
    /// the one at the position on. `None` if the position is not a commit of the lane.
    fn of_lane(
        view: &(dyn View + '_),
        (lane, at): (Lane, LanePosition),
        mut rows: Vec<LogRow>,
        limit: usize,
    ) -> Result<Option<Self>, Failure> {
        let newest = match rows.len() > limit {
            true => view.newest_log(lane)?.map(|row| row.commit_no),
            false => rows.last().map(|row| row.commit_no),
        };
        let previous = match at.commit_no > 0 && !rows.is_empty() {
            true => Some(rows.remove(0)),
            false => None,
        };
        rows.truncate(limit);
        let is_commit = LanePosition::of_commit(previous.as_ref()) == at;
        Ok(is_commit.then_some(Self {
            previous,
            rows,
            newest: newest.unwrap_or(0),
        }))
    }
}

/// Collects the changed sessions of a range of commits.
#[derive(Default)]
struct ChangeCollector {
    /// Whether events and checkpoints count as changes.
    with_events: bool,
    sessions: Vec<ChangedSession>,
    /// The index of each session in `sessions`; `None` for a session without a readable row.
    indexes: HashMap<SessionPk, Option<usize>>,
    unreadable: u64,
}

impl ChangeCollector {
    fn add(
        &mut self,
        snapshot: &LedgerSnapshot<'_>,
        commit_no: u64,
        entry: &LogEntry,
    ) -> Result<(), Failure> {
        let is_relevant = match entry.change {
            Change::Items
            | Change::Created(..)
            | Change::Linked(_)
            | Change::Patched
            | Change::Erased => true,
            Change::Event | Change::Checkpoint => self.with_events,
            Change::Note(_) | Change::Draft | Change::Lease => false,
        };
        if !is_relevant {
            return Ok(());
        }
        let index = match self.indexes.get(&entry.pk) {
            Some(index) => *index,
            None => self.add_session(snapshot, entry.pk)?,
        };
        let Some(changed) = index.and_then(|index| self.sessions.get_mut(index)) else {
            return Ok(());
        };
        changed.newest = commit_no;
        changed.erased |= entry.change == Change::Erased;
        changed.is_patched |= matches!(entry.change, Change::Linked(_) | Change::Patched);
        changed.must_reread_entirely |= match entry.change {
            Change::Created(..) => true,
            // Without added items, the entry says that a turn changed, but not which one.
            Change::Items => entry.count == 0,
            _ => false,
        };
        if entry.count > 0 {
            let last = entry.first_seq + entry.count - 1;
            match changed.seq_ranges.last_mut() {
                Some(range) if range.1 + 1 == entry.first_seq => range.1 = last,
                _ => changed.seq_ranges.push((entry.first_seq, last)),
            }
        }
        Ok(())
    }

    fn add_session(
        &mut self,
        snapshot: &LedgerSnapshot<'_>,
        pk: SessionPk,
    ) -> Result<Option<usize>, Failure> {
        let stored = match snapshot.view.session_by_pk(pk) {
            Err(failure) if failure.code != ErrorCode::IntegrityError => return Err(failure),
            stored => stored.ok().flatten(),
        };
        let index = stored.map(|stored| {
            self.sessions.push(ChangedSession {
                tenant: stored.row.tenant_id,
                session: stored.row.session_id,
                newest: 0,
                erased: false,
                must_reread_entirely: false,
                is_patched: false,
                seq_ranges: Vec::new(),
            });
            self.sessions.len() - 1
        });
        self.unreadable += u64::from(index.is_none());
        self.indexes.insert(pk, index);
        Ok(index)
    }
}

#[cfg(test)]
mod tests;
