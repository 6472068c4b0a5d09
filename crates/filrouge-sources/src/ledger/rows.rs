//! Converts the ledger's sessions to headers.

use filrouge_engine::Origin;
use filrouge_types::{RawJson, Session, Timestamp};

use crate::object::Object;
use crate::opencode::changed_files::session_changes;
use crate::{Changes, Header};

/// The name of the source and of its only generation.
pub(super) const NAME: &str = "ledger";

/// A session's header, as [`super::LedgerSource`] lists it.
pub fn header(session: &Session) -> Header {
    let origin = Origin::of(&session.metadata);
    let parent_id = session.parent_session_id.as_ref();
    Header {
        id: session.session_id.as_str().into(),
        source: NAME,
        generation: NAME,
        parent_id: parent_id.map(|id| id.as_str().into()),
        project_id: session.project_id.as_ref().map(|id| id.as_str().into()),
        project_name: origin.project_name,
        worktree: origin.worktree,
        directory: origin.directory,
        title: session.title.clone(),
        title_is_derived: session.title_is_derived,
        agent: origin.agent,
        agents: session.agents.clone(),
        version: origin.version,
        created: session.created_at.as_millis(),
        updated: session.updated_at.as_millis(),
        archived: origin.archived.map(Timestamp::as_millis),
        changes: changes(&session.metadata),
        ..Header::default()
    }
}

/// The changes in the summary of an imported session.
fn changes(metadata: &RawJson) -> Option<Changes> {
    let metadata = Object::parse(metadata.as_str()).ok()?;
    let session = metadata
        .field("opencode")
        .object()?
        .field("session")
        .object()?;
    Some(session_changes(&session.field("summary").object()?))
}
