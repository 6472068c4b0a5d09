//! Session files to session headers.

use std::path::Path;

use filrouge_types::{ProjectId, RawJson, SessionId};

use crate::files;
use crate::object::{Object, Refusal, Writer, check_value};
use super::tree::{Project, Tree, skip};
use crate::{ForeignSession, SessionRef, SkipReason, Skipped};

/// Fields of a session file that have a place of their own in [`ForeignSession`].
const TAKEN: [&str; 7] = [
    "version",
    "id",
    "projectID",
    "parentID",
    "directory",
    "title",
    "share",
];

/// A header whose metadata can still grow.
pub(super) struct Header {
    pub(super) session: ForeignSession,
    pub(super) metadata: Writer,
}

impl Header {
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

/// Reads the session file at `path`; `index` is the tree's place in the source.
pub(super) fn read(
    tree: &dyn Tree,
    index: usize,
    folder: &str,
    id: &str,
) -> Result<Header, Skipped> {
    let path = tree.session_file(folder, id);
    let text = tree.files().read(&path)?;
    // A project file that cannot be used is named by the listing and costs the session nothing.
    let project = tree.project(folder).unwrap_or_default();
    let place = Place {
        tree,
        index,
        folder,
        id,
        path: &path,
    };
    header(&place, &text, project).map_err(|why| skip(&path, why))
}

struct Place<'a> {
    tree: &'a dyn Tree,
    index: usize,
    folder: &'a str,
    id: &'a str,
    path: &'a Path,
}

fn header(place: &Place<'_>, text: &str, project: Project) -> Result<Header, Refusal> {
    let object = Object::parse(check_value(text)?)?;
    check_own_id(&object, "id", place.id)?;
    let time = object.object("time")?.ok_or_else(|| missing("time"))?;
    let created = time
        .time("created")
        .ok_or_else(|| missing("time.created"))?;
    let id = SessionId::new(place.id).map_err(|e| (SkipReason::BadName, e.to_string()))?;
    let parent = object.text("parentID").filter(|id| files::is_id(id));
    let reference = SessionRef {
        id: id.clone(),
        created,
        tree: place.index,
        folder: place.folder.into(),
    };
    let session = ForeignSession {
        reference,
        id,
        parent_id: parent.and_then(|id| SessionId::new(id).ok()),
        project_id: ProjectId::new(place.folder).ok(),
        project_name: project.name.map(Into::into),
        worktree: project.worktree.map(Into::into),
        directory: object.text("directory").map(Into::into),
        title: object.text("title").map(Into::into),
        agent: None,
        version: object.text("version").map(Into::into),
        created,
        updated: time.time("updated").unwrap_or(created),
        archived: time.time("archived"),
        metadata: RawJson::from_checked("{}"),
    };
    tracing::trace!(path = %place.path.display(), "read a session file");
    let metadata = rest(place, &object, &session)?;
    Ok(Header { session, metadata })
}

/// Everything of the file that has no place of its own, and the address of a shared session
/// without the secret that early versions kept beside it.
fn rest(
    place: &Place<'_>,
    object: &Object<'_>,
    session: &ForeignSession,
) -> Result<Writer, Refusal> {
    let mut fields = object.without(&TAKEN);
    let kept = [
        ("parentID", session.parent_id.is_some()),
        (
            "projectID",
            object.text("projectID").as_deref() == Some(place.folder),
        ),
        ("directory", session.directory.is_some()),
        ("title", session.title.is_some()),
        ("version", session.version.is_some()),
    ];
    for (key, mapped) in kept {
        if let Some(raw) = object.get(key).filter(|_| !mapped) {
            fields.raw(key, raw);
        }
    }
    if let Some(url) = object
        .object("share")?
        .as_ref()
        .and_then(|share| share.token("url"))
    {
        let mut share = Writer::default();
        share.raw("url", url);
        fields.nested("share", share);
    }
    let mut metadata = Writer::default();
    metadata.text("generation", place.tree.generation());
    metadata.nested("session", fields);
    Ok(metadata)
}

/// Checks that an id inside a file, when there is one, is the one of its path.
pub(super) fn check_own_id(object: &Object<'_>, key: &str, id: &str) -> Result<(), Refusal> {
    match object.get(key) {
        None => Ok(()),
        Some(_) if object.text(key).as_deref() == Some(id) => Ok(()),
        Some(_) => Err((SkipReason::IdMismatch, format!("{key} is not {id:?}"))),
    }
}

/// A refusal for a field that is needed.
pub(super) fn missing(field: &str) -> Refusal {
    (
        SkipReason::BadField,
        format!("{field} is absent or not of its type"),
    )
}
