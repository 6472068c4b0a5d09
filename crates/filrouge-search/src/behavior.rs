//! Tests of search results, on handmade conversations.

use std::sync::Arc;

use filrouge_sources::library::Library;
use filrouge_sources::library::samples::{self, MemorySource};
use filrouge_sources::{Message, Part, PartKind, Role};

use super::*;

fn library(sessions: Vec<(&str, i64, Vec<Message>)>) -> Library {
    let source = MemorySource::default();
    for (id, at, messages) in sessions {
        source.put(samples::header(id, at), samples::conversation(messages));
    }
    Library::new(vec![Arc::new(source)], 1 << 20)
}

fn user_message(id: &str, parts: Vec<Part>) -> Message {
    samples::message(id, Role::User, parts)
}

fn query(query: &str) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        mask: true,
        ..SearchRequest::default()
    }
}

fn tool_call(input: &str, output: &str) -> Part {
    let mut tool = samples::tool(Some(output));
    tool.input = input.into();
    samples::part("call", PartKind::Tool(Box::new(tool)))
}

#[test]
fn words_match_anywhere_in_one_message() {
    let split = user_message(
        "m1",
        vec![
            samples::text("a", "The Needle is"),
            tool_call("{}", "in a HAYSTACK"),
        ],
    );
    let others = [
        user_message("m2", vec![samples::text("a", "needle")]),
        user_message("m3", vec![samples::text("a", "haystack")]),
    ];
    let library = library(vec![("s1", 1, vec![split]), ("s2", 2, others.to_vec())]);
    let results = search(&library, &query("haystack needle")).unwrap();
    assert_eq!((results.total_sessions, results.total_matches), (1, 1));
    let excerpts: Vec<_> = results.sessions[0]
        .excerpts
        .iter()
        .map(|e| (&*e.place, &*e.field, &*e.text))
        .collect();
    assert_eq!(
        excerpts,
        [
            ("s1:m1", "text", "The «Needle» is"),
            ("s1:m1", "tool_output", "in a «HAYSTACK»")
        ]
    );
    assert_eq!(
        search(&library, &query("needle -haystack"))
            .unwrap()
            .total_matches,
        1
    );
    assert_eq!(
        search(&library, &query("needle -\"is\"")).unwrap().sessions[0]
            .session
            .id,
        "s2"
    );
}

