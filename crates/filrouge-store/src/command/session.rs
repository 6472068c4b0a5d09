//! Writes that concern an entire session, and notes, which belong to no session.

use filrouge_types::{
    EventKey, IdentityId, ProjectId, RawJson, SessionId, SessionStatus, Timestamp,
};

use serde::{Deserialize, Serialize};

use crate::keyring::MAC_BYTES;

/// The keyed hash of an anonymous session's secret (DESIGN §7, `require_session_token`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionToken(#[serde(with = "crate::hex")] pub [u8; MAC_BYTES]);

/// A session to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its id.
    pub session_id: SessionId,
    /// The session that started it.
    pub parent_session_id: Option<SessionId>,
    /// Its project.
    pub project_id: Option<ProjectId>,
    /// Its team.
    pub team_id: Option<Box<str>>,
    /// Its title.
    pub title: Option<Box<str>>,
    /// The application's data, a JSON object.
    pub metadata: RawJson,
    /// The times of its creation and of its last change, if it has a past elsewhere; times in the future become the
    /// present. `None`: both are the present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<[Timestamp; 2]>,
}

impl NewSession {
    /// A session with this id and no other data. The start of a turn creates sessions in this form.
    pub fn with_id(session_id: SessionId) -> Self {
        Self {
            session_id,
            parent_session_id: None,
            project_id: None,
            team_id: None,
            title: None,
            metadata: RawJson::from_checked("{}"),
            times: None,
        }
    }
}

/// The changes to a session. A field that is `None` keeps its value; an inner `None` clears it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionPatch {
    /// The title.
    pub title: Option<Option<Box<str>>>,
    /// The status.
    pub status: Option<SessionStatus>,
    /// The application's label.
    pub state: Option<Option<Box<str>>>,
    /// The project.
    pub project_id: Option<Option<ProjectId>>,
    /// Merged into the metadata as RFC 7396 specifies.
    pub metadata: Option<Option<RawJson>>,
}

/// Changes a session's listed fields.
#[derive(Debug, Clone)]
pub struct Patch {
    /// The session.
    pub session_id: SessionId,
    /// The changes.
    pub patch: SessionPatch,
    /// The write is refused unless the session has one of these versions; `None` allows any.
    pub versions: Option<Vec<[u8; MAC_BYTES]>>,
    /// The maximum size of the merged metadata, in bytes.
    pub metadata_max: usize,
}

/// Ends a session; its open turns can still be ended.
#[derive(Debug, Clone)]
pub struct CloseSession {
    /// The session.
    pub session_id: SessionId,
    /// The reason; it remains in the ledger.
    pub reason: Option<Box<str>>,
}

/// Makes an identity the owner of an anonymous session, permanently (DESIGN §7).
#[derive(Debug, Clone)]
pub struct Link {
    /// The session.
    pub session_id: SessionId,
    /// Its new owner.
    pub identity_id: IdentityId,
}

/// Erases a session. A tombstone with its id remains, so that late writes are refused (DESIGN §9).
#[derive(Debug, Clone)]
pub struct Erase {
    /// The session.
    pub session_id: SessionId,
}

/// The data that remains of an erased session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Erased {
    /// The time of the erasure.
    pub at: Timestamp,
    /// The keyed hash of the session's owner ([`crate::Keyring::owner`]).
    pub owner: [u8; MAC_BYTES],
    /// The number of items that the session had.
    pub items: u64,
    /// The number of turns that the session had.
    pub turns: u64,
}

/// Records an event of a session, once per key (DESIGN §6).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewEvent {
    /// The session.
    pub session_id: SessionId,
    /// The caller's key, unique in the session.
    pub key: EventKey,
    /// The kind of the event.
    pub kind: Box<str>,
    /// The time of the event according to the caller; if absent, the time of the write.
    pub at: Option<Timestamp>,
    /// The caller's data, a JSON object.
    pub detail: Option<RawJson>,
}

/// Writes a note if its current version is the expected one.
#[derive(Debug, Clone)]
pub struct PutNote {
    /// The note's name.
    pub name: Box<str>,
    /// The version that the note must have; 0 if the note must not exist.
    pub expected: u64,
    /// The new value.
    pub value: Vec<u8>,
}
