//! Compares all heads and notes with the commit log. So it finds sessions and notes that were changed, deleted or
//! replaced by older rows outside filrouge.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_types::{ErrorCode, Failure};

use super::known_heads::{Heads, KnownHeads, Names, check_chain, entries, half};
use super::suspects::Suspects;
use crate::digest::{Digest, DigestRow};
use crate::keyring::Keyring;
use crate::rows::{Change, LogEntry, LogRow, SessionPk, StoredSession, View};

/// The result of a scan of all stored sessions and notes.
#[derive(Default)]
struct Census {
    /// The digest of the scanned heads and notes.
    digest: Digest,
    /// The sessions whose row or head is missing, malformed or changed, each with a description.
    broken: BTreeMap<SessionPk, &'static str>,
    heads: Heads,
    /// The names of all sessions; `None` if the caller does not need them.
    names: Option<Names>,
}

impl Census {
    /// Scans the store.
    fn take<V: View + ?Sized>(view: &V, keyring: &Keyring) -> Result<Self, Failure> {
        Self::default().filled(view, keyring)
    }

    /// Scans the store, and also collects the sessions' names.
    fn with_names<V: View + ?Sized>(view: &V, keyring: &Keyring) -> Result<Self, Failure> {
        let census = Self {
            names: Some(Names::new()),
            ..Self::default()
        };
        census.filled(view, keyring)
    }

    fn filled<V: View + ?Sized>(self, view: &V, keyring: &Keyring) -> Result<Self, Failure> {
        let mut census = self;
        view.each_session(&mut |pk, stored| census.see(pk, stored, keyring))?;
        for note in view.notes()? {
            // A malformed or modified note is left out of the digest.
            if let Some(note) = note.filter(|n| n.verified(keyring) != Some(false)) {
                let place = DigestRow::Note(&note.name);
                census.digest = census.digest.plus(keyring, place, &note.mac);
                census.heads.notes.insert(note.name, half(&note.mac));
            }
        }
        Ok(census)
    }

