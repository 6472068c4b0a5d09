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

/// Sessions and notes with known integrity errors, each with a description. Reads and writes of them are refused.
#[derive(Debug, Clone, Default)]
pub struct Suspects {
    /// The sessions by their numbers.
    pub(super) sessions: BTreeMap<SessionPk, String>,
    /// The same sessions by their names at creation, if these are known. A row that was deleted or renamed is not found
    /// by its number.
    pub(super) by_name: BTreeMap<Name, String>,
    /// The names in `by_name`, by the sessions' numbers.
    pub(super) names: BTreeMap<SessionPk, Name>,
    /// The owners of those sessions in `by_name` whose owners the commit log has.
    pub(super) owners: BTreeMap<Name, OwnerHash>,
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

    /// Marks one session as suspect; `pk` is `None` if its row does not exist.
    pub(super) fn session(
        pk: Option<SessionPk>,
        tenant: &TenantId,
        id: &SessionId,
        detail: &str,
    ) -> Self {
        let name = (tenant.clone(), id.clone());
        Self {
            sessions: pk.map(|pk| (pk, detail.to_owned())).into_iter().collect(),
            names: pk.map(|pk| (pk, name.clone())).into_iter().collect(),
            by_name: BTreeMap::from([(name, detail.to_owned())]),
            ..Self::default()
        }
    }

    /// Adds the owner of the session with this name.
    pub(super) fn with_owner(
        mut self,
        (tenant, id): (&TenantId, &SessionId),
        owner: Option<OwnerHash>,
    ) -> Self {
        let name = (tenant.clone(), id.clone());
        self.owners.extend(owner.map(|owner| (name, owner)));
        self
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
        self.sessions.is_empty()
            && self.by_name.is_empty()
            && self.notes.is_empty()
            && self.store.is_none()
    }

    /// Returns these suspects together with `more`.
    pub fn merged_with(&self, more: Self) -> Self {
        let mut merged = self.clone();
        merged.sessions.extend(more.sessions);
        merged.by_name.extend(more.by_name);
        merged.names.extend(more.names);
        merged.owners.extend(more.owners);
        merged.notes.extend(more.notes);
        merged.store = merged.store.or(more.store);
        merged
    }

    /// The session id, if known, and the description of each suspect. If the name of any session is known, sessions
    /// without a known name are left out.
    pub(super) fn findings(&self) -> Vec<(Option<String>, String)> {
        let store = self.store.iter().map(|detail| (None, detail.clone()));
        let by_name = self
            .by_name
            .iter()
            .map(|((_, id), detail)| (Some(id.to_string()), detail.clone()));
        let unnamed = self.sessions.iter().filter(|_| self.by_name.is_empty());
        let notes = self.notes.values().map(|detail| (None, detail.clone()));
        store
            .chain(by_name)
            .chain(unnamed.map(|(_, detail)| (None, detail.clone())))
            .chain(notes)
            .collect()
    }

    /// Fails if the session or the entire store is suspect.
    pub(crate) fn check(&self, pk: SessionPk, id: &SessionId) -> Result<(), Failure> {
        self.check_store()?;
        match self.sessions.get(&pk) {
            Some(detail) => Err(Failure::integrity(id.as_str(), None, detail)),
            None => Ok(()),
        }
    }

    /// Whether the session with this number is suspect.
    pub(crate) fn contains_session(&self, pk: SessionPk) -> bool {
        self.sessions.contains_key(&pk)
    }

    /// The name and the description of the suspect session with this number.
    pub(crate) fn named(&self, pk: SessionPk) -> Option<(&Name, &str)> {
        self.names
            .get(&pk)
            .zip(self.sessions.get(&pk).map(String::as_str))
    }

    /// The suspect sessions of a tenant, each with its description.
    pub(crate) fn in_tenant(&self, tenant: &TenantId) -> impl Iterator<Item = (&SessionId, &str)> {
        let of_tenant = self.by_name.iter().filter(move |((t, _), _)| t == tenant);
        of_tenant.map(|((_, id), detail)| (id, detail.as_str()))
    }

    /// The hash of the owner of a suspect session, if it is known.
    pub(crate) fn owner(&self, tenant: &TenantId, id: &SessionId) -> Option<&OwnerHash> {
        self.owners.get(&(tenant.clone(), id.clone()))
    }

    /// The failure of a list that could lack a session, for a caller who may not learn which one.
    pub(crate) fn unnamed_failure() -> Failure {
        Failure::new(
            ErrorCode::IntegrityError,
            "a session of this tenant was changed outside filrouge, so a list could lack one",
        )
        .with_hint("`filrouge verify` names it to the operator")
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
        match self.by_name.get(&(tenant.clone(), id.clone())) {
            Some(detail) => Err(Failure::integrity(id.as_str(), None, detail)),
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
