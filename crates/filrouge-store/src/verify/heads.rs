//! Compares all heads and notes with the commit log, to find sessions and notes that were changed, deleted or replaced
//! by older rows outside filrouge.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_types::{ErrorCode, Failure, Result};

use super::known_heads::{
    CommitRange, Heads, KnownHeads, Names, commit_entries, first_half, in_lane, read_commits,
};
use super::suspects::{OwnerHash, Suspects};
use crate::digest::{Digest, DigestRow};
use crate::keyring::Keyring;
use crate::lane::{Lane, Lanes};
use crate::rows::{Change, LogEntry, LogRow, SessionPk, StoredSession, View};

/// The result of a scan of all stored sessions and notes.
struct StoreScan {
    lanes: Lanes,
    /// The digest of the scanned heads and notes of each lane.
    digests: Vec<Digest>,
    /// The sessions whose row or head is missing, malformed or changed, each with a description.
    faulty: BTreeMap<SessionPk, &'static str>,
    /// The stored heads and notes.
    heads: Heads,
    /// The names of all sessions; `None` if the caller does not need them.
    names: Option<Names>,
}

impl StoreScan {
    /// Scans the store. `names` is empty, or `None` if the sessions' names are not to be collected.
    fn run<V: View + ?Sized>(view: &V, keyring: &Keyring, names: Option<Names>) -> Result<Self> {
        let lanes = view.lanes();
        let mut scan = Self {
            lanes,
            digests: vec![Digest::default(); usize::from(lanes.count())],
            faulty: BTreeMap::new(),
            heads: Heads::default(),
            names,
        };
        view.for_each_session(&mut |pk, stored| scan.add_session(pk, stored, keyring))?;
        for note in view.notes()? {
            // A malformed or modified note is left out of the digest.
            if let Some(note) = note.filter(|n| n.mac_matches(keyring) != Some(false)) {
                let digest_row = DigestRow::Note(&note.name);
                let digest = &mut scan.digests[Lane::FIRST.index()];
                *digest = digest.plus(keyring, digest_row, &note.mac);
                scan.heads.notes.insert(note.name, first_half(&note.mac));
            }
        }
        Ok(scan)
    }

    /// Adds a session; `stored` is `None` if its row is missing or malformed.
    fn add_session(&mut self, pk: SessionPk, stored: Option<StoredSession>, keyring: &Keyring) {
        let Some(stored) = stored else {
            self.faulty.insert(pk, "its row is missing or malformed");
            return;
        };
        let StoredSession {
            row,
            head,
            updated_at,
            ..
        } = stored;
        let Some(head) = head else {
            self.faulty.insert(pk, "its head is missing or malformed");
            return;
        };
        let digest_row = DigestRow::Head(pk);
        let digest = &mut self.digests[self.lanes.of_pk(pk).index()];
        *digest = digest.plus(keyring, digest_row, &head.mac);
        self.heads.sessions.insert(pk, first_half(&head.mac));
        if let Some(names) = &mut self.names {
            names.insert(pk, (row.tenant_id.clone(), row.session_id.clone()));
        }
        if head.mac_matches(keyring, pk) == Some(false) {
            self.faulty
                .insert(pk, "its head was changed (the MAC does not match)");
        } else if row.fingerprint() != head.session {
            self.faulty.insert(pk, "its row was changed");
        } else if updated_at != head.updated_at {
            self.faulty.insert(pk, "its place in lists was changed");
        }
    }
}

impl KnownHeads {
    /// Compares all heads and notes with the digest of the newest commit, and each of them with its known state. The
    /// first comparison stores the known states. Returns the sessions and notes that differ. The complete log is read
    /// only after a mismatch.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn compare<V: View + ?Sized>(&self, view: &V, keyring: &Keyring) -> Result<Suspects> {
        suspect_store_on_failure(self.compare_all(view, keyring))
    }

    fn compare_all<V: View + ?Sized>(&self, view: &V, keyring: &Keyring) -> Result<Suspects> {
        let newest = newest_commits(view, keyring)?;
        for lane in view.lanes().iter() {
            self.catch_up(view, lane, keyring)?;
        }
        let names = self.is_empty().then(Names::new);
        let scan = StoreScan::run(view, keyring, names)?;
        let is_known_state = self.has_same_heads(&newest, &scan.heads);
        let digests = compare_digests(&newest, &scan, keyring);
        if !is_known_state || !scan.faulty.is_empty() || digests != DigestComparison::Equal {
            let (suspects, log_state) = find_suspects(view, keyring, &scan)?;
            if !suspects.is_empty() {
                if suspects.store.is_none() {
                    let names = &log_state.names;
                    self.fill(scan.lanes, newest, log_state.heads, names);
                }
                return Ok(suspects);
            }
            if digests != DigestComparison::Unknown {
                return Ok(Suspects::entire_store(DIGEST_DIFFERS));
            }
        }
        let names = scan.names.unwrap_or_default();
        self.fill(scan.lanes, newest, scan.heads, &names);
        Ok(Suspects::default())
    }
}

