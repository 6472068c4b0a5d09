//! Tests of lists of sessions.

use std::sync::Arc;

use super::{ListRequest, Sessions, list};
use crate::library::Library;
use crate::library::samples::{MemorySource, conversation, header, message};
use crate::{Header, Message, Role};

fn library_of(headers: impl IntoIterator<Item = Header>) -> Library {
    let source = MemorySource::default();
    for header in headers {
        source.put(header, conversation(Vec::new()));
    }
    Library::new(vec![Arc::new(source)], 1 << 20)
}

fn ids(sessions: &Sessions) -> Vec<&str> {
    sessions.sessions.iter().map(|s| s.id.as_str()).collect()
}

fn found_ids(library: &Library, request: &ListRequest) -> Vec<String> {
    let page = list(library, request).unwrap();
    page.sessions.into_iter().map(|s| s.id).collect()
}

#[test]
fn titles_are_found_in_any_case_and_unicode_form() {
    let header_with_title = |id: &str, title: &str| Header {
        title: Some(title.into()),
        ..header(id, 1)
    };
    let library = library_of([
        header_with_title("a", "Carnet : page d'accueil"),
        header_with_title("b", "Me\u{301}moire des \u{c9}TATS"),
        header_with_title("c", "ΟΔΟΣ"),
        Header {
            project_name: Some("Zone".into()),
            title: None,
            ..header("d", 1)
        },
    ]);
    let ids_by_name = |name: &str| {
        let name = Some(name.to_owned());
        found_ids(
            &library,
            &ListRequest {
                session_name: name,
                ..ListRequest::default()
            },
        )
    };
    assert_eq!(ids_by_name("CARNET"), ["a"]);
    assert_eq!(ids_by_name("m\u{e9}moire"), ["b"]);
    assert_eq!(ids_by_name("e\u{301}tats"), ["b"]);
    assert_eq!(ids_by_name("memoire"), [""; 0]);
    assert_eq!(ids_by_name("οδος"), ["c"]);
    assert_eq!(ids_by_name("zone"), ["d"]);
    assert_eq!(ids_by_name("nothing"), [""; 0]);
    // A pattern describes the whole title.
    for pattern in ["*PAGE*", "carnet*", "*accueil", "c*page*cueil", "**page*"] {
        assert_eq!(ids_by_name(pattern), ["a"], "{pattern}");
    }
    for pattern in ["page*", "*page", "accueil*carnet", "carnet*carnet*"] {
        assert_eq!(ids_by_name(pattern), [""; 0], "{pattern}");
    }
}

#[test]
fn all_agents_that_took_part_are_listed() {
    let said = |id: &str, agent: &str| Message {
        agent: Some(agent.into()),
        ..message(id, Role::Assistant, Vec::new())
    };
    let agents_of = |source: MemorySource| {
        let messages = vec![said("1", "plan"), said("2", "build"), said("3", "plan")];
        source.put(header("a", 1), conversation(messages));
        let library = Library::new(vec![Arc::new(source)], 1 << 20);
        let mut listed = list(&library, &ListRequest::default()).unwrap();
        listed.sessions.remove(0).agents
    };
    assert_eq!(agents_of(MemorySource::default()), ["build", "plan"]);
    // What cannot be cached would be read for each list.
    let uncached = MemorySource {
        without_fingerprints: true,
        ..MemorySource::default()
    };
    assert_eq!(agents_of(uncached), [""; 0]);
}

