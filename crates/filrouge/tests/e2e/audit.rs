//! The audit over HTTP and on the command line: in order, who wrote what, and which agent and model called which tool
//! with which parameters.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::audit_rows::{assert_same_table, lines};
use crate::caller::{Caller, key};
use crate::http::{Client, text_item};
use crate::world::World;

/// Texts that spreadsheets, CSV readers or terminals may misread.
const DIFFICULT: [&str; 11] = [
    "=HYPERLINK(\"http://evil\",\"x\")",
    "+1",
    "-1",
    "@SUM(1)",
    "\tx",
    "'quoted",
    "a,b;\"c\"\r\nd\n",
    "\0=1",
    "\u{1b}]8;;http://evil\u{7}link\u{9b}31m",
    "",
    "żółć 红线 \u{1f9f5}",
];

/// Starts a turn; returns its path.
pub(crate) fn start(client: &Client, session: &str, request: &str, text: &str) -> String {
    let body = json!({ "request_id": request, "question_neutral": text });
    let turn = client.post(&format!("/{session}/turns"), &body).wrote(201);
    format!("/{session}/turns/{}", turn["turn_id"].as_str().unwrap())
}

pub(crate) fn append(client: &Client, turn: &str, items: Value) {
    let body = json!({ "items": items });
    client.post(&format!("{turn}/items"), &body).wrote(201);
}

fn call(id: &str, name: &str, args: &Value) -> Value {
    json!({ "item_id": format!("call-{id}-{name}"), "role": "assistant", "channel": "tool_call",
        "agent": "planner", "model": "m-1", "usage": { "input_tokens": 7 },
        "metadata": { "finish_reason": "tool_calls" },
        "parts": [{ "type": "tool_call", "call_id": id, "name": name, "args": args }] })
}

fn result(id: &str, ok: bool, content: &Value) -> Value {
    json!({ "role": "tool", "channel": "tool_result", "occurred_at": "2026-01-02T03:04:05Z",
        "parts": [{ "type": "tool_result", "call_id": id, "ok": ok, "latency_ms": 12, "content": content }] })
}

/// Records two sessions of two owners with interleaved turns and a failed turn, and a third one with a link and the
/// [`DIFFICULT`] texts.
pub(crate) fn record(client: &Client) {
    let (ada, bob) = (client.for_identity("ada"), client.for_identity("bob"));
    let one = start(&ada, "s1", "r1", "What do I owe?");
    let two = start(&bob, "s2", "r1", "And I?");
    append(
        &ada,
        &one,
        json!([call("c1", "ledger", &json!({ "owner": "ada" }))]),
    );
    append(
        &bob,
        &two,
        json!([call("c1", "ledger", &json!({ "owner": "bob" }))]),
    );
    let three = start(&ada, "s1", "r2", "Quickly!");
    append(&ada, &three, json!([call("c1", "clock", &json!({}))]));
    append(
        &ada,
        &one,
        json!([result("c1", true, &json!({ "sum": 3 }))]),
    );
    append(
        &ada,
        &three,
        json!([result("c1", false, &json!("no clock"))]),
    );
    append(
        &bob,
        &two,
        json!([result("c1", true, &json!({ "sum": -4 }))]),
    );
    let failed = json!({ "error": { "code": "provider_down", "message": "gone", "retryable": true },
        "partial_text": "You ow" });
    ada.post(&format!("{three}/fail"), &failed).wrote(200);
    let answer = json!({ "answer_neutral": "Three." });
    ada.post(&format!("{one}/finalize"), &answer).wrote(200);
    let open = start(client, "s3", "r1", "Whose is this?");
    let difficult: Vec<Value> = DIFFICULT
        .iter()
        .enumerate()
        .map(|(n, text)| text_item(&format!("d{n}"), "assistant", "thought", text))
        .collect();
    append(client, &open, json!(difficult));
    let body = json!({ "identity_id": "cyd" });
    client.for_identity("cyd").put("/s3/link", &body).wrote(200);
}

