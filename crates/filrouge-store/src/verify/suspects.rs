//! Sessions that are known not to be what was written, and how they are found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use filrouge_types::{ErrorCode, Failure, SessionId, TenantId};

use crate::chain::Digest;
use crate::command::Viewer;
use crate::keyring::{Keyring, MAC_BYTES};
use crate::rows::{Change, LogEntry, LogRow, SessionPk, Stored, View};

type Name = (TenantId, SessionId);

/// Sessions that are known not to be what was written; reads and writes of them are refused.
#[derive(Debug, Clone, Default)]
pub struct Suspects {
    sessions: BTreeMap<SessionPk, String>,
    /// By the names they were made with: a row that is gone or renamed is not found by its number.
    named: BTreeMap<Name, String>,
    notes: BTreeMap<Box<str>, String>,
    all: Option<String>,
}

impl Suspects {
    /// The whole store is not what was written.
    #[must_use]
    pub fn everything(what: impl Into<String>) -> Self {
        Self {
            all: Some(what.into()),
            ..Self::default()
        }
    }

    /// Whether nothing is suspect.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
            && self.named.is_empty()
            && self.notes.is_empty()
            && self.all.is_none()
    }

    /// Together with what else is known; nothing is forgotten.
    #[must_use]
    pub fn and(&self, more: Self) -> Self {
        let mut both = self.clone();
        both.sessions.extend(more.sessions);
        both.named.extend(more.named);
        both.notes.extend(more.notes);
        both.all = both.all.or(more.all);
        both
    }

    /// The sessions as findings: by name where it is known.
    pub(super) fn findings(&self) -> Vec<(Option<String>, String)> {
        let all = self.all.iter().map(|what| (None, what.clone()));
        let named = self
            .named
            .iter()
            .map(|((_, id), what)| (Some(id.to_string()), what.clone()));
        let nameless = self.sessions.iter().filter(|_| self.named.is_empty());
        let notes = self.notes.values().map(|what| (None, what.clone()));
        all.chain(named)
            .chain(nameless.map(|(_, what)| (None, what.clone())))
            .chain(notes)
            .collect()
    }

    pub(crate) fn check(&self, pk: SessionPk, id: &SessionId) -> Result<(), Failure> {
        self.check_store()?;
        match self.sessions.get(&pk) {
            Some(what) => Err(Failure::integrity(id.as_str(), None, what)),
            None => Ok(()),
        }
    }

    /// Whether the session with this number is one of them.
    pub(crate) fn holds(&self, pk: SessionPk) -> bool {
        self.sessions.contains_key(&pk)
    }

    pub(crate) fn check_note(&self, name: &str) -> Result<(), Failure> {
        self.check_store()?;
        match self.notes.get(name) {
            Some(what) => Err(Failure::new(ErrorCode::IntegrityError, what.clone())),
            None => Ok(()),
        }
    }

    /// A session that is not found (or not the viewer's) may be one that was deleted or renamed.
    pub(crate) fn check_absent(&self, tenant: &TenantId, id: &SessionId) -> Result<(), Failure> {
        self.check_store()?;
        match self.named.get(&(tenant.clone(), id.clone())) {
            Some(what) => Err(Failure::integrity(id.as_str(), None, what)),
            None => Ok(()),
        }
    }

    /// A list in which a session may be missing is not shown. Only the operator is told which: it may be
    /// somebody else's (P6).
    pub(crate) fn check_listing(&self, tenant: &TenantId, viewer: &Viewer) -> Result<(), Failure> {
        self.check_store()?;
        match self.named.iter().find(|((t, _), _)| t == tenant) {
            Some(((_, id), what)) if *viewer == Viewer::Operator => {
                Err(Failure::integrity(id.as_str(), None, what))
            }
            Some(_) => Err(Failure::new(
                ErrorCode::IntegrityError,
                "a session of this tenant was changed outside filrouge, so a list could lack one",
            )
            .with_hint("`filrouge verify` names it to whoever runs the store")),
            None => Ok(()),
        }
    }

    pub(crate) fn check_store(&self) -> Result<(), Failure> {
        match &self.all {
            Some(what) => Err(
                Failure::new(ErrorCode::IntegrityError, what.clone()).with_hint(
                    "restore the newest copy, or accept the loss with `filrouge anchor accept`",
                ),
            ),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Suspects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.all {
            Some(what) => f.write_str(what),
            None => {
                let (sessions, notes) = (self.sessions.len(), self.notes.len());
                match notes {
                    0 => write!(f, "{sessions} sessions were changed"),
                    _ => write!(f, "{sessions} sessions and {notes} notes were changed"),
                }
            }
        }
    }
}

