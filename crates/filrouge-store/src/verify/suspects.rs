//! Sessions and notes with integrity errors.

use std::collections::BTreeMap;
use std::fmt;

use filrouge_types::{ErrorCode, Failure, SessionId, TenantId};

use crate::command::Viewer;
use crate::rows::SessionPk;

pub(super) type Name = (TenantId, SessionId);

/// Sessions and notes with known integrity errors, each with a description. Reads and writes of them are refused.
#[derive(Debug, Clone, Default)]
pub struct Suspects {
    /// The sessions by their numbers.
    pub(super) sessions: BTreeMap<SessionPk, String>,
    /// The same sessions by their names at creation, as far as these are known: a deleted or renamed row is not found
    /// by its number.
    pub(super) named: BTreeMap<Name, String>,
    pub(super) notes: BTreeMap<Box<str>, String>,
    /// What is wrong with the entire store; `None` if it is not suspect as a whole.
    pub(super) all: Option<String>,
}

impl Suspects {
    /// Marks the entire store as suspect, for this reason.
    #[must_use]
    pub fn everything(what: impl Into<String>) -> Self {
        Self {
            all: Some(what.into()),
            ..Self::default()
        }
    }

    /// Marks one session as suspect; `pk` is `None` if its row does not exist.
    pub(super) fn of_session(
        pk: Option<SessionPk>,
        tenant: &TenantId,
        id: &SessionId,
        what: &str,
    ) -> Self {
        Self {
            sessions: pk.map(|pk| (pk, what.to_owned())).into_iter().collect(),
            named: BTreeMap::from([((tenant.clone(), id.clone()), what.to_owned())]),
            ..Self::default()
        }
    }

    /// Marks one note as suspect.
    pub(super) fn of_note(name: &str, what: &str) -> Self {
        Self {
            notes: BTreeMap::from([(name.into(), what.to_owned())]),
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

    /// Returns these suspects together with `more`.
    #[must_use]
    pub fn and(&self, more: Self) -> Self {
        let mut both = self.clone();
        both.sessions.extend(more.sessions);
        both.named.extend(more.named);
        both.notes.extend(more.notes);
        both.all = both.all.or(more.all);
        both
    }

    /// The suspects as findings, each with the session's id, if known, and a description. If any session's name is
    /// known, the sessions without a known name are left out.
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

    /// Fails if the session or the entire store is suspect.
    pub(crate) fn check(&self, pk: SessionPk, id: &SessionId) -> Result<(), Failure> {
        self.check_store()?;
        match self.sessions.get(&pk) {
            Some(what) => Err(Failure::integrity(id.as_str(), None, what)),
            None => Ok(()),
        }
    }

    /// Whether the session with this number is suspect.
    pub(crate) fn holds(&self, pk: SessionPk) -> bool {
        self.sessions.contains_key(&pk)
    }

    /// Fails if the note or the entire store is suspect.
    pub(crate) fn check_note(&self, name: &str) -> Result<(), Failure> {
        self.check_store()?;
        match self.notes.get(name) {
            Some(what) => Err(Failure::new(ErrorCode::IntegrityError, what.clone())),
            None => Ok(()),
        }
    }

    /// Fails for an absent (or hidden) session that may have been deleted or renamed outside filrouge.
    pub(crate) fn check_absent(&self, tenant: &TenantId, id: &SessionId) -> Result<(), Failure> {
        self.check_store()?;
        match self.named.get(&(tenant.clone(), id.clone())) {
            Some(what) => Err(Failure::integrity(id.as_str(), None, what)),
            None => Ok(()),
        }
    }

    /// Fails for a list in which a session may be missing. Only the operator learns which: it may belong to another
    /// identity (P6).
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
            .with_hint("`filrouge verify` names it to the operator")),
            None => Ok(()),
        }
    }

    /// Fails if the entire store is suspect.
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