/// The finding if every head and note equals its newest entry in the log, but the digest differs.
const DIGEST_DIFFERS: &str = "the digest of heads and notes differs from that of the newest commit";

/// The result of a comparison of all lanes' digests.
#[derive(PartialEq, Eq)]
enum DigestComparison {
    Equal,
    Different,
    /// The key of the newest commit of a lane is missing, so its digest is unknown; all others are equal.
    Unknown,
}

/// Compares the digest of each lane with the one that the lane's newest commit has.
fn compare_digests(
    newest: &[Option<LogRow>],
    scan: &StoreScan,
    keyring: &Keyring,
) -> DigestComparison {
    let mut result = DigestComparison::Equal;
    for (newest, scanned) in newest.iter().zip(&scan.digests) {
        let unmask = |row: &LogRow| row.digest.unmasked(keyring);
        match newest
            .as_ref()
            .map_or_else(|| Some(Digest::default()), unmask)
        {
            Some(logged) if logged != *scanned => return DigestComparison::Different,
            Some(_) => {}
            None => result = DigestComparison::Unknown,
        }
    }
    result
}

/// The newest commit of each lane.
///
/// # Errors
/// `integrity_error` if one does not follow the commit before it; the store's errors.
fn newest_commits<V: View + ?Sized>(view: &V, keyring: &Keyring) -> Result<Vec<Option<LogRow>>> {
    let lanes = view.lanes();
    let newest = lanes
        .iter()
        .map(|lane| match newest_commit(view, lane, keyring)? {
            Some((row, Some(false))) => {
                let in_lane = in_lane(lanes, lane);
                let detail = format!("commit {}{in_lane} was changed", row.commit_no);
                Err(Failure::new(ErrorCode::IntegrityError, detail))
            }
            newest => Ok(newest.map(|(row, _)| row)),
        });
    newest.collect()
}

/// Marks the entire store as suspect on an integrity failure, such as a malformed commit.
fn suspect_store_on_failure(result: Result<Suspects>) -> Result<Suspects> {
    match result {
        Err(failure) if failure.code == ErrorCode::IntegrityError => {
            Ok(Suspects::entire_store(failure.detail))
        }
        result => result,
    }
}

/// Compares every head and note with its newest entry in the complete commit log, and those of each lane with the digest
/// of the lane's newest commit.
///
/// # Errors
/// When the store does not answer.
pub fn compare_with_log<V: View + ?Sized>(view: &V, keyring: &Keyring) -> Result<Suspects> {
    let compare = || {
        let newest = newest_commits(view, keyring)?;
        let scan = StoreScan::run(view, keyring, None)?;
        let (suspects, _) = find_suspects(view, keyring, &scan)?;
        let digests = compare_digests(&newest, &scan, keyring);
        let differs = suspects.is_empty() && digests == DigestComparison::Different;
        Ok(match differs {
            true => Suspects::entire_store(DIGEST_DIFFERS),
            false => suspects,
        })
    };
    suspect_store_on_failure(compare())
}

/// The newest commit of a lane, if there is one, and whether it follows the commit before it; `None` if the commit's key
/// is missing.
pub(crate) fn newest_commit<V: View + ?Sized>(
    view: &V,
    lane: Lane,
    keyring: &Keyring,
) -> Result<Option<(LogRow, Option<bool>)>> {
    let Some(row) = view.newest_log(lane)? else {
        return Ok(None);
    };
    let previous = match row.commit_no {
        0 | 1 => None,
        n => view.log(lane, n - 2, 1)?.pop(),
    };
    let follows = row.follows(previous.as_ref(), keyring);
    Ok(Some((row, follows)))
}

/// The state according to the commit log: each session's newest head and its name, and each note's newest MAC.
/// `sessions_in_log` and `notes_in_log` are the sessions and notes whose stored MAC occurs anywhere in the log.
#[derive(Default)]
struct LogState {
    heads: Heads,
    names: Names,
    /// The hash of each session's owner.
    owners: BTreeMap<SessionPk, OwnerHash>,
    sessions_in_log: BTreeSet<SessionPk>,
    notes_in_log: BTreeSet<Box<str>>,
}