/// Reads all rows that match a query, page by page.
fn all(client: &Client, query: &str, limit: usize) -> Vec<Value> {
    client.all(&format!("/api/v1/audit?{query}"), limit)
}

fn positions_in_sessions(rows: &[Value]) -> Vec<String> {
    let place = |row: &Value| format!("{}:{}", row["session_id"].as_str().unwrap(), row["seq"]);
    rows.iter().map(place).collect()
}

#[test]
fn rows_are_ordered_complete_and_equal_on_every_path() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record(&client);
    let rows = all(&client, "", 500);
    let expected = [
        "s1:1", "s2:1", "s1:2", "s2:2", "s1:3", "s1:4", "s1:5", "s1:6", "s2:3", "s1:7", "s1:8",
        "s1:9",
    ];
    assert_eq!(positions_in_sessions(&rows)[..12], expected);
    // Session s3 has a question, the difficult texts and the link.
    assert_eq!(rows.len(), 12 + 1 + DIFFICULT.len() + 1);
    for limit in [1, 2, 5] {
        assert_eq!(all(&client, "", limit), rows, "{limit} rows per page");
    }
    let call = &rows[2];
    for (member, value) in [
        ("turn_id", rows[0]["turn_id"].clone()),
        ("request_id", json!("r1")),
        ("identity_id", json!("ada")),
        ("role", json!("assistant")),
        ("channel", json!("tool_call")),
        ("agent", json!("planner")),
        ("model", json!("m-1")),
        ("tool", json!("ledger")),
        ("call_id", json!("c1")),
        ("args", json!({ "owner": "ada" })),
        ("usage", json!({ "input_tokens": 7 })),
        ("finish_reason", json!("tool_calls")),
        ("redacted", json!(false)),
        ("item_id", json!("call-c1-ledger")),
        ("detail", Value::Null),
    ] {
        assert_eq!(call[member], value, "{member}");
    }
    // Each result belongs to the call of its own turn.
    let tool_result = |row: &Value| {
        (
            row["tool"].clone(),
            row["ok"].clone(),
            row["result"].clone(),
        )
    };
    assert_eq!(
        tool_result(&rows[6]),
        (json!("ledger"), json!(true), json!({ "sum": 3 }))
    );
    assert_eq!(
        tool_result(&rows[7]),
        (json!("clock"), json!(false), json!("no clock"))
    );
    assert_eq!(rows[7]["latency_ms"], 12);
    assert_eq!(rows[7]["occurred_at"], "2026-01-02T03:04:05.000000Z");
    assert_eq!(
        (&rows[9]["channel"], &rows[9]["text"]),
        (&json!("partial"), &json!("You ow"))
    );
    assert_eq!(
        rows[10]["error"],
        json!({ "code": "provider_down", "message": "gone", "source": "caller", "retryable": true })
    );
    // The link is a row of its own, and belongs to the new owner.
    let linked = rows.last().unwrap();
    assert_eq!(
        linked["detail"],
        json!([{ "type": "session_link", "identity_id": "cyd" }])
    );
    assert_eq!(linked["identity_id"], "cyd");

    let jsonl = client.get("/api/v1/audit?format=jsonl");
    assert_eq!(jsonl.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(lines(&jsonl.text), rows);
    let accept = [("accept", "text/csv")];
    let csv = client.send("GET", "/api/v1/audit", None, &accept);
    assert_eq!(csv.status, 200);
    assert_eq!(
        csv.header("content-type"),
        Some("text/csv; charset=utf-8; header=present")
    );
    assert_same_table(&csv.text, &rows);
    let limited = client.get("/api/v1/audit?format=jsonl&limit=3");
    assert_eq!(lines(&limited.text), rows[..3]);

    server.stop();
    assert_eq!(lines(&world.ok(&["audit", "--format", "jsonl"])), rows);
    assert_eq!(lines(&world.ok(&["audit", "--json"])), rows);
    assert_eq!(world.ok(&["audit", "--format", "csv"]), csv.text);
    let text = world.ok(&["audit"]);
    assert_eq!(text.lines().count(), rows.len());
    assert!(
        text.contains("s1:2  assistant planner m-1  tool_call  ledger {\"owner\":\"ada\"}\n"),
        "{text}"
    );
    world.verify();
}

