//! Session records to headers.

use filrouge_types::{ProjectId, RawJson, SessionId, Timestamp};

use super::generation::SessionText;
use crate::files;
use crate::object::{Object, Refusal, Writer, check_value, skip};
use crate::{Changes, ForeignSession, Header, SkipReason, Skipped};

/// Fields of a session record that have a place of their own in [`ForeignSession`].
const TAKEN: [&str; 7] = [
    "version",
    "id",
    "projectID",
    "parentID",
    "directory",
    "title",
    "share",
];

/// The header of a session; `generation` is the storage's name.
pub(super) fn header(generation: &'static str, session: &SessionText) -> Result<Header, Skipped> {
    read(generation, session).map_err(|why| skip(&session.place, why))
}

fn read(generation: &'static str, session: &SessionText) -> Result<Header, Refusal> {
    let object = Object::parse(check_value(&session.text)?)?;
    check_own_id(&object, "id", &session.id)?;
    let time = object.object("time")?.ok_or_else(|| missing("time"))?;
    let created = time.millis("created");
    let created = created.ok_or_else(|| missing("time.created"))?;
    let text = |key| object.text(key).map(Into::into);
    let own = |text: &Option<Box<str>>| text.clone();
    Ok(Header {
        id: session.id.clone(),
        source: "opencode",
        generation,
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

/// A header for import, whose metadata can still grow.
pub(super) struct Foreign {
    pub(super) session: ForeignSession,
    pub(super) metadata: Writer,
}

impl Foreign {
    /// Reads it from a session's record.
    pub(super) fn read(generation: &'static str, session: &SessionText) -> Result<Self, Skipped> {
        let header = header(generation, session)?;
        foreign(&header, session).map_err(|why| skip(&session.place, why))
    }

    /// The header with its metadata closed.
    pub(super) fn finish(self) -> ForeignSession {
        let mut outer = Writer::default();
        outer.nested("opencode", self.metadata);
        ForeignSession {
            metadata: RawJson::from_checked(outer.finish()),
            ..self.session
        }
    }
}

fn foreign(header: &Header, text: &SessionText) -> Result<Foreign, Refusal> {
    let object = Object::parse(check_value(&text.text)?)?;
    let time = |millis| Timestamp::from_millis(millis).ok_or_else(|| missing("time"));
    let session = ForeignSession {
        id: SessionId::new(&*header.id).map_err(|e| (SkipReason::BadName, e.to_string()))?,
        parent_id: header
            .parent_id
            .as_deref()
            .and_then(|id| SessionId::new(id).ok()),
        project_id: ProjectId::new(&*text.folder).ok(),
        project_name: header.project_name.clone(),
        worktree: header.worktree.clone(),
        directory: header.directory.clone(),
        title: header.title.clone(),
        agent: header.agent.clone(),
        version: header.version.clone(),
        created: time(header.created)?,
        updated: time(header.updated)?,
        archived: header.archived.map(time).transpose()?,
        metadata: RawJson::from_checked("{}"),
    };
    let metadata = rest(header.generation, &text.folder, &object, &session)?;
    Ok(Foreign { session, metadata })
}

/// Everything of the record that has no place of its own, and the address of a shared session
/// without the secret that early versions kept beside it.
fn rest(
    generation: &str,
    folder: &str,
    object: &Object<'_>,
    session: &ForeignSession,
) -> Result<Writer, Refusal> {
    let mut fields = object.without(&TAKEN);
    let kept = [
        ("parentID", session.parent_id.is_some()),
        (
            "projectID",
            object.text("projectID").as_deref() == Some(folder),
        ),
        ("directory", object.token("directory").is_some()),
        ("title", session.title.is_some()),
        ("version", session.version.is_some()),
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
    metadata.text("generation", generation);
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