/// All sessions and notes at one look: the sum of their MACs, and the sessions that do not vouch for themselves.
#[derive(Default)]
struct Census {
    digest: Digest,
    broken: BTreeMap<SessionPk, &'static str>,
    /// Only kept when they are to be compared one by one.
    heads: BTreeMap<SessionPk, [u8; 8]>,
    notes: BTreeMap<Box<str>, [u8; 8]>,
    keep: bool,
}

impl Census {
    fn take<V: View + ?Sized>(view: &V, keyring: &Keyring, keep: bool) -> Result<Self, Failure> {
        let mut census = Self {
            keep,
            ..Self::default()
        };
        view.each_session(&mut |pk, stored| census.see(pk, stored, keyring))?;
        for note in view.notes()? {
            // One that is malformed or was changed is missing in the sum.
            if let Some(note) = note.filter(|n| n.verified(keyring) != Some(false)) {
                census.digest = census.digest.plus(&note.mac);
                if keep {
                    census.notes.insert(note.name, half(&note.mac));
                }
            }
        }
        Ok(census)
    }

    fn see(&mut self, pk: SessionPk, stored: Option<Stored>, keyring: &Keyring) {
        let Some(Stored { row, head, .. }) = stored else {
            self.broken.insert(pk, "its row is missing or malformed");
            return;
        };
        let Some(head) = head else {
            self.broken.insert(pk, "its head is missing or malformed");
            return;
        };
        self.digest = self.digest.plus(&head.mac);
        if self.keep {
            self.heads.insert(pk, half(&head.mac));
        }
        if head.verified(keyring, pk) == Some(false) {
            self.broken
                .insert(pk, "its head was changed (the MAC does not fit)");
        } else if row.fingerprint() != head.session {
            self.broken.insert(pk, "its row was changed");
        }
    }
}

/// As much of a MAC as the commit log tells.
fn half(mac: &[u8; MAC_BYTES]) -> [u8; 8] {
    let mut half = [0; 8];
    half.copy_from_slice(&mac[..8]);
    half
}

/// Compares all heads and notes with the commit log and names the sessions that do not agree; reads the whole log only
/// when something is wrong.
///
/// # Errors
/// When the store does not answer.
pub fn find_suspects<V: View + ?Sized>(view: &V, keyring: &Keyring) -> Result<Suspects, Failure> {
    match look(view, keyring) {
        Err(failure) if failure.code == ErrorCode::IntegrityError => {
            Ok(Suspects::everything(failure.detail))
        }
        other => other,
    }
}

/// The newest commit, and whether it follows the one before; `None` when its key is missing.
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

fn look<V: View + ?Sized>(view: &V, keyring: &Keyring) -> Result<Suspects, Failure> {
    let newest = newest_commit(view, keyring)?;
    if let Some((row, Some(false))) = &newest {
        let what = format!("commit {} was changed", row.commit_no);
        return Ok(Suspects::everything(what));
    }
    let census = Census::take(view, keyring, false)?;
    let expected = newest.map_or_else(Digest::default, |(row, _)| row.digest);
    if census.digest == expected && census.broken.is_empty() {
        return Ok(Suspects::default());
    }
    name_suspects(view, keyring, &Census::take(view, keyring, true)?)
}

