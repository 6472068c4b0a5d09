//! Compares rows that are read with the newest state of every head and note.

use std::hash::BuildHasher;

use filrouge_types::{Failure, SessionId, TenantId};

use super::{
    CommitRange, KnownHead, KnownHeads, KnownState, MacHalf, commit_entries, commit_no_of,
    first_half, read_commits, store_failure,
};
use crate::keyring::{Keyring, MAC_BYTES};
use crate::lane::Lane;
use crate::rows::{Change, LogEntry, SessionPk, View};
use crate::verify::suspects::{LoggedSession, Suspects};

/// Compares the rows of one snapshot with the known heads; without known heads, compares nothing. Before a read, the
/// backend applies all commits up to the snapshot. Otherwise an outdated state could pass.
#[derive(Clone, Copy, Default)]
pub struct HeadCheck<'a> {
    /// The known heads.
    pub known: Option<&'a KnownHeads>,
    /// The changes of the running transaction, in their order.
    pub uncommitted: &'a [LogEntry],
    /// The only lane of which the known heads include all commits up to the snapshot; `None` if they include those of
    /// all lanes.
    pub applied: Option<Lane>,
}

const NOT_NEWEST: &str = "the session is not in its newest state (older rows were put back)";
pub(crate) const DELETED: &str = "the session was deleted outside filrouge";

impl HeadCheck<'_> {
    /// Fails if the head of a session, of which `mac` is the MAC, is not the newest one.
    pub(crate) fn check_session<V: View + ?Sized>(
        &self,
        view: &V,
        keyring: &Keyring,
        id: &SessionId,
        (pk, mac): (SessionPk, &[u8; MAC_BYTES]),
    ) -> Result<(), Failure> {
        let is_row_entry =
            |entry: &&LogEntry| entry.pk == pk && !matches!(entry.change, Change::Note(_));
        let known_head = |known: &KnownState| known.sessions.get(&pk).copied();
        if self.is_newest(
            (view, view.lanes().of_pk(pk)),
            keyring,
            Some(first_half(mac)),
            is_row_entry,
            known_head,
        )? {
            return Ok(());
        }
        self.find_in_log(view, keyring, pk, NOT_NEWEST)?;
        Err(Failure::integrity(id.as_str(), None, NOT_NEWEST))
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
        let known_head = |known: &KnownState| known.sessions.get(known.names.get(&name)?).copied();
        let lane = view.lanes().of_session(tenant, id);
        if self.is_newest((view, lane), keyring, None, |_| false, known_head)? {
            return Ok(());
        }
        let pk = known.read(|known| known.names.get(&name).copied());
        if let Some(pk) = pk.flatten() {
            self.find_in_log(view, keyring, pk, DELETED)?;
        }
        Err(Failure::integrity(id.as_str(), None, DELETED))
    }

    /// Finds a damaged session in the commit log, and reports it as suspect for the reason `detail`. `None` if no commit
    /// created it. Reads the entire log of its lane.
    pub(crate) fn find_in_log<V: View + ?Sized>(
        &self,
        view: &V,
        keyring: &Keyring,
        pk: SessionPk,
        detail: &str,
    ) -> Result<Option<LoggedSession>, Failure> {
        let (mut name, mut owner) = (None, None);
        let commits = CommitRange::all(view.lanes().of_pk(pk));
        read_commits(view, keyring, commits, Vec::new(), |row| {
            for entry in commit_entries(row)?.into_iter().filter(|e| e.pk == pk) {
                match entry.change {
                    Change::Created(tenant, id, hash) => {
                        (name, owner) = (Some((tenant, id)), Some(hash));
                    }
                    Change::Linked(hash) => owner = Some(hash),
                    _ => {}
                }
            }
            Ok(())
        })?;
        let logged = name.zip(owner);
        if logged.is_some() {
            let mut suspects = Suspects::default();
            suspects.add_session(pk, detail, logged.clone());
            self.report_suspects(suspects);
        }
        Ok(logged)
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
        let is_row_entry =
            |entry: &&LogEntry| matches!(&entry.change, Change::Note(n) if **n == *name);
        let known_head = |known: &KnownState| known.notes.get(name).copied();
        let stored = mac.map(first_half);
        let place = (view, Lane::FIRST);
        if self.is_newest(place, keyring, stored, is_row_entry, known_head)? {
            return Ok(());
        }
        let detail = format!("note {name:?} is not in its newest state");
        self.report_suspects(Suspects::note(name, &detail));
        Err(store_failure(detail))
    }

    /// Whether `stored` is the newest state of a head or note of `lane` according to the commit log; `None` if the view
    /// does not have the row. `is_row_entry` selects the row's entries of the running transaction, `known_head` the row's known
    /// state. Also `true` if no state is known yet, or if a commit after the snapshot has written the row.
    fn is_newest<V: View + ?Sized>(
        &self,
        (view, lane): (&V, Lane),
        keyring: &Keyring,
        stored: Option<MacHalf>,
        is_row_entry: impl Fn(&&LogEntry) -> bool,
        known_head: impl Fn(&KnownState) -> Option<KnownHead>,
    ) -> Result<bool, Failure> {
        let Some(heads) = self.known else {
            return Ok(true);
        };
        let is_known = |known: &KnownState| known_head(known).map(|head| head.half) == stored;
        let is_applied = self.applied.is_none_or(|applied| applied == lane);
        if is_applied && heads.read(is_known).unwrap_or(true) {
            return Ok(true);
        }
        if let Some(entry) = self.uncommitted.iter().rev().find(is_row_entry) {
            return Ok(Some(entry.head) == stored);
        }
        let snapshot_no = commit_no_of(view.newest_log(lane)?.as_ref());
        heads.catch_up(view, lane, keyring)?;
        let is_known_or_newer = |known: &KnownState| {
            is_known(known) || known_head(known).is_some_and(|head| head.commit_no > snapshot_no)
        };
        Ok(heads.read(is_known_or_newer).unwrap_or(true))
    }

    /// Stores suspects for [`KnownHeads::take_suspects`].
    fn report_suspects(&self, suspects: Suspects) {
        if let Some(known) = self.known {
            known.add_found_suspects(suspects);
        }
    }
}
