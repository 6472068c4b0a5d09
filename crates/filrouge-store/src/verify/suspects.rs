//! Sessions and notes with integrity errors.

use std::collections::BTreeMap;
use std::fmt;

use filrouge_types::{ErrorCode, Failure, SessionId, TenantId};

use crate::keyring::MAC_BYTES;
use crate::rows::SessionPk;

/// A session's tenant and id.
pub(crate) type Name = (TenantId, SessionId);

/// The hash of a session's owner ([`crate::Keyring::owner`]).
pub(crate) type OwnerHash = [u8; MAC_BYTES];

/// A session as the commit log has it: its name at creation, and the hash of its owner.
pub(crate) type LoggedSession = (Name, OwnerHash);

/// The description of a session's integrity error, and the session in the commit log; `None` if no commit created it.
type SuspectSession = (String, Option<LoggedSession>);

/// Sessions and notes with known integrity errors, each with a description. Reads and writes of them are refused.
#[derive(Debug, Clone, Default)]
pub struct Suspects {
    /// The sessions by their numbers.
    pub(super) sessions: BTreeMap<SessionPk, SuspectSession>,
    /// The numbers of those sessions that the commit log has. A row that was deleted or renamed is not found by its
    /// number.
    pub(super) by_name: BTreeMap<Name, SessionPk>,
    pub(super) notes: BTreeMap<Box<str>, String>,
    /// The reason why the entire store is suspect; `None` if it is not.
    pub(super) store: Option<String>,
}

impl Suspects {
    /// Marks the entire store as suspect, for this reason.
    pub fn entire_store(detail: impl Into<String>) -> Self {
        Self {
            store: Some(detail.into()),
            ..Self::default()
        }
    }

    /// Marks a session as suspect.
    pub(super) fn add_session(
        &mut self,
        pk: SessionPk,
        detail: &str,
        logged: Option<LoggedSession>,
    ) {
        let name = logged.as_ref().map(|(name, _)| name.clone());
        self.by_name.extend(name.map(|name| (name, pk)));
        self.sessions.insert(pk, (detail.to_owned(), logged));
    }

    /// Marks one note as suspect.
    pub(super) fn note(name: &str, detail: &str) -> Self {
        Self {
            notes: BTreeMap::from([(name.into(), detail.to_owned())]),
            ..Self::default()
        }
    }

    /// Whether nothing is suspect.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.notes.is_empty() && self.store.is_none()
    }

    /// Returns these suspects together with `more`.
    pub fn merged_with(&self, more: Self) -> Self {
        let mut merged = self.clone();
        merged.sessions.extend(more.sessions);
        merged.by_name.extend(more.by_name);
        merged.notes.extend(more.notes);
        merged.store = merged.store.or(more.store);
        merged
    }

    /// Returns these suspects without the sessions and notes of `others`.
    pub(super) fn without(&self, others: &Self) -> Self {
        let mut rest = self.clone();
        rest.sessions
            .retain(|pk, _| !others.sessions.contains_key(pk));
        rest.by_name
            .retain(|_, pk| !others.sessions.contains_key(pk));
        rest.notes
            .retain(|name, _| !others.notes.contains_key(name));
        rest
    }

    /// The session id, if known, and the description of each suspect. If the name of any session is known, sessions
    /// without a known name are left out.
    pub(super) fn findings(&self) -> Vec<(Option<String>, String)> {
        let store = self.store.iter().map(|detail| (None, detail.clone()));
        let named = self
            .all_logged()
            .map(|(((_, id), _), detail)| (Some(id.to_string()), detail.to_owned()));
        let unnamed = self.sessions.values().filter(|_| self.by_name.is_empty());
        let notes = self.notes.values().map(|detail| (None, detail.clone()));
        store
            .chain(named)
            .chain(unnamed.map(|(detail, _)| (None, detail.clone())))
            .chain(notes)
            .collect()
    }

    /// Fails if the session or the entire store is suspect.
    pub(crate) fn check(&self, pk: SessionPk, id: &SessionId) -> Result<(), Failure> {
        self.check_store()?;
        match self.sessions.get(&pk) {
            Some((detail, _)) => Err(Failure::integrity(id.as_str(), None, detail)),
            None => Ok(()),
        }
    }

    /// Whether the session with this number is suspect.
    pub(crate) fn contains_session(&self, pk: SessionPk) -> bool {
        self.sessions.contains_key(&pk)
    }

    /// The suspect session with this number as the commit log has it, and its description.
    pub(crate) fn logged(&self, pk: SessionPk) -> Option<(&LoggedSession, &str)> {
        let (detail, logged) = self.sessions.get(&pk)?;
        logged.as_ref().map(|logged| (logged, detail.as_str()))
    }

    /// The suspect sessions that the commit log has, in the order of their names, each with its description.
    pub(crate) fn all_logged(&self) -> impl Iterator<Item = (&LoggedSession, &str)> {
        self.by_name.values().filter_map(move |pk| self.logged(*pk))
    }

    /// Fails if the note or the entire store is suspect.
    pub(crate) fn check_note(&self, name: &str) -> Result<(), Failure> {
        self.check_store()?;
        match self.notes.get(name) {
            Some(detail) => Err(Failure::new(ErrorCode::IntegrityError, detail.clone())),
            None => Ok(()),
        }
    }

    /// Fails for an absent (or hidden) session that may have been deleted or renamed outside filrouge.
    pub(crate) fn check_absent(&self, tenant: &TenantId, id: &SessionId) -> Result<(), Failure> {
        self.check_store()?;
        let pk = self.by_name.get(&(tenant.clone(), id.clone()));
        match pk.and_then(|pk| self.logged(*pk)) {
            Some((_, detail)) => Err(Failure::integrity(id.as_str(), None, detail)),
            None => Ok(()),
        }
    }

    /// Fails if the entire store is suspect.
    pub(crate) fn check_store(&self) -> Result<(), Failure> {
        match &self.store {
            Some(detail) => Err(
                Failure::new(ErrorCode::IntegrityError, detail.clone()).with_hint(
                    "restore the newest copy, or accept the loss with `filrouge anchor accept`",
                ),
            ),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Suspects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.store {
            Some(detail) => f.write_str(detail),
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
