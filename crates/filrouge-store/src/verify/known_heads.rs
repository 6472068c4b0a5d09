//! The newest state of every head and note according to the commit log, in memory.

mod head_check;

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError, RwLock};

use filrouge_types::{ErrorCode, Failure, lock};

use super::suspects::{Name, Suspects};
use crate::keyring::{Keyring, MAC_BYTES};
use crate::lane::{Lane, Lanes};
use crate::rows::{Change, LogEntry, LogRow, SessionPk, View};

pub(crate) use head_check::DELETED;
pub use head_check::HeadCheck;

/// The number of commits per read.
const COMMITS_PER_READ: usize = 1024;

/// The first half of a MAC, which the commit log stores.
pub(super) type MacHalf = [u8; 8];

pub(super) fn first_half(mac: &[u8; MAC_BYTES]) -> MacHalf {
    let mut half = [0; 8];
    half.copy_from_slice(&mac[..8]);
    half
}

/// The names of sessions by their numbers.
pub(super) type Names = BTreeMap<SessionPk, Name>;

/// The heads and notes of the store: the first half of the MAC of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heads {
    pub(super) sessions: BTreeMap<SessionPk, MacHalf>,
    pub(super) notes: BTreeMap<Box<str>, MacHalf>,
}

impl Heads {
    /// Applies the change of one log entry.
    pub(super) fn advance(&mut self, entry: LogEntry) {
        match entry.change {
            Change::Note(name) => self.notes.insert(name, entry.head),
            _ => self.sessions.insert(entry.pk, entry.head),
        };
    }
}

/// A head or note, and the number of the commit of its lane that wrote it.
#[derive(Clone, Copy)]
struct KnownHead {
    half: MacHalf,
    commit_no: u64,
}

/// The state of all heads and notes after one commit of each lane.
struct KnownState {
    lanes: Lanes,
    /// These commits, by the lane; `None` for a lane without commits.
    newest: Vec<Option<LogRow>>,
    sessions: HashMap<SessionPk, KnownHead>,
    /// The numbers of sessions, by the hash of tenant and session id.
    names: HashMap<u64, SessionPk>,
    notes: BTreeMap<Box<str>, KnownHead>,
}

impl KnownState {
    /// The number of the newest applied commit of a lane.
    fn commit_no(&self, lane: Lane) -> u64 {
        commit_no_of(self.newest[lane.index()].as_ref())
    }
}

/// The newest state of every head and note: filled when a store is opened, and advanced by each commit that this
/// process verifies. Every head or note that is read is compared with it, so a
/// missing one, or an older one that was put back, is detected when it is read. Uses about 80 bytes for each session.
#[derive(Default)]
pub struct KnownHeads {
    /// `None` before the first comparison of all heads.
    known: RwLock<Option<KnownState>>,
    hasher: RandomState,
    /// The suspects that reads have found since the last [`Self::take_suspects`].
    found_suspects: Mutex<Suspects>,
}

/// An integrity failure of the store, without a session.
pub(super) fn store_failure(detail: String) -> Failure {
    Failure::new(ErrorCode::IntegrityError, detail)
}

/// The entries of a commit; fails if they are malformed.
pub(super) fn commit_entries(row: &LogRow) -> Result<Vec<LogEntry>, Failure> {
    row.entries()
        .ok_or_else(|| store_failure(format!("commit {} is malformed", row.commit_no)))
}

/// Names the lane of a commit in a message; empty if the store has one lane only.
pub(super) fn in_lane(lanes: Lanes, lane: Lane) -> String {
    match lanes {
        Lanes::ONE => String::new(),
        _ => format!(" of lane {lane}"),
    }
}

/// The number of a commit; 0 for `None`.
pub(super) fn commit_no_of(row: Option<&LogRow>) -> u64 {
    row.map_or(0, |row| row.commit_no)
}

/// The commits of a lane after `previous`, up to number `last` or the end of the log.
pub(super) struct CommitRange {
    pub(super) lane: Lane,
    pub(super) previous: Option<LogRow>,
    pub(super) last: u64,
}

impl CommitRange {
    /// All commits of a lane.
    pub(super) const fn all(lane: Lane) -> Self {
        Self {
            lane,
            previous: None,
            last: u64::MAX,
        }
    }
}

/// Reads a range of commits of `view`, and passes them to `each`. Fails at the first one that does not continue the
/// chain. `fetched` are commits that were already read; they are used if they directly follow the range's `previous`.
/// Returns the last commit.
pub(super) fn read_commits<V: View + ?Sized>(
    view: &V,
    keyring: &Keyring,
    CommitRange {
        lane,
        mut previous,
        last,
    }: CommitRange,
    mut fetched: Vec<LogRow>,
    mut each: impl FnMut(&LogRow) -> Result<(), Failure>,
) -> Result<Option<LogRow>, Failure> {
    let next = commit_no_of(previous.as_ref()) + 1;
    fetched.retain(|row| row.commit_no >= next);
    fetched.sort_unstable_by_key(|row| row.commit_no);
    if fetched.first().is_some_and(|row| row.commit_no != next) {
        fetched.clear();
    }
    while commit_no_of(previous.as_ref()) < last {
        let rows = match fetched.is_empty() {
            true => view.log(lane, commit_no_of(previous.as_ref()), COMMITS_PER_READ)?,
            false => std::mem::take(&mut fetched),
        };
        if rows.is_empty() {
            break;
        }
        for row in rows {
            // A commit whose key is missing cannot be checked, and passes.
            if row.follows(previous.as_ref(), keyring) == Some(false) {
                let lane = in_lane(view.lanes(), row.lane);
                return Err(store_failure(format!(
                    "the commit log is broken at commit {}{lane}",
                    row.commit_no
                )));
            }
            each(&row)?;
            previous = Some(row);
        }
    }
    Ok(previous)
}

