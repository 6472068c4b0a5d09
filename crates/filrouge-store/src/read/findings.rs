//! Lists that leave out damaged sessions, and name them.
//!
//! A list continues after a damaged session only if the session is all that could be missing. The operator's lists name
//! every damaged session of the tenant. An end user's lists name those of this end user, and continue: the commit log has
//! the hash of each session's owner. Without it, in stores of older programs, the owner of a damaged session is known
//! only if its row is as filrouge wrote it; otherwise the session may be the end user's, whose list is refused. The
//! refusal does not name the session, because it may belong to another identity (P6).

use filrouge_types::{ErrorCode, Failure, SessionId};

use super::VerifiedSnapshot;
use crate::command::{Scope, Viewer};
use crate::record::MacCheck;
use crate::rows::{SessionPk, StoredSession, View};
use crate::verify::{Finding, Suspects};

/// The maximum number of damaged sessions that a list names; a list with more is refused.
const FINDINGS_MAX: usize = 100;

/// The damaged sessions that a list leaves out.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Adds the integrity failure of a session, unless one of this session is known.
    ///
    /// # Errors
    /// The failure, if it names no session, has another code, or is one too many.
    pub fn add(&mut self, failure: Failure) -> Result<(), Failure> {
        if session_of(&failure).is_none() {
            return Err(failure);
        }
        let finding = Finding::from(failure.clone());
        if self.0.iter().any(|f| f.session_id == finding.session_id) {
            return Ok(());
        }
        if self.0.len() == FINDINGS_MAX {
            return Err(failure);
        }
        self.0.push(finding);
        Ok(())
    }

    /// The findings, in the order in which they were added.
    #[must_use]
    pub fn into_vec(self) -> Vec<Finding> {
        self.0
    }
}

/// The session that an integrity failure names.
fn session_of(failure: &Failure) -> Option<SessionId> {
    let location = failure.location.as_ref()?;
    let is_damage = failure.code == ErrorCode::IntegrityError;
    SessionId::new(location.session_id.as_str())
        .ok()
        .filter(|_| is_damage)
}

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// Fails for a list in which a session may be missing. The failure names the session only to the operator, because
    /// the session may belong to another identity (P6).
    pub(super) fn check_listing(&self, scope: &Scope) -> Result<(), Failure> {
        self.suspects.check_store()?;
        for (id, detail) in self.suspects.in_tenant(&scope.tenant) {
            if scope.viewer == Viewer::Operator {
                return Err(Failure::integrity(id.as_str(), None, detail));
            }
            let owner = self.suspects.owner(&scope.tenant, id);
            if owner.is_none_or(|owner| self.can_list_owner(scope, owner)) {
                return Err(Suspects::unnamed_failure());
            }
        }
        Ok(())
    }

    /// Adds the sessions of the tenant with known integrity errors, as far as a list of `scope` could contain them.
    ///
    /// # Errors
    /// `integrity_error` if the entire store is suspect, or if the list could lack a session that it may not name.
    pub(super) fn add_known_damage(
        &self,
        scope: &Scope,
        findings: &mut Findings,
    ) -> Result<(), Failure> {
        self.suspects.check_store()?;
        for (id, detail) in self.suspects.in_tenant(&scope.tenant) {
            if self.names_to(scope, id, None)? {
                findings.add(Failure::integrity(id.as_str(), None, detail))?;
            }
        }
        Ok(())
    }

    /// The session's id if the caller may see its changes. A damaged session is added to `findings` instead.
    pub(super) fn visible_or_found(
        &self,
        scope: &Scope,
        pk: SessionPk,
        findings: &mut Findings,
    ) -> Result<Option<SessionId>, Failure> {
        if let Some(((tenant, id), detail)) = self.suspects.named(pk) {
            if *tenant == scope.tenant && self.names_to(scope, id, None)? {
                findings.add(Failure::integrity(id.as_str(), None, detail))?;
            }
            return Ok(None);
        }
        let failure = match self.visible_session(scope, pk) {
            Err(failure) => failure,
            visible => return visible,
        };
        let Some(id) = session_of(&failure) else {
            return Err(failure);
        };
        if self.names_to(scope, &id, Some((pk, &failure.detail)))? {
            findings.add(failure)?;
        }
        Ok(None)
    }

    /// Whether a list of `scope` names this damaged session. `found` is the number of a session that is not known as
    /// suspect, and the description of its damage; its owner is then searched in the commit log.
    ///
    /// # Errors
    /// `integrity_error` if the session may belong in the list but may not be named.
    fn names_to(
        &self,
        scope: &Scope,
        id: &SessionId,
        found: Option<(SessionPk, &str)>,
    ) -> Result<bool, Failure> {
        if scope.viewer == Viewer::Operator {
            return Ok(true);
        }
        if let Some(owner) = self.suspects.owner(&scope.tenant, id) {
            return Ok(self.can_list_owner(scope, owner));
        }
        if let Some((pk, detail)) = found
            && self.check == MacCheck::Keyed
            && let Some(((tenant, logged_id), Some(owner))) =
                self.heads
                    .find_in_log(self.view, self.keyring, pk, detail)?
            && (&tenant, &logged_id) == (&scope.tenant, id)
        {
            return Ok(self.can_list_owner(scope, &owner));
        }
        let stored = match self.view.session(&scope.tenant, id, None) {
            Err(failure) if failure.code != ErrorCode::IntegrityError => return Err(failure),
            stored => stored.ok().flatten(),
        };
        match stored {
            Some(stored) if scope.can_list(&stored.row) => Ok(true),
            Some(stored) if self.has_known_owner(&stored) => Ok(false),
            _ => Err(Suspects::unnamed_failure()),
        }
    }

    /// Whether a session's row is as filrouge wrote it, although perhaps not the newest one, and names an owner. The
    /// owner of a session never changes.
    fn has_known_owner(&self, stored: &StoredSession) -> bool {
        let is_genuine = stored.head.as_ref().is_some_and(|head| {
            let is_signed = self.check == MacCheck::Unverified
                || head.mac_matches(self.keyring, stored.pk) == Some(true);
            is_signed && stored.row.fingerprint() == head.session
        });
        is_genuine && stored.row.identity_id.is_some()
    }
}
