//! The filter of a session list.

use filrouge_types::{IdentityId, ProjectId, SessionId, SessionStatus, Timestamp};

use crate::rows::SessionRow;

filrouge_types::words!(
    /// The time by which a list of sessions is ordered, the newest first.
    #[derive(Default)]
    pub enum SessionSort: "order" {
        /// The time of creation, which never changes: pages neither skip nor repeat sessions while others write.
        #[default]
        Created => "created",
        /// The last activity: the time at which a turn last began or ended, or the session itself last changed. A
        /// session that becomes active while pages are read moves to the front, so later pages lack it or repeat it.
        Updated => "updated",
    }
);

/// The filter and the order of a session list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Selects the sessions of this project.
    pub project_id: Option<ProjectId>,
    /// Selects the sessions of this team.
    pub team_id: Option<Box<str>>,
    /// Selects the sessions of this owner.
    pub identity_id: Option<IdentityId>,
    /// Selects the sessions with this status.
    pub status: Option<SessionStatus>,
    /// Selects the sessions created at or after this time.
    pub since: Option<Timestamp>,
    /// Selects the sessions created before this time.
    pub until: Option<Timestamp>,
    /// Selects the sessions that this session started.
    pub parent_session_id: Option<SessionId>,
    /// Selects the sessions with an item by this agent, or by one whose name matches a pattern ([`matches_pattern`]).
    /// Only lists that show agents verify the rows by which it selects.
    pub agent: Option<Box<str>>,
    /// Selects the sessions whose title contains this text; ASCII letters match in either case.
    pub title: Option<Box<str>>,
    /// The order.
    pub order: SessionSort,
}

impl SessionFilter {
    /// Whether a session passes the filter. Ignores [`Self::agent`], because the row does not contain the session's
    /// agents.
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

/// Whether the text is of the pattern's form, in which each `*` is any text.
#[must_use]
pub fn matches_pattern(text: &str, pattern: &str) -> bool {
    let mut pieces = pattern.split('*');
    let (first, last) = (pieces.next(), pieces.next_back());
    let (Some(first), Some(last)) = (first, last) else {
        return text == pattern;
    };
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    for piece in pieces {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}
