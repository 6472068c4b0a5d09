//! Writes that concern a session as a whole, and notes, which concern none.

use filrouge_types::{
    EventKey, IdentityId, ProjectId, RawJson, SessionId, SessionStatus, Timestamp,
};

use serde::{Deserialize, Serialize};

use crate::keyring::MAC_BYTES;

/// The keyed hash of an anonymous session's secret (DESIGN §7, `require_session_token`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionToken(#[serde(with = "crate::hex")] pub [u8; MAC_BYTES]);

/// What is to change of a session; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionPatch {
    /// The title, or none.
    pub title: Option<Option<Box<str>>>,
    /// Whether it goes on.
    pub status: Option<SessionStatus>,
    /// The application's label, or none.
    pub state: Option<Option<Box<str>>>,
    /// The project, or none.
    pub project_id: Option<Option<ProjectId>>,
    /// Merged into the metadata as RFC 7396 says, or none at all.
    pub metadata: Option<Option<RawJson>>,
}

/// Changes what is listed of a session.
#[derive(Debug, Clone)]
pub struct Patch {
    /// The session.
    pub session_id: SessionId,
    /// The changes.
    pub patch: SessionPatch,
    /// The versions it may be in; `None` for any.
    pub versions: Option<Vec<[u8; MAC_BYTES]>>,
    /// Most bytes of the merged metadata.
    pub metadata_max: usize,
}

/// Ends a session; open turns may still be finished.
#[derive(Debug, Clone)]
pub struct CloseSession {
    /// The session.
    pub session_id: SessionId,
    /// Why; stays in the journal.
    pub reason: Option<Box<str>>,
}

/// Gives an anonymous session its owner, once and for all (DESIGN §7).
#[derive(Debug, Clone)]
pub struct Link {
    /// The session.
    pub session_id: SessionId,
    /// Its owner from now on.
    pub identity_id: IdentityId,
}

/// Erases a session: nothing of it stays but its name, so that late writes find it gone (DESIGN §9).
#[derive(Debug, Clone)]
pub struct Erase {
    /// The session.
    pub session_id: SessionId,
}

/// What stays of an erased session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Erased {
    /// When.
    pub at: Timestamp,
    /// A keyed hash of who owned it.
    pub owner: [u8; MAC_BYTES],
    /// How many items it had.
    pub items: u64,
    /// How many turns it had.
    pub turns: u64,
}

/// Records an event of a session, once for each key (DESIGN §6).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewEvent {
    /// The session.
    pub session_id: SessionId,
    /// The caller's key, unique in the session.
    pub key: EventKey,
    /// What kind of event it is.
    pub kind: Box<str>,
    /// When it happened, as the caller says; now when absent.
    pub at: Option<Timestamp>,
    /// The caller's data, a JSON object.
    pub detail: Option<RawJson>,
}

/// Puts a small named value of the store, if it is at the version that is expected.
#[derive(Debug, Clone)]
pub struct PutNote {
    /// Its name.
    pub name: Box<str>,
    /// The version it must have; 0 for one that is not there yet.
    pub expected: u64,
    /// The value.
    pub value: Vec<u8>,
}