#[test]
fn filters_return_exactly_the_matching_rows() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record(&client);
    let rows = all(&client, "", 500);
    let matching = |member: &str, value: &str| -> Vec<Value> {
        let own = rows.iter().filter(|row| row[member] == value);
        own.cloned().collect()
    };
    for (query, option, member, value) in [
        ("session_id", "--session", "session_id", "s1"),
        ("session_id", "--session", "session_id", "s3"),
        ("identity_id", "--identity", "identity_id", "bob"),
        ("identity_id", "--identity", "identity_id", "cyd"),
        ("tool", "--tool", "tool", "clock"),
        ("tool", "--tool", "tool", "ledger"),
        ("agent", "--agent", "agent", "planner"),
        ("tool", "--tool", "tool", "nothing"),
    ] {
        let expected = matching(member, value);
        assert_eq!(expected.is_empty(), value == "nothing");
        for limit in [1, 500] {
            assert_eq!(
                all(&client, &format!("{query}={value}"), limit),
                expected,
                "{query}={value}"
            );
        }
        assert_eq!(
            lines(&world.ok(&["audit", "--json", option, value])),
            expected
        );
    }
    // `until` excludes its time and `since` includes it, so together they cover all rows.
    let times: BTreeMap<&str, usize> = rows
        .iter()
        .map(|r| (r["at"].as_str().unwrap(), 0))
        .collect();
    assert!(times.len() > 5);
    for at in times.keys() {
        let before = all(&client, &format!("until={at}"), 3);
        let after = all(&client, &format!("since={at}"), 3);
        assert_eq!([before.clone(), after].concat(), rows);
        let own: Vec<Value> = rows
            .iter()
            .filter(|r| r["session_id"] == "s1" && r["at"].as_str() < Some(*at))
            .cloned()
            .collect();
        assert_eq!(all(&client, &format!("session_id=s1&until={at}"), 3), own);
        assert_eq!(
            lines(&world.ok(&["audit", "--json", "--until", at])),
            before
        );
    }
    assert_eq!(
        lines(&world.ok(&["audit", "--json", "--since", "1d"])),
        rows
    );
    assert!(world.ok(&["audit", "--until", "1d"]).is_empty());
    let day = |row: &Value| row["at"].as_str().unwrap()[..10].to_owned();
    let (first, last) = (day(&rows[0]), day(rows.last().unwrap()));
    let days = ["audit", "--json", "--since", &first, "--until", &last];
    assert_eq!(lines(&world.ok(&days)), rows);
    let both = all(&client, "session_id=s1&tool=ledger&identity_id=ada", 1);
    assert_eq!(positions_in_sessions(&both), ["s1:2", "s1:5"]);
}

