//! Builds sessions for tests of statistics and lineage.

use std::sync::Arc;

use crate::library::{Library, samples};
use crate::{Header, Message, PartKind, Role, Tokens, Tool};

pub(in crate::library) use samples::MemorySource;

/// Creates a source with these sessions.
pub(in crate::library) fn source_of(sessions: Vec<(Header, Vec<Message>)>) -> Arc<MemorySource> {
    let source = Arc::new(MemorySource::default());
    for (header, messages) in sessions {
        put(&source, header, messages);
    }
    source
}

/// Adds or replaces a session.
pub(in crate::library) fn put(source: &MemorySource, header: Header, messages: Vec<Message>) {
    source.put(header, samples::conversation(messages));
}

/// Creates a library of one source.
pub(in crate::library) fn library(source: &Arc<MemorySource>) -> Library {
    Library::new(vec![source.clone()], 1 << 20)
}

/// The header of a session in the project `p`.
pub(in crate::library) fn header(id: &str, created: i64) -> Header {
    Header {
        project_id: Some("p".into()),
        worktree: Some("/w/phare".into()),
        title: None,
        updated: created + 1000,
        ..samples::header(id, created)
    }
}

/// The header of a session that the session `parent` started.
pub(in crate::library) fn child(id: &str, created: i64, parent: &str) -> Header {
    Header {
        parent_id: Some(parent.into()),
        ..header(id, created)
    }
}

pub(in crate::library) fn message(id: &str, role: Role, created: i64) -> Message {
    Message {
        created,
        ..samples::message(id, role, Vec::new())
    }
}

/// A question at the time `created`.
pub(in crate::library) fn question(id: &str, created: i64) -> Message {
    message(id, Role::User, created)
}

/// An answer of the agent `build` that took five milliseconds, used 100 input tokens and cost 0.25 US dollars.
pub(in crate::library) fn answer(id: &str, created: i64) -> Message {
    Message {
        completed: Some(created + 5),
        agent: Some("build".into()),
        model: Some("acme/m1".into()),
        tokens: Some(Tokens {
            input: 100,
            ..Tokens::default()
        }),
        cost: Some(0.25),
        ..message(id, Role::Assistant, created)
    }
}

/// A completed call of the tool `name`.
pub(in crate::library) fn call(call_id: &str, name: &str) -> Tool {
    Tool {
        call_id: call_id.into(),
        name: name.into(),
        ..samples::tool(None)
    }
}

/// Returns `message` with another part.
pub(in crate::library) fn with(mut message: Message, kind: PartKind) -> Message {
    let id = format!("{}-{}", message.id, message.parts.len());
    message.parts.push(samples::part(&id, kind));
    message
}

/// Returns `message` with a call that started `child`.
pub(in crate::library) fn starts(message: Message, call_id: &str, child: &str) -> Message {
    let mut tool = call(call_id, "task");
    tool.child = Some(child.into());
    with(message, PartKind::Tool(Box::new(tool)))
}

/// Copies of messages under new ids, as in a fork.
pub(in crate::library) fn copies(messages: &[Message], prefix: &str) -> Vec<Message> {
    let copy = |m: &Message| Message {
        id: format!("{prefix}{}", m.id).into(),
        ..m.clone()
    };
    messages.iter().map(copy).collect()
}