#[test]
fn a_project_is_named_by_id_name_or_folder() {
    let library = library_of([
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
    let list_project = |project: &str| {
        let project = Some(project.to_owned());
        list(
            &library,
            &ListRequest {
                project_id: project,
                ..ListRequest::default()
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
        assert_eq!(ids(&list_project(name)), ["a"], "{name}");
        assert_eq!(list_project(name).project_id.as_deref(), Some("p1"));
    }
    assert_eq!(ids(&list_project("src")), ["b"]);
    assert_eq!(ids(&list_project("/home/u")), [""; 0]);
    assert_eq!(
        list(&library, &ListRequest::default()).unwrap().project_id,
        None
    );
    assert_eq!(
        list_project("src").sessions[0].project_name.as_deref(),
        Some("src")
    );
}

#[test]
fn filters_can_be_combined() {
    let library = library_of([
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
    let request = ListRequest::default;
    assert_eq!(found_ids(&library, &request()), ["a", "c", "b"]);
    assert_eq!(
        found_ids(
            &library,
            &ListRequest {
                agent: Some("plan".into()),
                ..request()
            }
        ),
        ["b"]
    );
    assert_eq!(
        found_ids(
            &library,
            &ListRequest {
                parent_id: Some("a".into()),
                ..request()
            }
        ),
        ["b"]
    );
    assert_eq!(
        found_ids(
            &library,
            &ListRequest {
                roots: true,
                ..request()
            }
        ),
        ["a", "c"]
    );
    assert_eq!(
        found_ids(
            &library,
            &ListRequest {
                archived: Some(true),
                ..request()
            }
        ),
        ["c"]
    );
    assert_eq!(
        found_ids(
            &library,
            &ListRequest {
                archived: Some(false),
                roots: true,
                ..request()
            }
        ),
        ["a"]
    );
    assert_eq!(
        found_ids(
            &library,
            &ListRequest {
                since: Some(30),
                ..request()
            }
        ),
        ["a", "c"]
    );
    assert_eq!(
        found_ids(
            &library,
            &ListRequest {
                until: Some(30),
                ..request()
            }
        ),
        ["b"]
    );
    assert_eq!(
        found_ids(
            &library,
            &ListRequest {
                source: Some("codex".into()),
                ..request()
            }
        ),
        [""; 0]
    );
}

#[test]
fn pages_are_complete_even_if_sessions_are_added_meanwhile() {
    let source = Arc::new(MemorySource::default());
    // Many sessions have the same time, so that their ids decide the order.
    for n in 0..100 {
        source.put(
            header(&format!("s.{n:03}"), n / 7),
            conversation(Vec::new()),
        );
    }
    let library = Library::new(vec![source.clone()], 0);
    let (mut seen, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = list(
            &library,
            &ListRequest {
                limit: 9,
                cursor,
                ..ListRequest::default()
            },
        )
        .unwrap();
        assert_eq!(page.total, 100 + pages);
        seen.extend(page.sessions.into_iter().map(|s| s.id));
        source.put(
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
fn wrong_limits_and_cursors_are_reported() {
    let library = library_of([header("a", 1)]);
    for cursor in ["", "x", "sessions.x.a", "sessions.1", "on.m.0.0.a"] {
        let request = ListRequest {
            cursor: Some(cursor.into()),
            ..ListRequest::default()
        };
        assert_eq!(
            list(&library, &request).unwrap_err().code(),
            "invalid_argument",
            "{cursor}"
        );
    }
    assert!(
        list(
            &library,
            &ListRequest {
                limit: 500,
                ..ListRequest::default()
            }
        )
        .is_ok()
    );
    let error = list(
        &library,
        &ListRequest {
            limit: 501,
            ..ListRequest::default()
        },
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "limit is 501; a page has at most 500 sessions"
    );
}

#[test]
fn titles_are_masked_on_request() {
    let key = format!("AKIA{}", "Q7RT5VWX2YZ3ABCD");
    let title = Some(format!("rotate {key} now").into());
    let library = library_of([Header {
        title,
        ..header("a", 1)
    }]);
    let title = |mask| {
        let page = list(
            &library,
            &ListRequest {
                mask,
                ..ListRequest::default()
            },
        )
        .unwrap();
        page.sessions[0].title.clone().unwrap()
    };
    assert!(title(false).contains(&key));
    // Masked text in a title cannot be guessed piece by piece either.
    let ids_by_name = |name: &str, mask| {
        let session_name = Some(name.to_owned());
        let request = ListRequest {
            session_name,
            mask,
            ..ListRequest::default()
        };
        found_ids(&library, &request)
    };
    assert_eq!(ids_by_name("AKIAQ7", true), [""; 0]);
    assert_eq!(ids_by_name("AKIAQ7", false), ["a"]);
    assert_eq!(ids_by_name("now", true), ["a"]);
    assert!(
        !title(true).contains(&key) && title(true).ends_with(" now"),
        "{}",
        title(true)
    );
}

#[test]
fn no_field_of_a_row_shows_a_credential() {
    let key = format!("AKIA{}", "Q7RT5VWX2YZ3ABCD");
    let word = || Some(Box::from(format!("x {key}").as_str()));
    // Of a session that is not cached, the header names the agents.
    let source = MemorySource {
        without_fingerprints: true,
        ..MemorySource::default()
    };
    let shown_header = Header {
        project_id: word(),
        project_name: word(),
        directory: word(),
        worktree: word(),
        agent: word(),
        agents: word().into_iter().collect(),
        version: word(),
        ..header("a", 1)
    };
    source.put(shown_header, conversation(Vec::new()));
    let library = Library::new(vec![Arc::new(source)], 1 << 20);
    let shown = |mask| {
        let request = ListRequest {
            mask,
            ..ListRequest::default()
        };
        serde_json::to_string(&list(&library, &request).unwrap()).unwrap()
    };
    assert_eq!(shown(false).matches(&key).count(), 7);
    assert!(!shown(true).contains(&key[..8]), "{}", shown(true));
}
