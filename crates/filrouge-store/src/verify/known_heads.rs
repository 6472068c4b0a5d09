//! The newest state of every head and note according to the commit log, in memory.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError, RwLock};

use filrouge_types::{ErrorCode, Failure, SessionId, TenantId};

use super::suspects::{Name, Suspects};
use crate::keyring::{Keyring, MAC_BYTES};
use crate::rows::{Change, LogEntry, LogRow, SessionPk, View};

/// The first half of a MAC, which the commit log stores.
pub(super) type Half = [u8; 8];

pub(super) fn half(mac: &[u8; MAC_BYTES]) -> Half {
    let mut half = [0; 8];
    half.copy_from_slice(&mac[..8]);
    half
}

/// The names of sessions by their numbers.
pub(super) type Names = BTreeMap<SessionPk, Name>;

/// The heads and notes of the store: the first half of the MAC of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heads {
    pub(super) sessions: BTreeMap<SessionPk, Half>,
    pub(super) notes: BTreeMap<Box<str>, Half>,
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

/// A head or note, and the commit that wrote it.
#[derive(Clone, Copy)]
struct KnownHead {
    half: Half,
    commit_no: u64,
}

/// The state of all heads and notes after one commit.
struct Known {
    /// This commit; `None` for a store without commits.
    newest: Option<LogRow>,
    sessions: HashMap<SessionPk, KnownHead>,
    /// The numbers of sessions, by the hash of tenant and session id.
    names: HashMap<u64, SessionPk>,
    notes: BTreeMap<Box<str>, KnownHead>,
}

impl Known {
    fn commit_no(&self) -> u64 {
        number(self.newest.as_ref())
    }
}

/// The newest state of every head and note: filled when a store is opened, and advanced by each commit that this
/// process verifies. Each row that is read is compared with it, so that older rows that somebody put back, and missing
/// ones, are detected at once. Uses about 80 bytes for each session.
#[derive(Default)]
pub struct KnownHeads {
    /// `None` before the first comparison of all heads.
    known: RwLock<Option<Known>>,
    hasher: RandomState,
    /// The suspects that reads have found since the last [`Self::take_found`].
    found: Mutex<Suspects>,
}

/// An integrity failure that names no session.
pub(super) fn damaged(what: String) -> Failure {
    Failure::new(ErrorCode::IntegrityError, what)
}

/// The entries of a commit; fails if they are malformed.
pub(super) fn entries(row: &LogRow) -> Result<Vec<LogEntry>, Failure> {
    row.entries()
        .ok_or_else(|| damaged(format!("commit {} is malformed", row.commit_no)))
}

/// The maximum number of commits that one query reads.
const COMMITS: usize = 1024;

/// The number of a commit; 0 for `None`.
pub(super) fn number(row: Option<&LogRow>) -> u64 {
    row.map_or(0, |row| row.commit_no)
}

/// Reads the commits of `view` after `previous`, up to number `last` or the end of the log, and passes them to `each`.
/// Fails at the first one that does not continue the chain. `fetched` are commits that were already read; they are
/// used if they directly follow `previous`. Returns the last commit.
pub(super) fn follow_log<V: View + ?Sized>(
    view: &V,
    keyring: &Keyring,
    (mut previous, last): (Option<LogRow>, u64),
    mut fetched: Vec<LogRow>,
    mut each: impl FnMut(&LogRow) -> Result<(), Failure>,
) -> Result<Option<LogRow>, Failure> {
    let next = number(previous.as_ref()) + 1;
    fetched.retain(|row| row.commit_no >= next);
    fetched.sort_unstable_by_key(|row| row.commit_no);
    if fetched.first().is_some_and(|row| row.commit_no != next) {
        fetched.clear();
    }
    while number(previous.as_ref()) < last {
        let rows = match fetched.is_empty() {
            true => view.log(number(previous.as_ref()), COMMITS)?,
            false => std::mem::take(&mut fetched),
        };
        if rows.is_empty() {
            break;
        }
        for row in rows {
            check_chain(&row, previous.as_ref(), keyring)?;
            each(&row)?;
            previous = Some(row);
        }
    }
    Ok(previous)
}

