//! Errors for wrong parameters and values name the right ones.

use serde_json::json;

use crate::artificial_history::library;
use crate::clients::{answer, client, refusal};

#[tokio::test]
async fn unknown_parameters_name_the_known_ones() {
    let client = client(library("amber")).await;
    let refused = refusal(&client, "list_sessions", json!({ "session_name": "a" })).await;
    assert_eq!(refused["code"], "unknown_parameter");
    let hint = refused["hint"].as_str().unwrap();
    assert!(
        hint.contains("did you mean \"sessionName\"?") && hint.contains("projectID"),
        "{hint}"
    );
    let refused = refusal(&client, "get_session_stats", json!({ "tenant": "x" })).await;
    assert_eq!(refused["code"], "unknown_parameter");
    assert!(refused["hint"].as_str().unwrap().contains("sessionID"));
}

#[tokio::test]
async fn wrong_values_are_refused_with_an_explanation() {
    let client = client(library("amber")).await;
    for (tool, arguments, expected) in [
        ("list_sessions", json!({ "limit": "many" }), "limit"),
        ("list_sessions", json!({ "limit": -1 }), "limit"),
        ("list_sessions", json!({ "limit": 0 }), "limit"),
        ("list_sessions", json!({ "roots": "yes" }), "roots"),
        ("list_sessions", json!({ "source": "vim" }), "claude-code"),
        (
            "list_sessions",
            json!({ "since": "28 décembre" }),
            "2025-12-28",
        ),
        ("list_sessions", json!({ "cursor": "nonsense" }), "cursor"),
        ("search_sessions", json!({}), "query"),
        ("search_sessions", json!({ "query": 7 }), "query"),
        (
            "search_sessions",
            json!({ "query": "a", "startDate": "28 décembre" }),
            "startDate",
        ),
        (
            "search_sessions",
            json!({ "query": "a", "endDate": {} }),
            "endDate",
        ),
        (
            "search_sessions",
            json!({ "query": "a", "role": "robot" }),
            "assistant",
        ),
        (
            "search_sessions",
            json!({ "query": "a", "excerpts": 0 }),
            "excerpts: 0",
        ),
        (
            "search_sessions",
            json!({ "query": "a", "agent": "" }),
            "agent is empty",
        ),
        (
            "search_sessions",
            json!({ "query": "a", "projectID": "" }),
            "project is empty",
        ),
        (
            "get_session_history",
            json!({ "sessionID": "amber-1", "maxChars": 0 }),
            "maxChars",
        ),
        (
            "get_session_history",
            json!({ "sessionID": "amber-1", "maxChars": 1e9 }),
            "maxChars",
        ),
        (
            "get_session_history",
            json!({ "sessionID": ["amber-1"] }),
            "sessionID",
        ),
        (
            "export_session",
            json!({ "sessionID": "amber-1", "format": "docx" }),
            "html",
        ),
        (
            "export_session",
            json!({ "sessionID": "amber-1", "cursor": "md.x.1" }),
            "cursor",
        ),
    ] {
        let refused = refusal(&client, tool, arguments.clone()).await;
        assert_eq!(
            refused["code"], "invalid_argument",
            "{arguments}: {refused}"
        );
        let text = format!("{} {}", refused["message"], refused["hint"]);
        assert!(text.contains(expected), "{arguments}: {text}");
        // The words of the parser are for programmers.
        for word in [
            "invalid type",
            "unknown variant",
            "missing field",
            "expected",
        ] {
            assert!(!text.contains(word), "{arguments}: {text}");
        }
    }
}

#[tokio::test]
async fn an_unknown_session_is_reported() {
    let client = client(library("amber")).await;
    for tool in [
        "get_session_history",
        "get_session_lineage",
        "get_session_stats",
        "get_compacted_context",
        "export_session",
    ] {
        let refused = refusal(&client, tool, json!({ "sessionID": "../amber-1" })).await;
        assert_eq!(refused["code"], "session_not_found", "{tool}: {refused}");
        assert!(refused["hint"].as_str().unwrap().contains("list_sessions"));
    }
}

/// Models send `null` for parameters that they omit.
#[tokio::test]
async fn null_means_that_a_parameter_is_omitted() {
    let client = client(library("amber")).await;
    let arguments = json!({ "limit": 1.0 });
    let (content, _) = answer(&client, "list_sessions", arguments).await;
    assert_eq!(content["sessions"].as_array().unwrap().len(), 1);
    let arguments = json!({ "sessionName": null, "limit": null, "until": null });
    assert_eq!(
        answer(&client, "list_sessions", arguments).await.0["total"],
        2
    );
}

/// The end is a date, which includes its day, or a time in milliseconds.
#[tokio::test]
async fn an_end_date_includes_its_day() {
    let client = client(library("amber")).await;
    for (until, total) in [
        (json!("2025-12-27"), 0),
        (json!("2025-12-28"), 1),
        (json!("2025-12-29"), 2),
        (json!(1_766_880_005_000_i64), 1),
        (json!("1766880004999"), 0),
        (json!("2025-12-28T00:00:05Z"), 1),
        (json!("9999-12-31"), 2),
    ] {
        let (content, _) = answer(&client, "list_sessions", json!({ "until": until })).await;
        assert_eq!(content["total"], total, "{until}");
    }
}
