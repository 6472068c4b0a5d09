//! Sessions (DESIGN §3).

use crate::words::stored_words;
use crate::{EventKey, IdentityId, Item, ProjectId, RawJson, SessionId, TenantId, Timestamp, Turn};
use serde::{Deserialize, Serialize};

stored_words!(
    /// Whether a session continues.
    pub enum SessionStatus: "session status" {
        /// In progress.
        Active = 0 => "active",
        /// Waiting, for example a team for its human.
        Paused = 1 => "paused",
        /// Ended.
        Closed = 2 => "closed",
    }
);

// The field order is that of the public JSON (DESIGN §12).
/// One conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Session {
    /// Its id, unique in the tenant.
    pub session_id: SessionId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its owner; absent while the session is anonymous.
    pub identity_id: Option<IdentityId>,
    /// The session that started it.
    pub parent_session_id: Option<SessionId>,
    /// Its project.
    pub project_id: Option<ProjectId>,
    /// Its team.
    pub team_id: Option<Box<str>>,
    /// Its title: the first words of the first question until somebody sets one.
    pub title: Option<Box<str>>,
    /// Whether it continues.
    pub status: SessionStatus,
    /// The application's label, for example the state of its state machine.
    pub state: Option<Box<str>>,
    /// The newest seq; 0 while it is empty.
    pub last_seq: u64,
    /// The number of turns that were started.
    pub turn_count: u64,
    /// The application's data, a JSON object.
    #[schema(value_type = Object)]
    pub metadata: RawJson,
    /// When it was created.
    pub created_at: Timestamp,
    /// When one of its turns last began or ended, or when the session itself was last changed.
    pub updated_at: Timestamp,
    /// The agents that wrote items, in lists of sessions; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Box<str>>,
    /// Changes when a patchable field changes, but not with new items. Returned as `ETag`, checked by `If-Match`.
    #[serde(skip)]
    pub version: [u8; 16],
    /// Whether nobody has set the title.
    #[serde(skip)]
    pub title_is_derived: bool,
}

/// A session with all its turns and their items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The session.
    pub session: Session,
    /// All turns in the order of ordinal and version, including redacted and replaced ones. Each turn has its items in
    /// the order of seq.
    pub turns: Vec<(Turn, Vec<Item>)>,
    /// The items without a turn, such as links and redactions, in the order of seq.
    pub loose: Vec<Item>,
}

/// Something that happened in a session, for key figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SessionEvent {
    /// The caller's key.
    pub key: EventKey,
    /// The kind of event, such as `call_started`.
    pub kind: Box<str>,
    /// When it happened, by the caller's clock.
    pub at: Timestamp,
    /// The caller's data, a JSON object.
    #[schema(value_type = Option<Object>)]
    pub detail: Option<RawJson>,
    /// When it was recorded.
    pub created_at: Timestamp,
}
