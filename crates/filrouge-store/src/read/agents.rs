//! The agents of sessions, by which lists find them.

use std::collections::BTreeSet;

use filrouge_types::{Failure, Result, Session};

use super::lists::refuse;
use super::{Findings, SessionPage, VerifiedSession, VerifiedSnapshot};
use crate::command::{Scope, SessionFilter, matches_pattern};
use crate::rows::{AgentRow, SessionPk, View};

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// As [`Self::list_sessions`], and the sessions have their agents. A row of an agent that fails verification is
    /// left out, and its session is added to `findings`; the page lacks this session only if no other row fits the
    /// filter's agent. The page cannot show that a row was deleted: only [`Self::verify_session`] compares the rows
    /// with the items.
    ///
    /// # Errors
    /// As [`Self::list_sessions`].
    pub fn list_sessions_with_agents(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        from: Option<&str>,
        limit: usize,
        findings: &mut Findings,
    ) -> Result<SessionPage> {
        let (page, next) = self.listed_page(scope, filter, from, limit, findings)?;
        let numbers: Vec<SessionPk> = page.iter().map(|session| session.pk).collect();
        let mut rows = self.view.agents(&numbers)?;
        let mut sessions = Vec::with_capacity(page.len());
        for session in page {
            let rows = rows.remove(&session.pk).unwrap_or_default();
            let mut are_complete = true;
            let agents = self.verified_agents(&session, rows, &mut |failure| {
                are_complete = false;
                findings.add_row(&session, failure);
                Ok(())
            })?;
            let fits = |wanted: &str| agents.iter().any(|agent| matches_pattern(agent, wanted));
            if are_complete || filter.agent.as_deref().is_none_or(fits) {
                sessions.push(Session {
                    agents: agents.into_iter().collect(),
                    ..session.row.with_head(&session.head)
                });
            }
        }
        Ok((sessions, next))
    }

    /// The agents of a session.
    ///
    /// # Errors
    /// `integrity_error`, `key_missing`.
    pub fn agents(&self, session: &VerifiedSession) -> Result<BTreeSet<Box<str>>> {
        let mut rows = self.view.agents(&[session.pk])?;
        let rows = rows.remove(&session.pk).unwrap_or_default();
        self.verified_agents(session, rows, &mut refuse)
    }

    /// The agents that these rows of a session name. `on_damage` decides whether to continue after a row that fails
    /// verification. No failure contains a name, because it may be forged.
    fn verified_agents(
        &self,
        session: &VerifiedSession,
        rows: Vec<Option<AgentRow>>,
        on_damage: &mut dyn FnMut(Failure) -> Result<()>,
    ) -> Result<BTreeSet<Box<str>>> {
        let mut agents = BTreeSet::new();
        for row in rows {
            match self.verified_agent(session, row) {
                Ok(agent) if agents.contains(&agent) => {
                    on_damage(session.integrity_failure(None, "an agent was recorded twice"))?;
                }
                Ok(agent) => {
                    agents.insert(agent);
                }
                Err(failure) => on_damage(failure)?,
            }
        }
        Ok(agents)
    }

    fn verified_agent(&self, session: &VerifiedSession, row: Option<AgentRow>) -> Result<Box<str>> {
        let Some(row) = row else {
            return Err(session.integrity_failure(None, "the row of an agent is malformed"));
        };
        let mac_matches = row.mac_matches(self.keyring, session.pk);
        self.check_mac(session, mac_matches, None, || {
            "the row of an agent was changed (its MAC does not match)".to_owned()
        })?;
        Ok(row.agent)
    }
}
