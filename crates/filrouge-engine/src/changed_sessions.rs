//! Lets an index follow the ledger: finds the sessions of all tenants that new commits changed, and reads those
//! sessions or the turns that changed (DESIGN §10).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use filrouge_store::ledger::Position;
use filrouge_store::read::{SessionOrTombstone, VerifiedSession, VerifiedSnapshot, in_session};
use filrouge_store::rows::{Change, LogEntry, SessionPk, View};
use filrouge_store::{MAC_BYTES, Scope, Viewer};
use filrouge_types::{ErrorCode, Failure, Recorded, SessionId, TenantId, Timestamp, Turn, TurnId};
use tokio::sync::watch;

use crate::caller::{Caller, Permission};
use crate::conversation::{self, CONTENTS_MAX};
use crate::engine::IndexFeed;

/// A session that a range of commits changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSession {
    /// The session's tenant.
    pub tenant: TenantId,
    /// The session's id.
    pub session: SessionId,
    /// The number of the newest commit in the range that changed the session.
    pub newest: u64,
    /// Whether the session was erased.
    pub erased: bool,
    /// Whether the entire session must be read again.
    pub must_reread_entirely: bool,
    /// The ranges of seqs that were added, as first and last seq, ascending. Empty if no items were added, for example
    /// if only the title changed.
    pub seq_ranges: Vec<(u64, u64)>,
}

/// The sessions that a range of commits changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSessions {
    /// The sessions, in the order in which they first changed.
    pub sessions: Vec<ChangedSession>,
    /// The number of changed sessions that `sessions` lacks, because the store has no readable row of them.
    pub unreadable: u64,
    /// The last commit that was examined, or the requested position if no commit follows it.
    pub end: Position,
    /// The time of the commit at the requested position; `None` if that is the beginning.
    pub since: Option<Timestamp>,
    /// The number of the store's newest commit.
    pub newest: u64,
}

/// The part of a session to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// The entire session.
    Entire,
    /// The turns of the items in these inclusive ranges of seqs, each complete and in its newest version, and those
    /// items in the ranges that belong to no turn.
    Turns(Vec<(u64, u64)>),
}

/// A session as it was at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionAtCommit {
    /// The number of the store's newest commit when the session was read.
    pub commit_no: u64,
    /// The keyed hash of the session's owner, or of its session token: [`filrouge_store::Keyring::owner`].
    pub owner: [u8; MAC_BYTES],
    /// The requested part of the session.
    pub conversation: Recorded,
}

impl IndexFeed {
    /// A receiver of the number of the ledger's newest commit, which is notified when the number changes.
    #[must_use]
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.ledger.commits()
    }

    /// The ledger's newest commit, as far as this process knows.
    #[must_use]
    pub fn position(&self) -> Position {
        self.ledger.position()
    }

    /// The store's unique id.
    #[must_use]
    pub fn store_id(&self) -> &str {
        self.ledger.store_id()
    }

    /// The keyed hash of the owner whose sessions `caller` may list; `None` if it may list those of the entire tenant.
    #[must_use]
    pub fn owner(&self, caller: &Caller) -> Option<[u8; MAC_BYTES]> {
        let keyring = self.ledger.keyring();
        match &caller.viewer() {
            Viewer::Operator => None,
            Viewer::EndUser(Some(identity)) => Some(keyring.owner(Some(identity), None)),
            Viewer::EndUser(None) => Some(keyring.owner(None, caller.token())),
        }
    }

    /// The sessions of all tenants that the next commits after `after` changed; at most `commits` commits are examined.
    /// Commit number 0 means the beginning. `None` if `after` is not a commit of this store. Ephemeral sessions are not
    /// included.
    ///
    /// # Errors
    /// `integrity_error` and `key_missing` if the commits cannot be verified, and the ledger's errors.
    pub async fn changed_after(
        &self,
        after: Position,
        commits: usize,
    ) -> Result<Option<ChangedSessions>, Failure> {
        let query = move |snapshot: &VerifiedSnapshot<'_, dyn View + '_>| {
            collect_changes(snapshot, after, commits)
        };
        self.ledger.query(query).await
    }

    /// A session of the ledger as `caller` sees it, or some of its turns, from one consistent snapshot. `None` if the
    /// session was erased or does not exist.
    ///
    /// # Errors
    /// `limit_exceeded` when the requested part has more than 256 MiB, `integrity_error`, `key_missing`, and the
    /// ledger's errors.
    pub async fn read_session(
        &self,
        caller: &Caller,
        session: &SessionId,
        extent: Extent,
    ) -> Result<Option<SessionAtCommit>, Failure> {
        let scope = caller.scope(Permission::Read)?;
        let id = session.clone();
        let session_at_commit = self.ledger.query(move |snapshot| {
            let loaded = match snapshot.find_or_tombstone(&scope, &id)? {
                Some(SessionOrTombstone::Live(loaded)) => *loaded,
                Some(SessionOrTombstone::Erased(_)) | None => return Ok(None),
            };
            let row = &loaded.row;
            let owner = snapshot.keyring.owner(row.identity_id.as_ref(), row.token);
            let newest = snapshot.view.newest_log()?;
            let read = match extent {
                Extent::Entire => conversation::read_conversation(snapshot, loaded),
                Extent::Turns(seq_ranges) => read_turns(snapshot, &scope, loaded, &seq_ranges),
            };
            Ok(Some(SessionAtCommit {
                commit_no: newest.map_or(0, |row| row.commit_no),
                owner,
                conversation: in_session(&id, read)?,
            }))
        });
        session_at_commit.await
    }
}

