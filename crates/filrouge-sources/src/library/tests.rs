//! Sources together, what is kept of them, lists, and whose session it is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use super::list::{Ask, Sessions, list};
use super::made::{Made, conversation, header, message, part, text, tool};
use super::own::{Caller, own_session};
use super::{Library, LibraryError};
use crate::{Header, PartKind, Role, Source, Tool, ToolStatus};

fn library(sources: Vec<Made>) -> Library {
    let sources = sources.into_iter().map(|s| Arc::new(s) as Arc<dyn Source>);
    Library::new(sources.collect(), 1 << 20)
}

fn headers(all: impl IntoIterator<Item = Header>) -> Library {
    let made = Made::default();
    for one in all {
        made.put(one, conversation(Vec::new()));
    }
    library(vec![made])
}

fn ids(sessions: &Sessions) -> Vec<&str> {
    sessions.sessions.iter().map(|s| s.id.as_str()).collect()
}

fn found(library: &Library, ask: &Ask) -> Vec<String> {
    let page = list(library, ask).unwrap();
    page.sessions.into_iter().map(|s| s.id).collect()
}

#[test]
fn of_two_sessions_of_one_id_the_first_source_has_it() {
    let (new, old) = (Made::default(), Made::default());
    for (made, titles) in [(&new, ["new", "new"]), (&old, ["old", "old"])] {
        for (n, title) in titles.into_iter().enumerate() {
            let title = Some(title.into());
            let said = vec![message("m", Role::User, vec![])];
            made.put(
                Header {
                    title,
                    ..header(&format!("s{n}"), 1)
                },
                conversation(said),
            );
        }
    }
    old.put(header("s2", 0), conversation(Vec::new()));
    let library = library(vec![
        new,
        old,
        Made {
            broken: true,
            ..Made::default()
        },
    ]);
    let catalog = library.catalog();
    let titles: Vec<_> = catalog
        .entries
        .iter()
        .map(|e| e.header.title.as_deref().unwrap())
        .collect();
    assert_eq!(titles, ["Title of s2", "new", "new"]);
    assert_eq!(catalog.shadowed, 2);
    assert!(matches!(catalog.get("s3"), Err(LibraryError::NoSession(id)) if id == "s3"));
    let told = list(&library, &Ask::default()).unwrap().notices;
    let expected = [
        "a source cannot be listed: opencode (made): made does not exist",
        "2 sessions are stored twice; the newer storage is read",
    ];
    assert_eq!(told, expected);
}

#[test]
fn the_catalog_is_made_anew_when_something_has_changed() {
    let made = Arc::new(Made::default());
    made.put(header("a", 1), conversation(Vec::new()));
    let library = Library::new(vec![made.clone()], 1 << 20);
    let first = library.catalog();
    assert!(Arc::ptr_eq(&first, &library.catalog()));
    made.put(header("b", 2), conversation(Vec::new()));
    let second = library.catalog();
    assert_eq!((first.entries.len(), second.entries.len()), (1, 2));
}

#[test]
fn a_conversation_is_read_again_when_it_has_changed() {
    let made = Arc::new(Made::default());
    let said = |n: usize| {
        let messages = (0..n).map(|n| message(&n.to_string(), Role::User, vec![]));
        conversation(messages.collect())
    };
    made.put(header("a", 1), said(1));
    let library = Library::new(vec![made.clone()], 1 << 20);
    let messages = |library: &Library| {
        let catalog = library.catalog();
        library
            .conversation(catalog.get("a").unwrap())
            .unwrap()
            .messages
            .len()
    };
    assert_eq!([messages(&library), messages(&library)], [1, 1]);
    assert_eq!(made.read_count(), 1);
    made.put(header("a", 1), said(2));
    assert_eq!([messages(&library), messages(&library.clone())], [2, 2]);
    assert_eq!(made.read_count(), 2);
}

#[test]
fn nothing_of_a_callers_own_source_is_kept() {
    let made = Arc::new(Made::default());
    made.put(header("a", 1), conversation(Vec::new()));
    let shared = library(vec![]);
    let with = shared.with(made.clone());
    let catalog = with.catalog();
    for reads in 1..3 {
        with.conversation(catalog.get("a").unwrap()).unwrap();
        assert_eq!(made.read_count(), reads);
    }
    assert!(shared.catalog().get("a").is_err());
    assert_eq!(shared.cache.weight(), 0);
}