impl KnownHeads {
    /// Applies a verified commit if it follows the newest applied one of its lane; ignores it otherwise. `catch_up` applies the
    /// missing commits later.
    pub fn advance(&self, row: &LogRow) {
        // A verified commit is never malformed. If it were, the next comparison would fail.
        let _ = self.apply(row);
    }

    fn apply(&self, row: &LogRow) -> Result<(), Failure> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.as_mut() else {
            return Ok(());
        };
        let commit_no = row.commit_no;
        if commit_no != known.commit_no(row.lane) + 1 {
            return Ok(());
        }
        for entry in commit_entries(row)? {
            let head = KnownHead {
                half: entry.head,
                commit_no,
            };
            match entry.change {
                Change::Note(name) => {
                    known.notes.insert(name, head);
                    continue;
                }
                Change::Created(tenant, session, _) => {
                    let name = self.hasher.hash_one((&tenant, &session));
                    known.names.insert(name, entry.pk);
                }
                _ => {}
            }
            known.sessions.insert(entry.pk, head);
        }
        known.newest[row.lane.index()] = Some(row.clone());
        Ok(())
    }

    /// Applies the commits of a lane of `view` that have not been applied yet.
    pub(super) fn catch_up<V: View + ?Sized>(
        &self,
        view: &V,
        lane: Lane,
        keyring: &Keyring,
    ) -> Result<(), Failure> {
        let Some(newest) = self.read(|known| known.newest[lane.index()].clone()) else {
            return Ok(());
        };
        let commits = CommitRange {
            previous: newest,
            ..CommitRange::all(lane)
        };
        read_commits(view, keyring, commits, Vec::new(), |row| self.apply(row)).map(drop)
    }

    /// Applies `get` to the known state; `None` if no state is known yet.
    fn read<R>(&self, get: impl FnOnce(&KnownState) -> R) -> Option<R> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().map(get)
    }

    /// Whether no state is known yet.
    pub(super) fn is_empty(&self) -> bool {
        self.read(|_| ()).is_none()
    }

    /// Stores these heads as the known state after the commits `newest`, one for each lane, unless a state is known
    /// already.
    pub(super) fn fill(
        &self,
        lanes: Lanes,
        newest: Vec<Option<LogRow>>,
        heads: Heads,
        names: &Names,
    ) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.is_some() {
            return;
        }
        let commit_nos: Vec<u64> = newest
            .iter()
            .map(|row| commit_no_of(row.as_ref()))
            .collect();
        let known_head = |lane: Lane, half| KnownHead {
            half,
            commit_no: commit_nos[lane.index()],
        };
        *known = Some(KnownState {
            lanes,
            newest,
            names: names
                .iter()
                .map(|(pk, (tenant, session))| (self.hasher.hash_one((tenant, session)), *pk))
                .collect(),
            sessions: heads
                .sessions
                .into_iter()
                .map(|(pk, half)| (pk, known_head(lanes.of_pk(pk), half)))
                .collect(),
            notes: heads
                .notes
                .into_iter()
                .map(|(name, half)| (name, known_head(Lane::FIRST, half)))
                .collect(),
        });
    }

    /// Whether all heads and notes of a snapshot equal the known ones; `true` if no state is known yet. `newest` are the
    /// newest commits of the snapshot, one for each lane; the caller has applied all commits up to them. Heads and notes
    /// that later commits have written are not compared.
    pub(super) fn has_same_heads(&self, newest: &[Option<LogRow>], heads: &Heads) -> bool {
        let is_same = |lane: Lane, known: &KnownHead, stored: Option<&MacHalf>| {
            let snapshot_no = commit_no_of(newest[lane.index()].as_ref());
            known.commit_no > snapshot_no || stored == Some(&known.half)
        };
        let is_equal = self.read(|known| {
            let (sessions, notes) = (&heads.sessions, &heads.notes);
            known
                .sessions
                .iter()
                .all(|(pk, head)| is_same(known.lanes.of_pk(*pk), head, sessions.get(pk)))
                && known
                    .notes
                    .iter()
                    .all(|(name, head)| is_same(Lane::FIRST, head, notes.get(name)))
                && sessions.keys().all(|pk| known.sessions.contains_key(pk))
                && notes.keys().all(|name| known.notes.contains_key(name))
        });
        is_equal.unwrap_or(true)
    }

    /// Returns the suspects that reads have found since the last call.
    pub fn take_suspects(&self) -> Suspects {
        std::mem::take(&mut *lock(&self.found_suspects))
    }

    fn add_found_suspects(&self, more: Suspects) {
        let mut found_suspects = lock(&self.found_suspects);
        *found_suspects = found_suspects.merged_with(more);
    }
}
