//! The messages of one session, in order.

use std::collections::BTreeSet;
use std::path::PathBuf;

use filrouge_types::Timestamp;

use crate::files::{Entry, is_id};
use crate::object::{Object, Refusal, check_value};
use super::session::{check_own_id, missing};
use super::tree::{Tree, skip};
use crate::{ForeignSession, Skipped};

/// Which session is being read.
pub(super) struct Place<'a> {
    pub(super) tree: &'a dyn Tree,
    pub(super) folder: &'a str,
    pub(super) session: &'a str,
}

/// What a message is to its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The user's.
    User,
    /// An answer that ended without an error; `more`: the agent was to go on after its tools.
    Answer { more: bool },
    /// An answer that ended in an error.
    Failed,
    /// An answer without an end.
    Incomplete,
}

/// A message file that was read.
pub(super) struct Message {
    pub(super) id: String,
    pub(super) path: PathBuf,
    /// The file's JSON object.
    pub(super) text: String,
    pub(super) created: Timestamp,
    pub(super) kind: Kind,
    /// The user message it answers, where that is recorded (1.0 and later).
    pub(super) parent: Option<String>,
}

/// The messages of a session.
pub(super) struct Messages {
    /// Ordered by (time of creation, id): ids are not monotonic, they wrap every 795 days.
    pub(super) read: Vec<Message>,
    /// The ids of files that could not be used.
    pub(super) broken: BTreeSet<String>,
}

/// Reads all messages of a session, not their parts.
pub(super) fn read_all(place: &Place<'_>, skipped: &mut Vec<Skipped>) -> Messages {
    let mut left_out = Vec::new();
    let mut read = Vec::new();
    let dir = place.tree.message_dir(place.folder, place.session);
    for entry in place.tree.files().files(&dir, &mut left_out) {
        match read_one(place, entry) {
            Ok(message) => read.push(message),
            Err(why) => left_out.push(why),
        }
    }
    read.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
    let stems = left_out.iter().filter_map(|s| s.path.file_stem()?.to_str());
    let broken = stems
        .filter(|stem| is_id(stem))
        .map(str::to_owned)
        .collect();
    skipped.append(&mut left_out);
    Messages { read, broken }
}

fn read_one(place: &Place<'_>, Entry { id, path }: Entry) -> Result<Message, Skipped> {
    let text = place.tree.files().read(&path)?;
    let facts = facts(place, &id, &text).map_err(|why| skip(&path, why))?;
    Ok(Message {
        id,
        path,
        text,
        created: facts.0,
        kind: facts.1,
        parent: facts.2,
    })
}

fn facts(
    place: &Place<'_>,
    id: &str,
    text: &str,
) -> Result<(Timestamp, Kind, Option<String>), Refusal> {
    let object = Object::parse(check_value(text)?)?;
    check_own_id(&object, "id", id)?;
    check_own_id(&object, "sessionID", place.session)?;
    let time = object.object("time")?.ok_or_else(|| missing("time"))?;
    let created = time
        .time("created")
        .ok_or_else(|| missing("time.created"))?;
    let kind = match object.text("role").as_deref() {
        Some("user") => Kind::User,
        Some("assistant") if object.get("error").is_some() => Kind::Failed,
        Some("assistant") if time.get("completed").is_none() => Kind::Incomplete,
        // OpenCode's own loop goes on after these two.
        Some("assistant") => {
            let finish = object.text("finish");
            Kind::Answer {
                more: matches!(finish.as_deref(), Some("tool-calls" | "unknown")),
            }
        }
        _ => return Err(missing("role")),
    };
    Ok((created, kind, object.text("parentID")))
}

/// Completes a header with what only messages tell.
pub(super) fn describe(messages: &[Message], session: &mut ForeignSession) {
    for message in messages {
        let Ok(object) = Object::parse(&message.text) else {
            continue;
        };
        if session.agent.is_none() {
            session.agent = agent(&object);
        }
        if let Ok(Some(path)) = object.object("path") {
            let fill = |place: &mut Option<Box<str>>, key| {
                if place.is_none() {
                    *place = path.text(key).map(Into::into);
                }
            };
            fill(&mut session.directory, "cwd");
            fill(&mut session.worktree, "root");
        }
        if session.agent.is_some() && session.directory.is_some() && session.worktree.is_some() {
            return;
        }
    }
}

/// The agent a message names; `mode` is what versions before 1.0 call it.
pub(super) fn agent(object: &Object<'_>) -> Option<Box<str>> {
    object
        .text("agent")
        .or_else(|| object.text("mode"))
        .map(Into::into)
}