/// Fails if `row` does not continue the chain after `previous`. A commit whose key is missing cannot be checked, and
/// passes.
pub(super) fn check_chain(
    row: &LogRow,
    previous: Option<&LogRow>,
    keyring: &Keyring,
) -> Result<(), Failure> {
    match row.follows(previous, keyring) {
        Some(false) => Err(damaged(format!(
            "the commit log is broken at commit {}",
            row.commit_no
        ))),
        _ => Ok(()),
    }
}

impl KnownHeads {
    /// Applies a verified commit if it follows the newest applied one, and ignores it otherwise. `catch_up` applies
    /// commits that were missed.
    pub fn advance(&self, row: &LogRow) {
        // A verified commit is never malformed; if it were, the next comparison would fail at it.
        let _ = self.apply(row);
    }

    fn apply(&self, row: &LogRow) -> Result<(), Failure> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.as_mut() else {
            return Ok(());
        };
        let commit_no = row.commit_no;
        if commit_no != known.commit_no() + 1 {
            return Ok(());
        }
        for entry in entries(row)? {
            let logged = KnownHead {
                half: entry.head,
                commit_no,
            };
            match entry.change {
                Change::Note(name) => {
                    known.notes.insert(name, logged);
                    continue;
                }
                Change::Created(tenant, session) => {
                    let name = self.hasher.hash_one((&tenant, &session));
                    known.names.insert(name, entry.pk);
                }
                _ => {}
            }
            known.sessions.insert(entry.pk, logged);
        }
        known.newest = Some(row.clone());
        Ok(())
    }

    /// Applies the commits of `view` that are not applied yet.
    pub(super) fn catch_up<V: View + ?Sized>(
        &self,
        view: &V,
        keyring: &Keyring,
    ) -> Result<(), Failure> {
        let Some(newest) = self.read(|known| known.newest.clone()) else {
            return Ok(());
        };
        let all = (newest, u64::MAX);
        follow_log(view, keyring, all, Vec::new(), |row| self.apply(row)).map(drop)
    }

    fn read<R>(&self, of: impl FnOnce(&Known) -> R) -> Option<R> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().map(of)
    }

    /// Whether no heads are known yet.
    pub(super) fn is_empty(&self) -> bool {
        self.read(|_| ()).is_none()
    }

    /// Stores these heads as the known state after the commit `newest`, unless a state is known already.
    pub(super) fn fill(&self, newest: Option<LogRow>, heads: Heads, names: &Names) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.is_some() {
            return;
        }
        let commit_no = number(newest.as_ref());
        let logged = |half| KnownHead { half, commit_no };
        *known = Some(Known {
            newest,
            names: names
                .iter()
                .map(|(pk, (tenant, session))| (self.hasher.hash_one((tenant, session)), *pk))
                .collect(),
            sessions: heads
                .sessions
                .into_iter()
                .map(|(pk, half)| (pk, logged(half)))
                .collect(),
            notes: heads
                .notes
                .into_iter()
                .map(|(name, half)| (name, logged(half)))
                .collect(),
        });
    }

    /// Whether all heads and notes of a snapshot equal the known ones; `true` if nothing is known yet. `newest` is the
    /// newest commit of the snapshot. All commits up to it must be applied here; heads and notes that later commits
    /// have written are not compared.
    pub(super) fn equal(&self, newest: Option<&LogRow>, heads: &Heads) -> bool {
        let upto = number(newest);
        let same = |logged: &KnownHead, found: Option<&Half>| {
            logged.commit_no > upto || found == Some(&logged.half)
        };
        let equal = self.read(|known| {
            let (sessions, notes) = (&heads.sessions, &heads.notes);
            known
                .sessions
                .iter()
                .all(|(pk, l)| same(l, sessions.get(pk)))
                && known.notes.iter().all(|(name, l)| same(l, notes.get(name)))
                && sessions.keys().all(|pk| known.sessions.contains_key(pk))
                && notes.keys().all(|name| known.notes.contains_key(name))
        });
        equal.unwrap_or(true)
    }

    /// Returns the suspects that reads have found since the last call.
    #[must_use]
    pub fn take_found(&self) -> Suspects {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note_found(&self, more: Suspects) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        *found = found.and(more);
    }
}

