//! The ledger's sessions as headers.

use filrouge_types::{Session, Timestamp};
use serde::Deserialize;

use super::NAME;
use crate::Header;

/// What `filrouge import` notes of a history in the session's metadata, as far as a header has a place for it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Origin {
    created: Option<Timestamp>,
    updated: Option<Timestamp>,
    archived: Option<Timestamp>,
    directory: Option<Box<str>>,
    project_name: Option<Box<str>>,
    worktree: Option<Box<str>>,
    agent: Option<Box<str>>,
    pub(super) version: Option<Box<str>>,
}

impl Origin {
    /// What the session's metadata tells; nothing for a session that began in the ledger, or tells something else.
    pub(super) fn of(session: &Session) -> Self {
        #[derive(Default, Deserialize)]
        struct Metadata {
            #[serde(default)]
            origin: Origin,
        }
        let metadata = serde_json::from_str::<Metadata>(session.metadata.as_str());
        metadata.unwrap_or_default().origin
    }
}

/// Milliseconds since 1970.
pub(super) const fn millis(at: Timestamp) -> i64 {
    at.as_millis()
}

fn text(id: impl AsRef<str>) -> Box<str> {
    id.as_ref().into()
}

/// A session's header. One that was imported has the times its program gave it.
pub(super) fn header(session: &Session) -> Header {
    let origin = Origin::of(session);
    Header {
        id: text(session.session_id.as_str()),
        source: NAME,
        generation: NAME,
        parent_id: session
            .parent_session_id
            .as_ref()
            .map(|id| text(id.as_str())),
        fork_of: None,
        project_id: session.project_id.as_ref().map(|id| text(id.as_str())),
        project_name: origin.project_name,
        worktree: origin.worktree,
        directory: origin.directory,
        title: session.title.clone(),
        agent: origin.agent,
        version: origin.version,
        created: millis(origin.created.unwrap_or(session.created_at)),
        updated: millis(origin.updated.unwrap_or(session.updated_at)),
        archived: origin.archived.map(millis),
        changes: None,
        fingerprint: None,
    }
}
