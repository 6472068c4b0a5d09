//! Lists that leave out damaged sessions, and name them.
//!
//! A list continues after a damaged session only if the session is all that could be missing. The operator's lists name
//! every damaged session of the tenant. An end user's lists name those of this end user, and no others (P6): the commit
//! log has the hash of each session's owner.

use filrouge_types::{ErrorCode, Failure, Result, SessionId};

use super::{VerifiedSession, VerifiedSnapshot};
use crate::command::{Scope, Viewer};
use crate::rows::{SessionPk, View};
use crate::verify::{Finding, LoggedSession};

/// The maximum number of damaged sessions that a list names; a list with more is refused.
const FINDINGS_MAX: usize = 100;

/// The damaged sessions that a list leaves out, and those of which it leaves out the name of an agent.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Adds the integrity failure of a session, unless one of this session is known.
    ///
    /// # Errors
    /// The failure, if it names no session, has another code, or is one too many.
    pub fn add(&mut self, failure: Failure) -> Result<()> {
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

    /// Adds the failure of a row that a list leaves out of a session. The list shows everything else, so it is not
    /// refused if there are too many findings.
    pub(super) fn add_row(&mut self, session: &VerifiedSession, failure: Failure) {
        let session_id = Some(session.name().to_owned());
        if self.0.len() < FINDINGS_MAX && self.0.iter().all(|f| f.session_id != session_id) {
            self.0.push(Finding {
                session_id,
                ..Finding::from(failure)
            });
        }
    }

    /// The findings, in the order in which they were added.
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
    /// Fails for a list of `scope` in which a session may be missing.
    pub(super) fn check_listing(&self, scope: &Scope) -> Result<()> {
        self.suspects.check_store()?;
        self.known_damage(scope).next().map_or(Ok(()), Err)
    }

    /// Adds the sessions with known integrity errors that a list of `scope` could contain.
    ///
    /// # Errors
    /// `integrity_error` if the entire store is suspect, or if there are too many.
    pub(super) fn add_known_damage(&self, scope: &Scope, findings: &mut Findings) -> Result<()> {
        self.suspects.check_store()?;
        self.known_damage(scope)
            .try_for_each(|failure| findings.add(failure))
    }

    /// The failures of the sessions with known integrity errors that a list of `scope` could contain.
    fn known_damage(&self, scope: &Scope) -> impl Iterator<Item = Failure> {
        let suspects = self.suspects.all_logged();
        suspects.filter_map(move |suspect| self.listed_damage(scope, suspect))
    }

    /// The failure of a suspect session, if a list of `scope` could contain the session.
    fn listed_damage(
        &self,
        scope: &Scope,
        (logged, detail): (&LoggedSession, &str),
    ) -> Option<Failure> {
        let ((_, id), _) = logged;
        let is_listed = self.is_listed(scope, logged);
        is_listed.then(|| Failure::integrity(id.as_str(), None, detail))
    }

    /// Whether a list of `scope` could contain the session.
    fn is_listed(&self, scope: &Scope, ((tenant, _), owner): &LoggedSession) -> bool {
        *tenant == scope.tenant && self.can_list_owner(scope, owner)
    }

    /// The session's id if the caller may see its changes. A damaged session is added to `findings` instead.
    pub(super) fn visible_or_found(
        &self,
        scope: &Scope,
        pk: SessionPk,
        findings: &mut Findings,
    ) -> Result<Option<SessionId>> {
        let damage = match self.suspects.logged(pk) {
            Some(suspect) => self.listed_damage(scope, suspect),
            None => match self.visible_session(scope, pk) {
                Err(failure) if session_of(&failure).is_some() => {
                    self.found_damage(scope, pk, failure)?
                }
                visible => return visible,
            },
        };
        damage.map_or(Ok(()), |failure| findings.add(failure))?;
        Ok(None)
    }

    /// The failure of a session in which a read has found damage, if a list of `scope` could contain the session.
    fn found_damage(
        &self,
        scope: &Scope,
        pk: SessionPk,
        failure: Failure,
    ) -> Result<Option<Failure>> {
        if scope.viewer == Viewer::Operator {
            return Ok(Some(failure));
        }
        let detail = &failure.detail;
        match self
            .heads
            .find_in_log(self.view, self.keyring, pk, detail)?
        {
            Some(logged) => Ok(self.is_listed(scope, &logged).then_some(failure)),
            None => {
                let detail = format!("no commit created session number {pk}");
                Err(Failure::new(ErrorCode::IntegrityError, detail))
            }
        }
    }
}
