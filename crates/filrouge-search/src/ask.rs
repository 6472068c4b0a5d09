//! What is asked for.

use filrouge_sources::Role;

/// What is asked for. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Words, `"a phrase"`, `/regex/` or `/regex/i`; also `-word`. Empty with a filter: everything that passes it.
    pub query: String,
    /// Only messages of this agent; one that names none is of its session's.
    pub agent: Option<String>,
    /// A project's id, name, or folder.
    pub project_id: Option<String>,
    /// Only calls of this tool, in any case.
    pub tool: Option<String>,
    /// Only messages of this role.
    pub role: Option<Role>,
    /// Only messages at this time or later.
    pub since: Option<i64>,
    /// Only messages before this time.
    pub until: Option<i64>,
    /// Only of this program.
    pub source: Option<String>,
    /// Not this session, most often the caller's own.
    pub exclude_session: Option<String>,
    /// Only this session.
    pub session_id: Option<String>,
    /// At most so many sessions; 0 means the default, 20.
    pub limit: usize,
    /// At most so many excerpts of a session; 0 means the default, 5.
    pub excerpts: usize,
    /// Where to go on: `nextCursor` of the page before. With `session_id` pages go through the matches of that session.
    pub cursor: Option<String>,
    /// Masks what has the form of a credential in excerpts and all words but ids; nothing is found in it then.
    pub mask: bool,
}
