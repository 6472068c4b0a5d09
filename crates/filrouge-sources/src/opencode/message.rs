//! The messages of one session, in order.

use std::collections::BTreeSet;

use filrouge_types::Timestamp;

use super::generation::{Generation, MessageText, PartText, SessionText};
use super::order;
use super::session::{check_own_id, missing};
use crate::files::is_id;
use crate::object::{Object, Refusal, check_value, skip};
use crate::{ForeignSession, Skipped};

/// Which session is being read.
pub(super) struct Place<'a> {
    pub(super) generation: &'a dyn Generation,
    pub(super) session: &'a SessionText,
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
    /// A note of the program itself.
    Note,
}

/// A message that was read.
pub(super) struct Message {
    pub(super) id: String,
    /// Its JSON object.
    pub(super) text: Box<str>,
    pub(super) seq: Option<u64>,
    pub(super) created: Timestamp,
    pub(super) kind: Kind,
    /// The user message it answers, where that is recorded (1.0 and later).
    pub(super) parent: Option<String>,
    /// In order.
    pub(super) parts: Vec<PartText>,
}

/// The messages of a session.
pub(super) struct Messages {
    /// Ordered by (time of creation, seq, id): ids are not monotonic, they wrap every 795 days.
    pub(super) read: Vec<Message>,
    /// The ids of records that could not be used.
    pub(super) broken: BTreeSet<String>,
}

/// Reads all messages of a session; their parts stay texts.
pub(super) fn read_all(
    place: &Place<'_>,
    texts: Vec<MessageText>,
    mut left_out: Vec<Skipped>,
    skipped: &mut Vec<Skipped>,
) -> Messages {
    let mut read = Vec::new();
    for text in texts {
        let path = || place.generation.place(place.session, &text.id, None);
        match facts(place, &text.id, &text.text).map_err(|why| skip(&path(), why)) {
            Ok(facts) => read.push(message(text, facts)),
            Err(why) => left_out.push(why),
        }
    }
    read.sort_by(|a, b| (a.created, a.seq, &a.id).cmp(&(b.created, b.seq, &b.id)));
    let names = left_out.iter().filter_map(|s| s.path.file_name()?.to_str());
    let broken = names
        .map(|name| name.strip_suffix(".json").unwrap_or(name))
        .filter(|stem| is_id(stem))
        .map(str::to_owned)
        .collect();
    skipped.append(&mut left_out);
    Messages { read, broken }
}

fn message(text: MessageText, (created, kind, parent): Facts) -> Message {
    let mut parts = text.parts;
    order::by_id(&mut parts, |part| &part.id);
    Message {
        id: text.id.into(),
        text: text.text,
        seq: text.seq,
        created,
        kind,
        parent,
        parts,
    }
}

type Facts = (Timestamp, Kind, Option<String>);

fn facts(place: &Place<'_>, id: &str, text: &str) -> Result<Facts, Refusal> {
    let object = Object::parse(check_value(text)?)?;
    check_own_id(&object, "id", id)?;
    check_own_id(&object, "sessionID", &place.session.id)?;
    let time = object.object("time")?.ok_or_else(|| missing("time"))?;
    let created = time
        .time("created")
        .ok_or_else(|| missing("time.created"))?;
    let kind = match object.text("role").as_deref() {
        Some("user") => Kind::User,
        Some("system") => Kind::Note,
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