#[test]
fn without_a_stamp_nothing_is_kept() {
    let made = Arc::new(Made {
        unstamped: true,
        ..Made::default()
    });
    made.put(header("a", 1), conversation(Vec::new()));
    let library = Library::new(vec![made.clone()], 1 << 20);
    let catalog = library.catalog();
    for reads in 1..3 {
        library.conversation(catalog.get("a").unwrap()).unwrap();
        assert_eq!(made.read_count(), reads);
    }
    assert_eq!(library.cache.weight(), 0);
}

#[test]
fn what_is_kept_stays_within_its_bound() {
    const BOUND: usize = 100_000;
    let made = Arc::new(Made::default());
    for n in 0..200 {
        let long = "x".repeat(if n % 10 == 0 { BOUND / 2 } else { 4_000 });
        let said = vec![message("m", Role::User, vec![text("t", &long)])];
        made.put(header(&format!("s{n}"), n), conversation(said));
    }
    let library = Library::new(vec![made.clone()], BOUND);
    let catalog = library.catalog();
    for entry in &catalog.entries {
        library.conversation(entry).unwrap();
        assert!(library.cache.weight() <= BOUND as u64);
    }
    assert!(
        library.cache.weight() > BOUND as u64 / 2,
        "{}",
        library.cache.weight()
    );
    // One that would take the place of all the others is not kept.
    let before = made.read_count();
    for _ in 0..2 {
        library.conversation(catalog.get("s0").unwrap()).unwrap();
    }
    assert_eq!(made.read_count() - before, 2);
}

#[test]
fn one_conversation_is_read_once_however_many_ask() {
    let made = Arc::new(Made::default());
    made.put(header("a", 1), conversation(Vec::new()));
    let library = Library::new(vec![made.clone()], 1 << 20);
    let catalog = library.catalog();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| library.conversation(catalog.get("a").unwrap()).unwrap());
        }
    });
    assert_eq!(made.read_count(), 1);
}

#[test]
fn titles_are_found_in_any_case_and_form() {
    let titled = |id: &str, title: &str| Header {
        title: Some(title.into()),
        ..header(id, 1)
    };
    let library = headers([
        titled("a", "Carnet : page d'accueil"),
        titled("b", "Me\u{301}moire des \u{c9}TATS"),
        titled("c", "ΟΔΟΣ"),
        Header {
            project_name: Some("Zone".into()),
            title: None,
            ..header("d", 1)
        },
    ]);
    let named = |name: &str| {
        let name = Some(name.to_owned());
        found(
            &library,
            &Ask {
                session_name: name,
                ..Ask::default()
            },
        )
    };
    assert_eq!(named("CARNET"), ["a"]);
    assert_eq!(named("m\u{e9}moire"), ["b"]);
    assert_eq!(named("e\u{301}tats"), ["b"]);
    assert_eq!(named("memoire"), [""; 0]);
    assert_eq!(named("οδος"), ["c"]);
    assert_eq!(named("zone"), ["d"]);
    assert_eq!(named("nothing"), [""; 0]);
}

#[test]
fn a_project_is_named_by_id_name_or_folder() {
    let library = headers([
        Header {
            project_id: Some("p1".into()),
            project_name: Some("Brasero".into()),
            worktree: Some("/home/u/src/brasero-app".into()),
            ..header("a", 1)
        },
        Header {
            project_id: Some("p2".into()),
            directory: Some("/home/u/src".into()),
            ..header("b", 2)
        },
    ]);
    let of = |project: &str| {
        let project = Some(project.to_owned());
        list(
            &library,
            &Ask {
                project_id: project,
                ..Ask::default()
            },
        )
        .unwrap()
    };
    for name in [
        "p1",
        "brasero",
        "/home/u/src/brasero-app",
        "/home/u/src/brasero-app/",
        "Brasero-App",
    ] {
        assert_eq!(ids(&of(name)), ["a"], "{name}");
        assert_eq!(of(name).project_id.as_deref(), Some("p1"));
    }
    assert_eq!(ids(&of("src")), ["b"]);
    assert_eq!(ids(&of("/home/u")), [""; 0]);
    assert_eq!(list(&library, &Ask::default()).unwrap().project_id, None);
    assert_eq!(of("src").sessions[0].project_name.as_deref(), Some("src"));
}

