use std::path::Path;
use std::sync::Arc;

use super::{Caller, own_session};
use crate::library::Library;
use crate::library::made::{Made, conversation, header, message, part, text, tool};
use crate::{Header, PartKind, Role, Tool, ToolStatus};

fn one(made: Made) -> Library {
    Library::new(vec![Arc::new(made)], 1 << 20)
}

/// A call of a tool: its name, what it came to, when it began.
type Call<'a> = (&'a str, ToolStatus, i64);

/// Sessions of `/w`: (id, when it changed, calls of a tool with their state and start).
fn of_folder(all: &[(&str, i64, &[Call<'_>])]) -> Library {
    let made = Made::default();
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
        let said = vec![message("m", Role::Assistant, parts.collect())];
        let header = Header {
            directory: Some("/w".into()),
            updated: *updated,
            ..header(id, 0)
        };
        made.put(header, conversation(said));
    }
    one(made)
}

fn own(library: &Library, folder: &str, now: Option<i64>) -> Result<String, String> {
    let caller = Caller {
        folder: Some(Path::new(folder)),
        tool: Some("filrouge_get_session_history"),
        now,
        ..Caller::default()
    };
    own_session(library, &caller).map_err(|why| why.to_string())
}

const RUNNING: ToolStatus = ToolStatus::Running;
const DONE: ToolStatus = ToolStatus::Completed;

#[test]
fn a_named_session_is_meant_before_all_others() {
    let library = one(Made::default());
    let caller = |named, from_environment| {
        let caller = Caller {
            named,
            from_environment,
            ..Caller::default()
        };
        own_session(&library, &caller).map_err(|why| why.code())
    };
    assert_eq!(caller(Some("a"), Some("b")).as_deref(), Ok("a"));
    assert_eq!(caller(None, Some("b")).as_deref(), Ok("b"));
    assert_eq!(caller(Some(" "), Some("b")).as_deref(), Ok("b"));
    assert_eq!(caller(None, None), Err("invalid_argument"));
}

#[test]
fn the_session_in_which_our_tool_runs_is_the_callers() {
    let tool = "filrouge_get_session_history";
    let library = of_folder(&[
        ("newest", 90_000, &[("bash", RUNNING, 90_000)]),
        ("ours", 60_000, &[(tool, RUNNING, 60_000)]),
        ("over", 80_000, &[(tool, DONE, 80_000)]),
        ("dead", 1_000, &[(tool, RUNNING, 1_000)]),
    ]);
    assert_eq!(own(&library, "/w", None).as_deref(), Ok("ours"));
    assert_eq!(own(&library, "/w/deeper", None).as_deref(), Ok("ours"));
    assert!(own(&library, "/", None).is_err());
    assert!(own(&library, "/wider", None).is_err());
    let library = of_folder(&[(
        "a",
        1,
        &[("mcp__filrouge__get_session_history", RUNNING, 1)],
    )]);
    assert_eq!(own(&library, "/w", None).as_deref(), Ok("a"));
    let library = of_folder(&[(
        "a",
        1,
        &[("history", RUNNING, 1), ("get_session_", RUNNING, 1)],
    )]);
    assert!(own(&library, "/w", None).is_err());
}

#[test]
fn a_call_that_others_have_followed_runs_no_more() {
    let made = Made::default();
    let call = Tool {
        status: RUNNING,
        name: "filrouge_get_session_history".into(),
        ..tool(None)
    };
    let said = vec![
        message(
            "m1",
            Role::Assistant,
            vec![part("p", PartKind::Tool(Box::new(call)))],
        ),
        message("m2", Role::User, vec![text("t", "are you there?")]),
    ];
    made.put(
        Header {
            directory: Some("/w".into()),
            ..header("a", 1)
        },
        conversation(said),
    );
    assert!(own(&one(made), "/w", None).is_err());
}

#[test]
fn when_several_could_be_meant_they_are_named() {
    let tool = "filrouge_get_session_history";
    let library = of_folder(&[
        ("a", 1, &[(tool, RUNNING, 10_000)]),
        ("b", 2, &[(tool, RUNNING, 11_500)]),
    ]);
    let why = own(&library, "/w", None).unwrap_err();
    assert!(
        why.contains("several sessions call this tool now") && why.ends_with(": b, a"),
        "{why}"
    );
    let library = of_folder(&[("a", 1, &[]), ("b", 2, &[])]);
    let why = own(&library, "/w", None).unwrap_err();
    assert!(why.ends_with(": b, a"), "{why}");
}

#[test]
fn without_a_call_only_one_that_goes_on_is_taken() {
    const MINUTE: i64 = 60_000;
    let library = of_folder(&[("a", 5 * MINUTE, &[]), ("b", 20 * MINUTE, &[])]);
    assert_eq!(own(&library, "/w", Some(21 * MINUTE)).as_deref(), Ok("b"));
    assert!(own(&library, "/w", Some(31 * MINUTE)).is_err());
    assert!(own(&library, "/w", Some(14 * MINUTE)).is_err(), "both");
    assert!(own(&library, "/w", None).is_err());
}