#[test]
fn arguments_are_found_as_written_and_with_escapes_resolved() {
    let input = r#"{"command":"echo \"hi\"\nls C:\\dir"}"#;
    let library = library(vec![(
        "s",
        1,
        vec![user_message("m", vec![tool_call(input, "")])],
    )]);
    for (words, offset, hit) in [
        (r#""echo \"hi\"""#, 12, "«echo \"hi\"»"),
        ("\"\\\"hi\\\" ls\"", 17, "«\"hi\" ls»"),
        ("c:\\dir", 28, "«C:\\dir»"),
        ("c:\\\\dir", 28, "«C:\\\\dir»"),
        (r#""command""#, 2, "«command»"),
        ("/hi\"$/", 19, "«hi\"»"),
    ] {
        let results = search(&library, &query(words)).unwrap();
        let excerpt = &results.sessions[0].excerpts[0];
        assert_eq!(
            (excerpt.field.as_str(), excerpt.offset),
            ("tool_input", offset),
            "{words}"
        );
        assert!(excerpt.text.contains(hit), "{words}: {}", excerpt.text);
    }
}

#[test]
fn pages_show_every_match_of_a_session() {
    let messages = (0..7).map(|n| {
        user_message(
            &format!("m{n}"),
            vec![samples::text("p", &format!("hit {n}"))],
        )
    });
    let library = library(vec![("s", 1, messages.collect()), ("t", 2, vec![])]);
    let mut request = SearchRequest {
        session_id: Some("s".to_owned()),
        excerpts: 3,
        ..query("hit")
    };
    let mut ids = Vec::new();
    for more in [true, true, false] {
        let page = search(&library, &request).unwrap();
        assert_eq!(
            (
                page.total_sessions,
                page.total_matches,
                page.next_cursor.is_some()
            ),
            (1, 7, more)
        );
        ids.extend(
            page.sessions[0]
                .excerpts
                .iter()
                .map(|e| e.message_id.clone().unwrap()),
        );
        request.cursor = page.next_cursor;
    }
    assert_eq!(ids, ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
    request = SearchRequest {
        session_id: Some("x".to_owned()),
        ..query("hit")
    };
    assert_eq!(
        search(&library, &request).unwrap_err().code(),
        "session_not_found"
    );
}

#[test]
fn titles_match_and_recently_changed_sessions_rank_first() {
    let library = library(vec![("a", 5, vec![]), ("b", 9, vec![]), ("c", 9, vec![])]);
    let results = search(
        &library,
        &SearchRequest {
            limit: 2,
            order: Order::Newest,
            ..query("title OF")
        },
    )
    .unwrap();
    let ids: Vec<_> = results
        .sessions
        .iter()
        .map(|h| h.session.id.as_str())
        .collect();
    assert_eq!(
        (ids, results.total_sessions, results.total_matches),
        (vec!["b", "c"], 3, 3)
    );
    assert_eq!(results.sessions[0].excerpts[0].text, "«Title» of b");
    let excluded = SearchRequest {
        exclude_session: Some("b".to_owned()),
        ..query("title")
    };
    assert_eq!(search(&library, &excluded).unwrap().total_sessions, 2);
}

#[test]
fn no_part_of_a_credential_is_shown() {
    let key = format!("sk-ant-api03-{}", "aB3dE5fG7hJ9".repeat(8));
    let text = format!("my key is {key} and it works");
    let input = format!(r#"{{"note":"say \"x\"","key":"{key}"}}"#);
    let parts = vec![samples::text("p", &text), tool_call(&input, "")];
    let library = library(vec![("s", 1, vec![user_message("m", parts)])]);
    for words in [
        "key",
        "works",
        "/is .{0,9}/",
        "\"x\"",
        "/\"x\".*/",
        "/.* it/",
    ] {
        let results = search(&library, &query(words)).unwrap();
        let excerpts = &results.sessions[0].excerpts;
        assert!(
            excerpts
                .iter()
                .all(|e| !e.text.contains("sk-ant") && !e.text.contains("E5f")),
            "{words}: {excerpts:?}"
        );
    }
    let results = search(&library, &query("\"my key\"")).unwrap();
    assert_eq!(
        results.sessions[0].excerpts[0].text,
        "«my key» is [masked]…"
    );
    // A credential cannot be guessed piece by piece either: a right guess and a wrong guess have the same result. This
    // is so for the guess alone, next to other text, and as an exclusion.
    let guess = |right: &str, wrong: &str| {
        let [right, wrong] = [right, wrong].map(|words| {
            let results = search(&library, &query(words)).unwrap();
            let texts = results.sessions.iter().flat_map(|hit| &hit.excerpts);
            let texts: Vec<String> = texts.map(|excerpt| excerpt.text.clone()).collect();
            (results.total_sessions, results.total_matches, texts)
        });
        assert_eq!(right, wrong);
        right.0
    };
    for (right, wrong, sessions) in [
        ("fG7hJ9aB3d", "fG7hJ9aB3x", 0),
        (key.as_str(), "sk-ant-api03-aB3dE5fG7hJ9aB3dE5fG7hJ9x", 0),
        ("/is sk-.*E5f/", "/is sk-.*E5x/", 0),
        ("/\"x\".*dE5f/", "/\"x\".*dE5x/", 0),
        ("/.*dE5f.*|key is $/", "/.*dE5x.*|key is $/", 1),
        ("/.*dE5f.*|\\[masked/", "/.*dE5x.*|\\[masked/", 0),
        ("works -dE5f", "works -dE5x", 1),
        ("/^my key is sk-ant/", "/^my key is sk-abc/", 0),
    ] {
        assert_eq!(guess(right, wrong), sessions, "{right}");
    }
    let unmasked = SearchRequest {
        mask: false,
        ..query("fG7hJ9aB3d")
    };
    assert!(
        search(&library, &unmasked).unwrap().sessions[0].excerpts[0]
            .text
            .contains("aB3dE5«fG7hJ9aB3d»E5f")
    );
}

#[test]
fn invalid_queries_are_refused_with_a_position() {
    let library = library(vec![(
        "s",
        1,
        vec![user_message("m", vec![samples::text("p", "x")])],
    )]);
    let error_message = |words: &str| search(&library, &query(words)).unwrap_err().to_string();
    assert_eq!(
        error_message("/é(b/"),
        "query, character 3: the regular expression is wrong at \"(b\": unclosed group"
    );
    assert!(
        error_message("a \"b")
            .starts_with("query, character 3: the phrase that begins here is not closed")
    );
    assert!(error_message("/(?:\\w{100}){100}/").contains("too large"));
    assert!(error_message(&format!("/{}a{}/", "(".repeat(60), ")".repeat(60))).contains("nest"));
    assert!(error_message("  ").contains("query is empty"));
    assert!(error_message("-x").contains("something to search for"));
    for invalid in [
        SearchRequest {
            limit: 501,
            ..query("x")
        },
        SearchRequest {
            excerpts: 1001,
            ..query("x")
        },
    ] {
        assert_eq!(
            search(&library, &invalid).unwrap_err().code(),
            "invalid_argument"
        );
    }
    let everything = SearchRequest {
        role: Some(Role::User),
        ..query("")
    };
    let results = search(&library, &everything).unwrap();
    assert_eq!(
        (
            results.total_matches,
            &*results.sessions[0].excerpts[0].text
        ),
        (1, "x")
    );
    assert!(
        Searcher::new(library.clone())
            .search(&query("x"), &|| true)
            .is_err()
    );
}

#[test]
fn a_path_between_slashes_is_reported_as_a_regex() {
    let library = library(vec![(
        "s",
        1,
        vec![user_message(
            "m",
            vec![samples::text("p", "see /usr/lib/x")],
        )],
    )]);
    let results = search(&library, &query("/usr/lib/")).unwrap();
    assert_eq!((results.total_matches, results.notices.len()), (1, 1));
    assert!(
        search(&library, &query("\"/usr/lib/\""))
            .unwrap()
            .notices
            .is_empty()
    );
    assert!(
        search(&library, &query("/lib.x/"))
            .unwrap()
            .notices
            .is_empty()
    );
}

#[test]
fn unreadable_sessions_are_reported() {
    let source = MemorySource {
        unreadable: Some("torn".into()),
        ..MemorySource::default()
    };
    for id in ["torn", "complete"] {
        let one = user_message("m", vec![samples::text("p", "a quince")]);
        source.put(samples::header(id, 1), samples::conversation(vec![one]));
    }
    let library = Library::new(vec![Arc::new(source)], 1 << 20);
    let results = search(&library, &query("quince")).unwrap();
    assert_eq!(results.total_sessions, 1);
    let notice = "sessions that could not be read, or not completely: 1";
    assert_eq!(results.notices, [notice]);
    let other = SearchRequest {
        exclude_session: Some("torn".into()),
        ..query("quince")
    };
    assert!(search(&library, &other).unwrap().notices.is_empty());
}

#[test]
fn likely_mistakes_are_reported() {
    let library = library(vec![(
        "s",
        1,
        vec![user_message("m", vec![samples::text("p", "x /a/zz")])],
    )]);
    let notices = |request: &SearchRequest| search(&library, request).unwrap().notices;
    let flag_notices = notices(&query("/a/zz"));
    assert!(
        flag_notices.len() == 1 && flag_notices[0].contains("'z' is no flag"),
        "{flag_notices:?}"
    );
    for query_text in ["x", "/usr/lib", "/a/b2", "/a/i"] {
        let notices = notices(&query(query_text));
        assert!(
            !notices.iter().any(|notice| notice.contains("flag")),
            "{query_text}: {notices:?}"
        );
    }
    // A word that looks like a pattern is explained only if nothing was found.
    let pattern = notices(&query("x.*zz"));
    assert!(
        pattern.len() == 1 && pattern[0].contains("between slashes"),
        "{pattern:?}"
    );
    for query_text in ["/x.*zz/", "x", "absent"] {
        assert_eq!(notices(&query(query_text)), [""; 0], "{query_text}");
    }
    let excluding = |id: &str| SearchRequest {
        exclude_session: Some(id.to_owned()),
        ..query("x")
    };
    let unknown = notices(&excluding("t"));
    assert!(
        unknown.len() == 1 && unknown[0].contains("excludeSession"),
        "{unknown:?}"
    );
    assert_eq!(notices(&excluding("s")), [""; 0]);
}
