//! Tests of how the session of a caller is found.

use std::path::Path;
use std::sync::Arc;

use super::{Caller, own_session};
use crate::library::Library;
use crate::library::samples::{MemorySource, conversation, header, message, part, text, tool};
use crate::{Header, PartKind, Role, Tool, ToolStatus};

fn library_of(source: MemorySource) -> Library {
    Library::new(vec![Arc::new(source)], 1 << 20)
}

/// A call of a tool: its name, its status, and the time at which it began.
type Call<'a> = (&'a str, ToolStatus, i64);

/// Sessions of the folder `/w`: (id, time of the last change, calls).
fn library_with_calls(all: &[(&str, i64, &[Call<'_>])]) -> Library {
    let source = MemorySource::default();
    for (id, updated, calls) in all {
        let parts = calls.iter().map(|(name, status, start)| {
            let call = Tool {
                name: (*name).into(),
                status: *status,
                ..tool(None)
            };
            let mut part = part("p", PartKind::Tool(Box::new(call)));
            part.start = Some(*start);
            part
        });
        let messages = vec![message("m", Role::Assistant, parts.collect())];
        let header = Header {
            directory: Some("/w".into()),
            updated: *updated,
            ..header(id, 0)
        };
        source.put(header, conversation(messages));
    }
    library_of(source)
}

/// The session of a caller in this folder.
fn own(library: &Library, folder: &str, now: Option<i64>) -> Result<String, String> {
    let caller = Caller {
        folder: Some(Path::new(folder)),
        tool: Some("filrouge_get_session_history"),
        now,
        ..Caller::default()
    };
    own_session(library, &caller).map_err(|error| error.to_string())
}

const RUNNING: ToolStatus = ToolStatus::Running;
const COMPLETED: ToolStatus = ToolStatus::Completed;

#[test]
fn a_named_session_has_precedence() {
    let library = library_of(MemorySource::default());
    let caller = |named, from_environment| {
        let caller = Caller {
            named,
            from_environment,
            ..Caller::default()
        };
        own_session(&library, &caller).map_err(|error| error.code())
    };
    assert_eq!(caller(Some("a"), Some("b")).as_deref(), Ok("a"));
    assert_eq!(caller(None, Some("b")).as_deref(), Ok("b"));
    assert_eq!(caller(Some(" "), Some("b")).as_deref(), Ok("b"));
    assert_eq!(caller(None, None), Err("invalid_argument"));
}

#[test]
fn the_session_with_a_running_call_of_our_tool_is_the_callers() {
    let tool = "filrouge_get_session_history";
    let library = library_with_calls(&[
        ("newest", 90_000, &[("bash", RUNNING, 90_000)]),
        ("ours", 60_000, &[(tool, RUNNING, 60_000)]),
        ("finished", 80_000, &[(tool, COMPLETED, 80_000)]),
        ("abandoned", 1_000, &[(tool, RUNNING, 1_000)]),
    ]);
    assert_eq!(own(&library, "/w", None).as_deref(), Ok("ours"));
    assert_eq!(own(&library, "/w/deeper", None).as_deref(), Ok("ours"));
    assert!(own(&library, "/", None).is_err());
    assert!(own(&library, "/wider", None).is_err());
    let library = library_with_calls(&[(
        "a",
        1,
        &[("mcp__filrouge__get_session_history", RUNNING, 1)],
    )]);
    assert_eq!(own(&library, "/w", None).as_deref(), Ok("a"));
    let library = library_with_calls(&[(
        "a",
        1,
        &[("history", RUNNING, 1), ("get_session_", RUNNING, 1)],
    )]);
    assert!(own(&library, "/w", None).is_err());
}

#[test]
fn a_call_followed_by_another_message_is_not_running() {
    let source = MemorySource::default();
    let call = Tool {
        status: RUNNING,
        name: "filrouge_get_session_history".into(),
        ..tool(None)
    };
    let messages = vec![
        message(
            "m1",
            Role::Assistant,
            vec![part("p", PartKind::Tool(Box::new(call)))],
        ),
        message("m2", Role::User, vec![text("t", "are you there?")]),
    ];
    source.put(
        Header {
            directory: Some("/w".into()),
            ..header("a", 1)
        },
        conversation(messages),
    );
    assert!(own(&library_of(source), "/w", None).is_err());
}

#[test]
fn several_candidates_are_listed() {
    let tool = "filrouge_get_session_history";
    let library = library_with_calls(&[
        ("a", 1, &[(tool, RUNNING, 10_000)]),
        ("b", 2, &[(tool, RUNNING, 11_500)]),
    ]);
    let error = own(&library, "/w", None).unwrap_err();
    assert!(
        error.contains("several sessions call this tool now") && error.ends_with(": b, a"),
        "{error}"
    );
    let library = library_with_calls(&[("a", 1, &[]), ("b", 2, &[])]);
    let error = own(&library, "/w", None).unwrap_err();
    assert!(error.ends_with(": b, a"), "{error}");
}

#[test]
fn if_no_call_runs_the_only_active_session_is_the_callers() {
    const MINUTE: i64 = 60_000;
    let library = library_with_calls(&[("a", 5 * MINUTE, &[]), ("b", 20 * MINUTE, &[])]);
    assert_eq!(own(&library, "/w", Some(21 * MINUTE)).as_deref(), Ok("b"));
    assert!(own(&library, "/w", Some(31 * MINUTE)).is_err());
    assert!(own(&library, "/w", Some(14 * MINUTE)).is_err(), "both");
    assert!(own(&library, "/w", None).is_err());
}