impl LogState {
    /// Applies a log entry; `stored` contains the stored MACs.
    fn apply(&mut self, entry: LogEntry, stored: &Heads) {
        match &entry.change {
            Change::Note(name) => {
                if stored.notes.get(name) == Some(&entry.head) {
                    self.notes_in_log.insert(name.clone());
                }
            }
            change => {
                if stored.sessions.get(&entry.pk) == Some(&entry.head) {
                    self.sessions_in_log.insert(entry.pk);
                }
                match change {
                    Change::Created(tenant, session, owner) => {
                        let name = (tenant.clone(), session.clone());
                        self.names.insert(entry.pk, name);
                        self.owners.insert(entry.pk, *owner);
                    }
                    Change::Linked(owner) => {
                        self.owners.insert(entry.pk, *owner);
                    }
                    _ => {}
                }
            }
        }
        self.heads.advance(entry);
    }
}

/// Reads the entire log of all lanes; fails with `integrity_error` if the log was modified.
fn read_log<V: View + ?Sized>(view: &V, keyring: &Keyring, stored: &Heads) -> Result<LogState> {
    let mut log_state = LogState::default();
    for lane in view.lanes().iter() {
        read_commits(view, keyring, CommitRange::all(lane), Vec::new(), |row| {
            for entry in commit_entries(row)? {
                log_state.apply(entry, stored);
            }
            Ok(())
        })?;
    }
    Ok(log_state)
}

/// Compares every head and note with its newest entry in the log; also returns the log's state.
fn find_suspects<V: View + ?Sized>(
    view: &V,
    keyring: &Keyring,
    scan: &StoreScan,
) -> Result<(Suspects, LogState)> {
    let log_state = read_log(view, keyring, &scan.heads)?;
    // A head is signed. If the log does not contain the MAC of an intact head, the log has lost the commit that wrote
    // the head.
    let is_intact = |pk: &&SessionPk| !scan.faulty.contains_key(pk);
    if let Some(pk) = scan
        .heads
        .sessions
        .keys()
        .filter(is_intact)
        .find(|pk| !log_state.sessions_in_log.contains(pk))
    {
        let detail = format!(
            "commits were removed: the log does not contain the state of session number {pk}"
        );
        return Ok((Suspects::entire_store(detail), log_state));
    }
    if let Some(name) = scan
        .heads
        .notes
        .keys()
        .find(|n| !log_state.notes_in_log.contains(*n))
    {
        let detail =
            format!("commits were removed: the log does not contain the state of note {name:?}");
        return Ok((Suspects::entire_store(detail), log_state));
    }
    let mut suspects = Suspects {
        notes: suspect_notes(&log_state.heads, &scan.heads),
        ..Suspects::default()
    };
    let mut add_suspect = |pk: SessionPk, detail: &str| {
        let name = log_state.names.get(&pk).cloned();
        suspects.add_session(pk, detail, name.zip(log_state.owners.get(&pk).copied()));
    };
    for (pk, head) in &log_state.heads.sessions {
        match (scan.faulty.get(pk), scan.heads.sessions.get(pk)) {
            (Some(detail), _) => add_suspect(*pk, detail),
            (None, None) => add_suspect(*pk, "the session was deleted outside filrouge"),
            (None, Some(stored)) if stored != head => add_suspect(
                *pk,
                "the session is not in its newest state (older rows were put back, or its end was cut)",
            ),
            (None, Some(_)) => {}
        }
    }
    for pk in scan
        .faulty
        .keys()
        .filter(|pk| !log_state.heads.sessions.contains_key(pk))
    {
        add_suspect(*pk, "no commit created this session");
    }
    Ok((suspects, log_state))
}

/// The notes whose stored state differs from the log's.
fn suspect_notes(logged: &Heads, stored: &Heads) -> BTreeMap<Box<str>, String> {
    let describe = |name: &str, half: &[u8; 8]| match stored.notes.get(name) {
        None => Some(format!(
            "note {name:?} was changed or deleted outside filrouge"
        )),
        Some(stored_half) if stored_half != half => {
            Some(format!("note {name:?} is not in its newest state"))
        }
        Some(_) => None,
    };
    let notes = logged.notes.iter();
    notes
        .filter_map(|(name, half)| Some((name.clone(), describe(name, half)?)))
        .collect()
}

#[cfg(test)]
mod tests;