/// What the commit log knows: each session's newest head and its name, each note's newest MAC, and whether what
/// stands in the store was ever the newest.
#[derive(Default)]
struct Logged {
    heads: BTreeMap<SessionPk, [u8; 8]>,
    names: BTreeMap<SessionPk, Name>,
    met: BTreeSet<SessionPk>,
    notes: BTreeMap<Box<str>, [u8; 8]>,
    notes_met: BTreeSet<Box<str>>,
}

impl Logged {
    fn take(&mut self, entry: LogEntry, census: &Census) {
        if let Change::Note(name) = entry.change {
            if census.notes.get(&name) == Some(&entry.head) {
                self.notes_met.insert(name.clone());
            }
            self.notes.insert(name, entry.head);
            return;
        }
        if census.heads.get(&entry.pk) == Some(&entry.head) {
            self.met.insert(entry.pk);
        }
        self.heads.insert(entry.pk, entry.head);
        if let Change::Created(tenant, session) = entry.change {
            self.names.insert(entry.pk, (tenant, session));
        }
    }
}

/// Reads the whole log; the inner failure is a log that was changed.
fn read_log<V: View + ?Sized>(
    view: &V,
    keyring: &Keyring,
    census: &Census,
) -> Result<Result<Logged, String>, Failure> {
    let mut logged = Logged::default();
    let mut previous: Option<LogRow> = None;
    loop {
        let rows = view.log(previous.as_ref().map_or(0, |p| p.commit_no), 1024)?;
        if rows.is_empty() {
            return Ok(Ok(logged));
        }
        for row in rows {
            if row.follows(previous.as_ref(), keyring) == Some(false) {
                let what = format!("the commit log is broken at commit {}", row.commit_no);
                return Ok(Err(what));
            }
            let Some(entries) = row.entries() else {
                return Ok(Err(format!("commit {} is malformed", row.commit_no)));
            };
            for entry in entries {
                logged.take(entry, census);
            }
            previous = Some(row);
        }
    }
}

fn name_suspects<V: View + ?Sized>(
    view: &V,
    keyring: &Keyring,
    census: &Census,
) -> Result<Suspects, Failure> {
    let logged = match read_log(view, keyring, census)? {
        Ok(logged) => logged,
        Err(what) => return Ok(Suspects::everything(what)),
    };
    // A head is signed: one that the log never met was written by a commit that the log has lost.
    let genuine = |pk: &&SessionPk| !census.broken.contains_key(pk);
    if let Some(pk) = census
        .heads
        .keys()
        .filter(genuine)
        .find(|pk| !logged.met.contains(pk))
    {
        let what =
            format!("commits were removed: the log does not know the state of session number {pk}");
        return Ok(Suspects::everything(what));
    }
    if let Some(name) = census.notes.keys().find(|n| !logged.notes_met.contains(*n)) {
        let what =
            format!("commits were removed: the log does not know the state of note {name:?}");
        return Ok(Suspects::everything(what));
    }
    let mut suspects = Suspects {
        notes: suspect_notes(&logged, census),
        ..Suspects::default()
    };
    let mut suspect = |pk: SessionPk, what: &str| {
        suspects.sessions.insert(pk, what.to_owned());
        if let Some(name) = logged.names.get(&pk) {
            suspects.named.insert(name.clone(), what.to_owned());
        }
    };
    for (pk, head) in &logged.heads {
        match (census.broken.get(pk), census.heads.get(pk)) {
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
        .filter(|pk| !logged.heads.contains_key(pk))
    {
        suspect(*pk, "no commit made this session");
    }
    if suspects.is_empty() {
        suspects.all =
            Some("heads and notes do not add up to what the newest commit says".to_owned());
    }
    Ok(suspects)
}

/// The notes that the log knows and that do not stand in the store as it says.
fn suspect_notes(logged: &Logged, census: &Census) -> BTreeMap<Box<str>, String> {
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