    /// Adds a session; `stored` is `None` if its row is missing or malformed.
    fn see(&mut self, pk: SessionPk, stored: Option<StoredSession>, keyring: &Keyring) {
        let Some(StoredSession { row, head, .. }) = stored else {
            self.broken.insert(pk, "its row is missing or malformed");
            return;
        };
        let Some(head) = head else {
            self.broken.insert(pk, "its head is missing or malformed");
            return;
        };
        let place = DigestRow::Head(pk);
        self.digest = self.digest.plus(keyring, place, &head.mac);
        self.heads.sessions.insert(pk, half(&head.mac));
        if let Some(names) = &mut self.names {
            names.insert(pk, (row.tenant_id.clone(), row.session_id.clone()));
        }
        if head.verified(keyring, pk) == Some(false) {
            self.broken
                .insert(pk, "its head was changed (the MAC does not match)");
        } else if row.fingerprint() != head.session {
            self.broken.insert(pk, "its row was changed");
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
    pub fn compare<V: View + ?Sized>(
        &self,
        view: &V,
        keyring: &Keyring,
    ) -> Result<Suspects, Failure> {
        everything_if_damaged(self.compare_all(view, keyring))
    }

    fn compare_all<V: View + ?Sized>(
        &self,
        view: &V,
        keyring: &Keyring,
    ) -> Result<Suspects, Failure> {
        let newest = match newest_commit(view, keyring)? {
            Some((row, Some(false))) => return Ok(changed(&row)),
            newest => newest.map(|(row, _)| row),
        };
        self.catch_up(view, keyring)?;
        let census = match self.is_empty() {
            true => Census::with_names(view, keyring)?,
            false => Census::take(view, keyring)?,
        };
        let as_known = self.equal(newest.as_ref(), &census.heads);
        let sum = sum(newest.as_ref(), keyring);
        if !as_known || !census.broken.is_empty() || sum != Some(census.digest) {
            let (suspects, logged) = name_suspects(view, keyring, &census)?;
            if !suspects.is_empty() {
                if suspects.all.is_none() {
                    self.fill(newest, logged.heads, &logged.names);
                }
                return Ok(suspects);
            }
            if sum.is_some() {
                return Ok(Suspects::everything(DIFFERS));
            }
        }
        self.fill(newest, census.heads, &census.names.unwrap_or_default());
        Ok(Suspects::default())
    }
}

/// The finding when the digest differs although every head and note equals its newest entry in the log.
const DIFFERS: &str = "the digest of heads and notes differs from that of the newest commit";

/// Suspects the entire store, because this newest commit does not follow the one before it.
fn changed(row: &LogRow) -> Suspects {
    Suspects::everything(format!("commit {} was changed", row.commit_no))
}

/// The digest according to the newest commit; `None` if the key of this commit is missing.
fn sum(newest: Option<&LogRow>, keyring: &Keyring) -> Option<Digest> {
    let unmasked = |row: &LogRow| row.digest.unmasked(keyring);
    newest.map_or_else(|| Some(Digest::default()), unmasked)
}

/// Turns an integrity failure, such as a malformed commit, into a suspicion of the entire store.
fn everything_if_damaged(compared: Result<Suspects, Failure>) -> Result<Suspects, Failure> {
    match compared {
        Err(failure) if failure.code == ErrorCode::IntegrityError => {
            Ok(Suspects::everything(failure.detail))
        }
        other => other,
    }
}

/// Compares every head and note with its newest entry in the complete commit log, and all of them with the digest of
/// the newest commit.
///
/// # Errors
/// When the store does not answer.
pub fn compare_with_log<V: View + ?Sized>(
    view: &V,
    keyring: &Keyring,
) -> Result<Suspects, Failure> {
    let compare = || {
        let newest = match newest_commit(view, keyring)? {
            Some((row, Some(false))) => return Ok(changed(&row)),
            newest => newest.map(|(row, _)| row),
        };
        let census = Census::take(view, keyring)?;
        let (suspects, _) = name_suspects(view, keyring, &census)?;
        let sum = sum(newest.as_ref(), keyring);
        let differs = suspects.is_empty() && sum.is_some_and(|sum| sum != census.digest);
        Ok(match differs {
            true => Suspects::everything(DIFFERS),
            false => suspects,
        })
    };
    everything_if_damaged(compare())
}

/// The newest commit, if there is one, and whether it follows the one before (`None`: its key is missing).
pub(crate) fn newest_commit<V: View + ?Sized>(
    view: &V,
    keyring: &Keyring,
) -> Result<Option<(LogRow, Option<bool>)>, Failure> {
    let Some(row) = view.newest_log()? else {
        return Ok(None);
    };
    let before = match row.commit_no {
        0 | 1 => None,
        n => view.log(n - 2, 1)?.pop(),
    };
    let follows = row.follows(before.as_ref(), keyring);
    Ok(Some((row, follows)))
}

/// The state according to the commit log: each session's newest head and its name, and each note's newest MAC.
/// `matched` and `notes_matched` name the sessions and notes whose stored MAC occurs anywhere in the log.
#[derive(Default)]
struct Logged {
    heads: Heads,
    names: Names,
    matched: BTreeSet<SessionPk>,
    notes_matched: BTreeSet<Box<str>>,
}

impl Logged {
    /// Applies a log entry; `census` has the stored MACs.
    fn take(&mut self, entry: LogEntry, census: &Heads) {
        match &entry.change {
            Change::Note(name) => {
                if census.notes.get(name) == Some(&entry.head) {
                    self.notes_matched.insert(name.clone());
                }
            }
            change => {
                if census.sessions.get(&entry.pk) == Some(&entry.head) {
                    self.matched.insert(entry.pk);
                }
                if let Change::Created(tenant, session) = change {
                    self.names
                        .insert(entry.pk, (tenant.clone(), session.clone()));
                }
            }
        }
        self.heads.advance(entry);
    }
}

/// Reads the entire log; fails with `integrity_error` if the log was modified.
fn read_log<V: View + ?Sized>(
    view: &V,
    keyring: &Keyring,
    census: &Heads,
) -> Result<Logged, Failure> {
    let mut logged = Logged::default();
    let mut previous: Option<LogRow> = None;
    loop {
        let rows = view.log(previous.as_ref().map_or(0, |p| p.commit_no), 1024)?;
        if rows.is_empty() {
            return Ok(logged);
        }
        for row in rows {
            check_chain(&row, previous.as_ref(), keyring)?;
            for entry in entries(&row)? {
                logged.take(entry, census);
            }
            previous = Some(row);
        }
    }
}

/// Compares every head and note with its newest entry in the log; also returns the log's state.
fn name_suspects<V: View + ?Sized>(
    view: &V,
    keyring: &Keyring,
    census: &Census,
) -> Result<(Suspects, Logged), Failure> {
    let logged = read_log(view, keyring, &census.heads)?;
    // A head is signed: if the log never contained its MAC, the log has lost the commit that wrote it.
    let genuine = |pk: &&SessionPk| !census.broken.contains_key(pk);
    if let Some(pk) = census
        .heads
        .sessions
        .keys()
        .filter(genuine)
        .find(|pk| !logged.matched.contains(pk))
    {
        let what = format!(
            "commits were removed: the log does not contain the state of session number {pk}"
        );
        return Ok((Suspects::everything(what), logged));
    }
    if let Some(name) = census
        .heads
        .notes
        .keys()
        .find(|n| !logged.notes_matched.contains(*n))
    {
        let what =
            format!("commits were removed: the log does not contain the state of note {name:?}");
        return Ok((Suspects::everything(what), logged));
    }
    let mut suspects = Suspects {
        notes: suspect_notes(&logged.heads, &census.heads),
        ..Suspects::default()
    };
    let mut suspect = |pk: SessionPk, what: &str| {
        suspects.sessions.insert(pk, what.to_owned());
        if let Some(name) = logged.names.get(&pk) {
            suspects.named.insert(name.clone(), what.to_owned());
        }
    };
    for (pk, head) in &logged.heads.sessions {
        match (census.broken.get(pk), census.heads.sessions.get(pk)) {
            (Some(what), _) => suspect(*pk, what),
            (None, None) => suspect(*pk, "the session was deleted outside filrouge"),
            (None, Some(found)) if found != head => suspect(
                *pk,
                "the session is not in its newest state (older rows were put back, or its end was cut)",
            ),
            (None, Some(_)) => {}
        }
    }
    for pk in census
        .broken
        .keys()
        .filter(|pk| !logged.heads.sessions.contains_key(pk))
    {
        suspect(*pk, "no commit created this session");
    }
    Ok((suspects, logged))
}

/// The notes whose stored state differs from the log's.
fn suspect_notes(logged: &Heads, census: &Heads) -> BTreeMap<Box<str>, String> {
    let what = |name: &str, half: &[u8; 8]| match census.notes.get(name) {
        None => Some(format!(
            "note {name:?} was changed or deleted outside filrouge"
        )),
        Some(found) if found != half => Some(format!("note {name:?} is not in its newest state")),
        Some(_) => None,
    };
    let notes = logged.notes.iter();
    notes
        .filter_map(|(name, half)| Some((name.clone(), what(name, half)?)))
        .collect()
}

#[cfg(test)]
mod tests;
