//! Decides whether a session passes a filter.

use super::SessionFilter;
use crate::rows::SessionRow;

impl SessionFilter {
    /// Whether a session passes the filter. Ignores [`Self::agent`], because the row does not contain the session's
    /// agents.
    #[must_use]
    pub fn matches(&self, row: &SessionRow) -> bool {
        self.project_id
            .as_ref()
            .is_none_or(|p| row.project_id.as_ref() == Some(p))
            && self
                .team_id
                .as_ref()
                .is_none_or(|t| row.team_id.as_ref() == Some(t))
            && self
                .identity_id
                .as_ref()
                .is_none_or(|i| row.identity_id.as_ref() == Some(i))
            && self.status.is_none_or(|s| row.status == s)
            && self.since.is_none_or(|t| row.created_at >= t)
            && self.until.is_none_or(|t| row.created_at < t)
            && self
                .parent_session_id
                .as_ref()
                .is_none_or(|p| row.parent_session_id.as_ref() == Some(p))
            && self.title.as_ref().is_none_or(|t| {
                let title = row.title.as_deref().unwrap_or_default();
                title.to_ascii_lowercase().contains(&t.to_ascii_lowercase())
            })
    }
}
