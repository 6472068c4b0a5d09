//! The events of a conversation as JSON lines.

use std::io::{self, Write};

use filrouge_team::coordinator::{TeamEvent, UnrecordedContent, Warning};
use filrouge_team::message::Message;
use filrouge_team::record::State;
use filrouge_types::Failure;
use serde_json::{Value, json};

use super::deployment::Session;
use crate::output::json_for_stdout;
use filrouge_team::record::Record as _;

/// Writes the first line: the session, and the number of its existing messages.
pub(super) fn write_session(out: &mut impl Write, session: &Session) -> io::Result<()> {
    let line = json!({
        "event": "session",
        "session_id": session.record.session_id(),
        "team_id": session.coordinator.team().id,
        "resumed": session.is_resumed,
        "message_count": session.coordinator.message_count(),
        "interrupted": session.interrupted,
        "task": session.coordinator.team_task(),
    });
    write_line(out, &line)
}

/// Writes a line for an event.
pub(super) fn write_event(out: &mut impl Write, event: &TeamEvent) -> io::Result<()> {
    write_line(out, &event_json(event))
}

/// Writes a line for a snapshot file that was not written.
pub(super) fn write_warning(out: &mut impl Write, code: &str, detail: &str) -> io::Result<()> {
    let line = json!({ "event": "warning", "code": code, "detail": detail });
    write_line(out, &line)
}

fn write_line(out: &mut impl Write, value: &Value) -> io::Result<()> {
    writeln!(out, "{}", json_for_stdout(&value.to_string()))?;
    out.flush()
}

fn event_json(event: &TeamEvent) -> Value {
    match event {
        TeamEvent::Said(message) => json!({ "event": "said", "message": message_json(message) }),
        TeamEvent::Began(message) => json!({ "event": "began", "message": message_json(message) }),
        TeamEvent::Text { id, text } => json!({ "event": "text", "id": id, "text": text }),
        TeamEvent::Ended { message, error } => json!({
            "event": "ended",
            "message": message_json(message),
            "error": error.as_ref().map(|e| json!({ "code": e.code, "detail": e.detail })),
        }),
        TeamEvent::Queue(routes) => {
            let waiting: Vec<_> = routes.iter().map(|route| &route.member_id).collect();
            json!({ "event": "queue", "waiting": waiting })
        }
        TeamEvent::HandedOver(state) => state_event("handed_over", state),
        TeamEvent::Closed(state) => state_event("closed", state),
        TeamEvent::TaskSet { task, by } => json!({ "event": "task", "task": task, "by": by }),
        TeamEvent::Warning(warning) => warning_json(warning),
        TeamEvent::FormerSpeakers(speakers) => json!({ "event": "drift", "speakers": speakers }),
        TeamEvent::NotKept { content, failure } => {
            let (what, id) = match content {
                UnrecordedContent::Begin => ("begin", None),
                UnrecordedContent::Message(id) => ("message", Some(id)),
                UnrecordedContent::Note(id) => ("note", Some(id)),
                UnrecordedContent::Task => ("task", None),
                UnrecordedContent::HandOver => ("hand_over", None),
            };
            json!({ "event": "not_kept", "what": what, "id": id, "error": failure_json(failure) })
        }
    }
}

fn state_event(event: &str, state: &State) -> Value {
    json!({ "event": event, "waiting_for": state.waiting_for, "task": state.team_task })
}

fn failure_json(failure: &Failure) -> Value {
    json!({ "code": failure.code.as_str(), "detail": failure.detail, "hint": failure.hint })
}

fn warning_json(warning: &Warning) -> Value {
    match warning {
        Warning::Unresolved {
            id,
            identifiers,
            members,
        } => json!({
            "event": "warning", "code": "unresolved", "id": id, "identifiers": identifiers, "members": members,
        }),
        Warning::Malformed { id, replaced } => {
            json!({ "event": "warning", "code": "malformed", "id": id, "replaced": replaced })
        }
        Warning::AgentTurns { limit } => {
            json!({ "event": "warning", "code": "agent_turns", "limit": limit })
        }
        Warning::Dropped { count } => {
            json!({ "event": "warning", "code": "dropped", "count": count })
        }
        Warning::TaskRefused(failure) => {
            json!({ "event": "warning", "code": "task_refused", "error": failure_json(failure) })
        }
    }
}

/// The JSON of a message in lists and events.
pub(crate) fn message_json(message: &Message) -> Value {
    let addressees = message.routing.addressees.iter();
    let addressees: Vec<_> = addressees
        .map(|addressee| json!({ "identifier": addressee.identifier, "member_id": addressee.member_id }))
        .collect();
    json!({
        "id": message.id,
        "at": message.at,
        "speaker": message.speaker,
        "content": message.content,
        "parent": message.routing.parent,
        "addressees": addressees,
        "cut": message.cut,
    })
}