/// The sessions that the next commits after `after` changed; `None` if `after` is not a commit of this store.
fn collect_changes<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    after: Position,
    commits: usize,
) -> Result<Option<ChangedSessions>, Failure> {
    let mut previous = None;
    if after.commit_no > 0 {
        let row = snapshot.view.log(after.commit_no - 1, 1)?.pop();
        match row.filter(|row| row.commit_no == after.commit_no && row.link == after.link) {
            Some(row) => previous = Some(row),
            None => return Ok(None),
        }
    }
    let newest = snapshot.view.newest_log()?.map_or(0, |row| row.commit_no);
    let since = previous.as_ref().map(|row| row.at);
    let (mut end, mut collector) = (after, ChangeCollector::default());
    for row in snapshot.view.log(after.commit_no, commits)? {
        for entry in snapshot.entries(&row, previous.as_ref())? {
            collector.add(snapshot, row.commit_no, &entry)?;
        }
        end = Position {
            commit_no: row.commit_no,
            link: row.link,
        };
        previous = Some(row);
    }
    Ok(Some(ChangedSessions {
        sessions: collector.sessions,
        unreadable: collector.unreadable,
        end,
        since,
        newest,
    }))
}

/// Collects the changed sessions of a range of commits.
#[derive(Default)]
struct ChangeCollector {
    sessions: Vec<ChangedSession>,
    /// The index of each session in `sessions`; `None` for a session without a readable row.
    indexes: HashMap<SessionPk, Option<usize>>,
    unreadable: u64,
}

impl ChangeCollector {
    fn add<V: View + ?Sized>(
        &mut self,
        snapshot: &VerifiedSnapshot<'_, V>,
        commit_no: u64,
        entry: &LogEntry,
    ) -> Result<(), Failure> {
        let is_relevant = matches!(
            entry.change,
            Change::Items | Change::Created(..) | Change::Patched | Change::Erased
        );
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

    fn add_session<V: View + ?Sized>(
        &mut self,
        snapshot: &VerifiedSnapshot<'_, V>,
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
                seq_ranges: Vec::new(),
            });
            self.sessions.len() - 1
        });
        self.unreadable += u64::from(index.is_none());
        self.indexes.insert(pk, index);
        Ok(index)
    }
}

/// Reads the turns that have items in `seq_ranges`, and the items in these ranges that belong to no turn.
fn read_turns<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    scope: &Scope,
    loaded: VerifiedSession,
    seq_ranges: &[(u64, u64)],
) -> Result<Recorded, Failure> {
    let (mut bytes_left, mut ids, mut loose) = (CONTENTS_MAX, BTreeSet::new(), Vec::new());
    for &(first, last) in seq_ranges {
        let last = last.min(loaded.head.last_seq);
        // The items are not deducted from `bytes_left`, because they are read again with their turns.
        let mut scan_bytes_left = bytes_left;
        for item in snapshot.items_between(&loaded, first, last, &mut scan_bytes_left)? {
            match item.turn_id {
                Some(turn) => drop(ids.insert(turn)),
                None => loose.push(item),
            }
        }
    }
    let mut newest = BTreeMap::new();
    for id in ids {
        let turn = newest_version(snapshot, scope, &loaded.row.session_id, id)?;
        newest.insert(turn.ordinal, turn);
    }
    let mut turns = Vec::with_capacity(newest.len());
    for turn in newest.into_values() {
        let mut items =
            snapshot.items_between(&loaded, turn.first_seq, turn.last_seq, &mut bytes_left)?;
        // Items of other turns may be between the turn's own.
        items.retain(|item| item.turn_id == Some(turn.turn_id));
        turns.push((turn, items));
    }
    Ok(Recorded {
        session: loaded.row.with_head(&loaded.head),
        turns,
        loose,
    })
}

fn newest_version<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    scope: &Scope,
    session: &SessionId,
    id: TurnId,
) -> Result<Turn, Failure> {
    let mut turn = snapshot.turn(scope, session, &id)?;
    while let Some(next) = turn.replaced_by_turn_id {
        turn = snapshot.turn(scope, session, &next)?;
    }
    Ok(turn)
}