#[test]
fn filters_hold_together() {
    let library = headers([
        Header {
            agent: Some("build".into()),
            updated: 50,
            ..header("a", 10)
        },
        Header {
            agent: Some("plan".into()),
            parent_id: Some("a".into()),
            ..header("b", 20)
        },
        Header {
            archived: Some(1),
            ..header("c", 30)
        },
    ]);
    let ask = Ask::default;
    assert_eq!(found(&library, &ask()), ["a", "c", "b"]);
    assert_eq!(
        found(
            &library,
            &Ask {
                agent: Some("plan".into()),
                ..ask()
            }
        ),
        ["b"]
    );
    assert_eq!(
        found(
            &library,
            &Ask {
                parent_id: Some("a".into()),
                ..ask()
            }
        ),
        ["b"]
    );
    assert_eq!(
        found(
            &library,
            &Ask {
                roots: true,
                ..ask()
            }
        ),
        ["a", "c"]
    );
    assert_eq!(
        found(
            &library,
            &Ask {
                archived: Some(true),
                ..ask()
            }
        ),
        ["c"]
    );
    assert_eq!(
        found(
            &library,
            &Ask {
                archived: Some(false),
                roots: true,
                ..ask()
            }
        ),
        ["a"]
    );
    assert_eq!(
        found(
            &library,
            &Ask {
                since: Some(30),
                ..ask()
            }
        ),
        ["a", "c"]
    );
    assert_eq!(
        found(
            &library,
            &Ask {
                until: Some(20),
                ..ask()
            }
        ),
        ["a"]
    );
    assert_eq!(
        found(
            &library,
            &Ask {
                source: Some("codex".into()),
                ..ask()
            }
        ),
        [""; 0]
    );
}

#[test]
fn pages_lose_nothing_when_sessions_come_meanwhile() {
    let made = Arc::new(Made::default());
    // Many of one time: then the id tells which is next.
    for n in 0..100 {
        made.put(
            header(&format!("s.{n:03}"), n / 7),
            conversation(Vec::new()),
        );
    }
    let library = Library::new(vec![made.clone()], 0);
    let (mut seen, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = list(
            &library,
            &Ask {
                limit: 9,
                cursor,
                ..Ask::default()
            },
        )
        .unwrap();
        assert_eq!(page.total, 100 + pages);
        seen.extend(page.sessions.into_iter().map(|s| s.id));
        made.put(
            header(&format!("new{pages}"), 1_000),
            conversation(Vec::new()),
        );
        pages += 1;
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((seen.len(), pages), (100, 12));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 100);
}

#[test]
fn wrong_limits_and_cursors_are_told() {
    let library = headers([header("a", 1)]);
    for cursor in ["", "x", "sessions.x.a", "sessions.1", "on.m.0.0.a"] {
        let ask = Ask {
            cursor: Some(cursor.into()),
            ..Ask::default()
        };
        assert_eq!(
            list(&library, &ask).unwrap_err().code(),
            "invalid_argument",
            "{cursor}"
        );
    }
    assert!(
        list(
            &library,
            &Ask {
                limit: 500,
                ..Ask::default()
            }
        )
        .is_ok()
    );
    let why = list(
        &library,
        &Ask {
            limit: 501,
            ..Ask::default()
        },
    )
    .unwrap_err();
    assert_eq!(
        why.to_string(),
        "limit is 501; a page has at most 500 sessions"
    );
}

#[test]
fn titles_are_masked_on_request() {
    let key = format!("AKIA{}", "Q7RT5VWX2YZ3ABCD");
    let title = Some(format!("rotate {key} now").into());
    let library = headers([Header {
        title,
        ..header("a", 1)
    }]);
    let title = |mask| {
        let page = list(
            &library,
            &Ask {
                mask,
                ..Ask::default()
            },
        )
        .unwrap();
        page.sessions[0].title.clone().unwrap()
    };
    assert!(title(false).contains(&key));
    assert!(
        !title(true).contains(&key) && title(true).ends_with(" now"),
        "{}",
        title(true)
    );
}

/// Sessions of `/w`: (id, when it changed, calls of a tool with their state and start).
fn of_folder(all: &[(&str, i64, &[(&str, ToolStatus, i64)])]) -> Library {
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
    library(vec![made])
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
    let library = headers([]);
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
    assert!(own(&library(vec![made]), "/w", None).is_err());
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
