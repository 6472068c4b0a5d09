//! Converts session records to headers.

use super::changed_files::session_changes;
use super::storage::{NAME, SessionText};
use crate::files;
use crate::object::{Object, Refusal, Result, Writer, check_value, refusal_report};
use crate::{Header, SkipReason, Skipped};

/// Fields of a session record that are not simply copied to the metadata: they have an equivalent in [`Header`], or
/// [`remaining_metadata`] converts them.
const CONVERTED: [&str; 7] = [
    "version",
    "id",
    "projectID",
    "parentID",
    "directory",
    "title",
    "share",
];

/// Converts a session's record to its header.
pub(super) fn header(session: &SessionText) -> Result<Header, Skipped> {
    read_header(session).map_err(|why| refusal_report(&session.place, why))
}

fn read_header(session: &SessionText) -> Result<Header> {
    let object = Object::parse(check_value(&session.text)?)?;
    check_own_id(&object, "id", &session.id)?;
    let time = required_object(&object, "time")?;
    let created = time.millis("created");
    let created = created.ok_or_else(|| missing_field("time.created"))?;
    let text = |key| object.text(key).map(Box::<str>::from);
    Ok(Header {
        id: session.id.clone(),
        source: NAME,
        generation: session.generation,
        parent_id: text("parentID").filter(|id| files::is_id(id)),
        fork_of: session.fork_of.clone(),
        project_id: Some(session.folder.clone()).filter(|key| !key.is_empty()),
        project_name: session.project.name.clone(),
        worktree: session.project.worktree.clone(),
        directory: text("directory").or_else(|| session.directory.clone()),
        title: text("title"),
        agent: session.agent.clone(),
        agents: Vec::new(),
        version: text("version"),
        created,
        updated: time.millis("updated").unwrap_or(created),
        archived: time.millis("archived"),
        changes: object
            .field("summary")
            .object()
            .map(|s| session_changes(&s)),
        damaged: session.damaged,
        ..Header::default()
    })
}

/// The text that replaces the record of a damaged session with these times.
pub(super) fn substitute(created: i64, updated: i64) -> String {
    format!(r#"{{"time":{{"created":{created},"updated":{updated}}}}}"#)
}

/// The metadata of a session: every field of its record that the header does not contain. Of a shared session, only the
/// URL is kept, not the secret that early versions stored with it.
pub(super) fn metadata(header: &Header, session: &SessionText) -> Result<Writer, Skipped> {
    remaining_metadata(header, session).map_err(|why| refusal_report(&session.place, why))
}

fn remaining_metadata(header: &Header, session: &SessionText) -> Result<Writer> {
    let object = Object::parse(&session.text)?;
    let mut fields = object.without(&CONVERTED);
    let is_own_project = object.text("projectID").as_deref() == Some(&*session.folder);
    let mapped_fields = [
        ("parentID", header.parent_id.is_some()),
        ("projectID", is_own_project),
        ("directory", object.token("directory").is_some()),
        ("title", header.title.is_some()),
        ("version", header.version.is_some()),
    ];
    for (key, mapped) in mapped_fields {
        fields.optional_raw(key, object.get(key).filter(|_| !mapped));
    }
    let share = object.object("share")?.unwrap_or_default();
    let mut shared = Writer::default();
    shared.optional_raw("url", share.token("url"));
    fields.nested("share", shared);
    let mut metadata = Writer::default();
    metadata.text("generation", header.generation);
    metadata.nested("session", fields);
    Ok(metadata)
}

/// Checks that an id inside a record, if it has one, matches the id in its path or column.
pub(super) fn check_own_id(object: &Object<'_>, key: &str, id: &str) -> Result<()> {
    match object.has(key) && object.text(key).as_deref() != Some(id) {
        true => Err((SkipReason::IdMismatch, format!("{key} is not {id:?}"))),
        false => Ok(()),
    }
}

/// The object of a required field.
pub(super) fn required_object<'a>(object: &Object<'a>, key: &str) -> Result<Object<'a>> {
    object.object(key)?.ok_or_else(|| missing_field(key))
}

/// A refusal for a missing or invalid required field.
pub(super) fn missing_field(field: &str) -> Refusal {
    let detail = format!("{field} is absent or not of its type");
    (SkipReason::BadField, detail)
}