/// Compares the rows of one snapshot with the known heads. Without known heads, nothing is compared. Before a read, the
/// backend applies the commits up to the snapshot; otherwise a state that is no longer the newest could pass.
#[derive(Clone, Copy, Default)]
pub struct HeadCheck<'a> {
    /// The known heads.
    pub known: Option<&'a KnownHeads>,
    /// The changes of the running transaction, in their order.
    pub uncommitted: &'a [LogEntry],
}

const PUT_BACK: &str = "the session is not in its newest state (older rows were put back)";
const DELETED: &str = "the session was deleted outside filrouge";

impl HeadCheck<'_> {
    /// Fails if the head of a session, of which `mac` is the MAC, is not the newest one.
    pub(crate) fn check_session<V: View + ?Sized>(
        &self,
        view: &V,
        keyring: &Keyring,
        (tenant, id): (&TenantId, &SessionId),
        (pk, mac): (SessionPk, &[u8; MAC_BYTES]),
    ) -> Result<(), Failure> {
        let is_own = |entry: &&LogEntry| entry.pk == pk && !matches!(entry.change, Change::Note(_));
        let logged = |known: &Known| known.sessions.get(&pk).copied();
        if self.is_newest(view, keyring, Some(half(mac)), is_own, logged)? {
            return Ok(());
        }
        self.note(Suspects::of_session(Some(pk), tenant, id, PUT_BACK));
        Err(Failure::integrity(id.as_str(), None, PUT_BACK))
    }

    /// Fails if a session that the view lacks exists according to the commit log.
    pub(crate) fn check_absent<V: View + ?Sized>(
        &self,
        view: &V,
        keyring: &Keyring,
        (tenant, id): (&TenantId, &SessionId),
    ) -> Result<(), Failure> {
        let Some(known) = self.known else {
            return Ok(());
        };
        let name = known.hasher.hash_one((tenant, id));
        let logged = |known: &Known| known.sessions.get(known.names.get(&name)?).copied();
        if self.is_newest(view, keyring, None, |_| false, logged)? {
            return Ok(());
        }
        self.note(Suspects::of_session(None, tenant, id, DELETED));
        Err(Failure::integrity(id.as_str(), None, DELETED))
    }

    /// Fails if the stored state of a note is not the newest one. `mac` is the note's MAC; `None` if the view has no
    /// such note.
    pub(crate) fn check_note<V: View + ?Sized>(
        &self,
        view: &V,
        keyring: &Keyring,
        name: &str,
        mac: Option<&[u8; MAC_BYTES]>,
    ) -> Result<(), Failure> {
        let is_own = |entry: &&LogEntry| matches!(&entry.change, Change::Note(n) if **n == *name);
        let logged = |known: &Known| known.notes.get(name).copied();
        if self.is_newest(view, keyring, mac.map(half), is_own, logged)? {
            return Ok(());
        }
        let what = format!("note {name:?} is not in its newest state");
        self.note(Suspects::of_note(name, &what));
        Err(damaged(what))
    }

    /// Whether `found` is the newest state of a head or note according to the commit log; `None`: the view does not
    /// have it. `is_own` selects its entries of the running transaction, `logged` its known state. Also true if nothing
    /// is known yet, or if a commit after the snapshot has written it.
    fn is_newest<V: View + ?Sized>(
        &self,
        view: &V,
        keyring: &Keyring,
        found: Option<Half>,
        is_own: impl Fn(&&LogEntry) -> bool,
        logged: impl Fn(&Known) -> Option<KnownHead>,
    ) -> Result<bool, Failure> {
        let Some(heads) = self.known else {
            return Ok(true);
        };
        let is_known = |known: &Known| logged(known).map(|logged| logged.half) == found;
        if heads.read(is_known).unwrap_or(true) {
            return Ok(true);
        }
        if let Some(entry) = self.uncommitted.iter().rev().find(is_own) {
            return Ok(Some(entry.head) == found);
        }
        let upto = number(view.newest_log()?.as_ref());
        heads.catch_up(view, keyring)?;
        let agrees = |known: &Known| {
            is_known(known) || logged(known).is_some_and(|logged| logged.commit_no > upto)
        };
        Ok(heads.read(agrees).unwrap_or(true))
    }

    /// Remembers a suspect for [`KnownHeads::take_found`].
    fn note(&self, found: Suspects) {
        if let Some(known) = self.known {
            known.note_found(found);
        }
    }
}