#[test]
fn redacted_and_erased_contents_are_reported_but_not_shown() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record(&client);
    let rows = all(&client, "session_id=s1", 500);
    let turn = rows[0]["turn_id"].as_str().unwrap();
    let path = format!("/s1/turns/{turn}/redact");
    client
        .for_identity("ada")
        .post(&path, &json!({ "reason": "on request" }))
        .wrote(200);
    client.for_identity("bob").delete("/s2").wrote(200);
    let rows_after = all(&client, "", 500);
    let own: Vec<&Value> = rows_after
        .iter()
        .filter(|r| r["session_id"] == "s1")
        .collect();
    assert_eq!(own.len(), rows.len() + 1);
    for (before, after) in rows.iter().zip(&own) {
        assert_eq!(
            (&after["seq"], &after["channel"], &after["at"]),
            (&before["seq"], &before["channel"], &before["at"])
        );
        if before["turn_id"] != turn {
            assert_eq!(&before, after);
            continue;
        }
        assert_eq!(after["redacted"], true);
        for member in ["text", "tool", "args", "result", "detail", "error"] {
            assert_eq!(after[member], Value::Null, "{after}");
        }
    }
    let redaction = &own.last().unwrap()["detail"][0];
    assert_eq!(
        (&redaction["reason"], &redaction["by"]),
        (&json!("on request"), &json!("ada"))
    );
    let erased: Vec<&Value> = rows_after
        .iter()
        .filter(|r| r["session_id"] == "s2")
        .collect();
    assert_eq!(erased.len(), 1);
    assert_eq!(
        erased[0]["detail"],
        json!([{ "type": "erasure", "items": 3, "turns": 1 }])
    );
    assert_eq!(
        (&erased[0]["seq"], &erased[0]["channel"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(all(&client, "session_id=s2", 1), [erased[0].clone()]);
    let csv = client.get("/api/v1/audit?format=csv").text;
    assert_same_table(&csv, &rows_after);
    assert!(!csv.contains("And I?") && !csv.contains("What do I owe?"));
    let text = world.ok(&["audit", "--session", "s2"]);
    assert!(text.contains("  s2  -  erased  "), "{text}");
}

#[test]
fn the_audit_shows_only_the_tenant_and_needs_permission() {
    let world = World::new();
    let create_key =
        |tenant: &str, role: &[&str]| key(&world, &[&["--tenant", tenant], role].concat());
    let role = |name: &'static str| ["--role", name];
    let (acme_auditor, other_auditor) = (
        create_key("acme", &role("auditor")),
        create_key("other", &role("auditor")),
    );
    let service = create_key("acme", &role("service"));
    let user = create_key("acme", &["--role", "user", "--identity", "ada"]);
    let admin = create_key("acme", &role("admin"));
    let elsewhere = create_key("other", &role("service"));
    let server = world.serve();
    for (key, words) in [(&service, "ours"), (&elsewhere, "theirs")] {
        let body = json!({ "request_id": "r", "question_neutral": words });
        let caller = Caller::with_credentials(&server, key).for_identity("ada");
        caller.post("/shared/turns", &body).wrote(201);
    }
    let read = |key: &str, query: &str| {
        let response = Caller::with_credentials(&server, key).send(
            "GET",
            &format!("/api/v1/audit{query}"),
            None,
        );
        assert_eq!(response.status, 200, "{response:?}");
        response.text
    };
    for query in [
        "",
        "?session_id=shared",
        "?format=csv",
        "?format=jsonl",
        "?identity_id=ada",
    ] {
        for (key, own, other) in [
            (&acme_auditor, "\"ours\"", "theirs"),
            (&admin, "\"ours\"", "theirs"),
            (&other_auditor, "\"theirs\"", "ours"),
        ] {
            let text = read(key, query);
            assert!(
                text.contains(own.trim_matches('"')) && !text.contains(other),
                "{query}: {text}"
            );
        }
    }
    for caller in [
        Caller::with_credentials(&server, &service),
        Caller::with_credentials(&server, &service).for_identity("ada"),
        Caller::with_credentials(&server, &user),
        Caller::with_credentials(&server, &acme_auditor).for_identity("ada"),
    ] {
        for query in ["", "?format=csv"] {
            let response = caller.send("GET", &format!("/api/v1/audit{query}"), None);
            response.fails(403, "forbidden");
        }
    }
    let anonymous = Caller::anonymous(&server).send("GET", "/api/v1/audit", None);
    anonymous.fails(401, "unauthenticated");
    server.stop();
    let text = world.ok(&["audit", "--tenant", "other"]);
    assert!(text.contains("theirs") && !text.contains("ours"));
}
