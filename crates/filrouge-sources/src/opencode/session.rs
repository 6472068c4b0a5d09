//! Session records to headers.

use super::storage::{NAME, SessionText};
use crate::files;
use crate::object::{Object, Refusal, Writer, check_value, skip};
use crate::{Changes, Header, SkipReason, Skipped};

/// Fields of a session record that have a place of their own in a [`Header`].
const TAKEN: [&str; 7] = [
    "version",
    "id",
    "projectID",
    "parentID",
    "directory",
    "title",
    "share",
];

/// The header of a session.
pub(super) fn header(session: &SessionText) -> Result<Header, Skipped> {
    read(session).map_err(|why| skip(&session.place, why))
}

fn read(session: &SessionText) -> Result<Header, Refusal> {
    let object = Object::parse(check_value(&session.text)?)?;
    check_own_id(&object, "id", &session.id)?;
    let time = object.object("time")?.ok_or_else(|| missing("time"))?;
    let created = time.millis("created");
    let created = created.ok_or_else(|| missing("time.created"))?;
    let text = |key| object.text(key).map(Into::into);
    let own = |text: &Option<Box<str>>| text.clone();
    Ok(Header {
        id: session.id.clone(),
        source: NAME,
        generation: session.generation,
        parent_id: object
            .text("parentID")
            .filter(|id| files::is_id(id))
            .map(Into::into),
        fork_of: own(&session.fork_of),
        project_id: Some(session.folder.clone()).filter(|key| !key.is_empty()),
        project_name: own(&session.project.name),
        worktree: own(&session.project.worktree),
        directory: text("directory").or_else(|| own(&session.directory)),
        title: text("title"),
        agent: own(&session.agent),
        version: text("version"),
        created,
        updated: time.millis("updated").unwrap_or(created),
        archived: time.millis("archived"),
        changes: object.object("summary").ok().flatten().map(|s| changes(&s)),
        fingerprint: None,
    })
}

/// The changes an object sums up.
fn changes(summary: &Object<'_>) -> Changes {
    let count = |key| summary.count(key).unwrap_or(0);
    Changes {
        additions: count("additions"),
        deletions: count("deletions"),
        files: count("files"),
    }
}

/// What metadata keeps of a session's record: everything that has no place of its own in the header, and the address of
/// a shared session without the secret that early versions kept beside it.
pub(super) fn metadata(header: &Header, session: &SessionText) -> Result<Writer, Skipped> {
    rest(header, session).map_err(|why| skip(&session.place, why))
}

fn rest(header: &Header, session: &SessionText) -> Result<Writer, Refusal> {
    let object = Object::parse(&session.text)?;
    let mut fields = object.without(&TAKEN);
    let folder = &*session.folder;
    let kept = [
        ("parentID", header.parent_id.is_some()),
        (
            "projectID",
            object.text("projectID").as_deref() == Some(folder),
        ),
        ("directory", object.token("directory").is_some()),
        ("title", header.title.is_some()),
        ("version", header.version.is_some()),
    ];
    for (key, mapped) in kept {
        if let Some(raw) = object.get(key).filter(|_| !mapped) {
            fields.raw(key, raw);
        }
    }
    let share = object.object("share")?;
    if let Some(url) = share.as_ref().and_then(|share| share.token("url")) {
        let mut share = Writer::default();
        share.raw("url", url);
        fields.nested("share", share);
    }
    let mut metadata = Writer::default();
    metadata.text("generation", header.generation);
    metadata.nested("session", fields);
    Ok(metadata)
}

/// Checks that an id inside a record, when there is one, is the one of its place.
pub(super) fn check_own_id(object: &Object<'_>, key: &str, id: &str) -> Result<(), Refusal> {
    match object.get(key) {
        None => Ok(()),
        Some(_) => match object.text(key) {
            Some(inside) if inside == id => Ok(()),
            _ => Err((SkipReason::IdMismatch, format!("{key} is not {id:?}"))),
        },
    }
}

/// A refusal for a field that is needed.
pub(super) fn missing(field: &str) -> Refusal {
    (
        SkipReason::BadField,
        format!("{field} is absent or not of its type"),
    )
}
