//! Converts the ledger's sessions to headers.

use filrouge_engine::Origin;
use filrouge_types::{Session, Timestamp};

use crate::Header;

/// The name of the source and of its only generation.
pub(super) const NAME: &str = "ledger";

/// Returns a time in milliseconds since 1970.
pub(super) const fn millis(at: Timestamp) -> i64 {
    at.as_millis()
}

fn boxed(id: impl AsRef<str>) -> Box<str> {
    id.as_ref().into()
}

/// A session's header. An imported session has the times that its program recorded.
pub(super) fn header(session: &Session) -> Header {
    let origin = Origin::of(&session.metadata);
    Header {
        id: boxed(session.session_id.as_str()),
        source: NAME,
        generation: NAME,
        parent_id: session
            .parent_session_id
            .as_ref()
            .map(|id| boxed(id.as_str())),
        fork_of: None,
        project_id: session.project_id.as_ref().map(|id| boxed(id.as_str())),
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
