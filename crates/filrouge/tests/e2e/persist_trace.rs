//! `[SESSIONS][PERSIST_TRACE]`: one line for each write that adds items, with ids, seqs, counts and times, but no
//! content.

use std::fs;

use serde_json::{Value, json};

use crate::http::text_item;
use crate::limits::until;
use crate::world::{World, fixture};

const SECRET: &str = "s3cret-words";
const JSON_LOG: (&str, &str) = ("FILROUGE_LOG_FORMAT", "json");

/// The fields and the level of each trace line, in order.
fn lines(log: &str) -> Vec<Value> {
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines
        .filter(|line: &Value| line["fields"]["message"] == "[SESSIONS][PERSIST_TRACE]")
        .map(|mut line| {
            let mut fields = line["fields"].take();
            fields["level"] = line["level"].take();
            fields
        })
        .collect()
}

/// The only line of this operation on this turn.
#[track_caller]
fn only<'a>(lines: &'a [Value], op: &str, turn: &Value) -> &'a Value {
    let found: Vec<&Value> = lines
        .iter()
        .filter(|l| l["op"] == op && l["turn_id"] == *turn)
        .collect();
    assert_eq!(found.len(), 1, "{op}: {lines:#?}");
    found[0]
}

/// Checks the fields that every line must have.
#[track_caller]
fn assert_complete(line: &Value) {
    for id in ["tenant_id", "session_id"] {
        assert!(line[id].is_string(), "{id}: {line}");
    }
    assert!(
        line["duration_ms"].as_f64().is_some_and(|ms| ms >= 0.0),
        "{line}"
    );
    if line["op"] == "draft" {
        assert!(
            line["chunk"].is_u64() && line["pieces"].is_u64() && line["stream"].is_string(),
            "{line}"
        );
        assert_eq!(line["level"], "DEBUG");
        return;
    }
    assert_eq!(line["level"], "INFO");
    let items = line["items"].as_u64().unwrap();
    if line["op"] == "stream" {
        return;
    }
    assert!(line["replayed"].is_boolean(), "{line}");
    match (line["first_seq"].as_u64(), line["last_seq"].as_u64()) {
        (Some(first), Some(last)) => assert_eq!(items, last + 1 - first, "{line}"),
        (None, None) => assert_eq!((items, &line["replayed"]), (0, &json!(true)), "{line}"),
        _ => panic!("{line}"),
    }
}

/// Checks that the lines together report each item of a session once.
fn assert_dense(lines: &[Value], session: &str, last_seq: u64) {
    // The line of a `stream` summarizes the lines of its appends.
    let writes = lines
        .iter()
        .filter(|l| l["session_id"] == session && l["op"] != "stream");
    let spans = writes.filter_map(|l| Some((l["first_seq"].as_u64()?, l["last_seq"].as_u64()?)));
    let mut seqs: Vec<u64> = spans.flat_map(|(first, last)| first..=last).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=last_seq).collect::<Vec<_>>(), "{lines:#?}");
}

/// A stream in OpenAI's chat format: a text and a tool call, both with the secret.
fn chat_stream() -> String {
    let chunk = |delta: Value, end: Value| {
        let event = json!({ "object": "chat.completion.chunk", "model": "m-1", "choices": [
            { "index": 0, "delta": delta, "finish_reason": end }] });
        format!("data: {event}\n\n")
    };
    let call = json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function",
        "function": { "name": "look", "arguments": format!("{{\"at\":\"{SECRET}\"}}") } }] });
    chunk(json!({ "content": SECRET }), Value::Null)
        + &chunk(call, Value::Null)
        + &chunk(json!({}), json!("tool_calls"))
        + "data: [DONE]\n\n"
}

#[test]
fn every_write_logs_ids_seqs_counts_and_times_but_no_content() {
    let world = World::new();
    let environment = [
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ("FILROUGE_LOG", "debug"),
        JSON_LOG,
    ];
    let server = world.serve_with_env(&environment, &[]);
    let client = server.client();
    let start = |request: &str| {
        let body = json!({ "request_id": request, "question_neutral": SECRET });
        client.post("/s/turns", &body).wrote(201)["turn_id"].take()
    };
    let turn_path =
        |turn: &Value, call: &str| format!("/s/turns/{}/{call}", turn.as_str().unwrap());
    let post = |turn: &Value, call: &str, body: Value| client.post(&turn_path(turn, call), &body);
    let kept = start("kept");
    for status in [201, 200] {
        let items = [
            text_item("a", "assistant", "thought", SECRET),
            text_item("b", "assistant", "plan", SECRET),
        ];
        post(&kept, "items", json!({ "items": items })).wrote(status);
    }
    let answer = json!({ "answer_neutral": SECRET, "answer_translated": SECRET });
    post(&kept, "finalize", answer.clone()).wrote(200);
    post(&kept, "finalize", answer).wrote(200);
    let failed = start("failed");
    let error = json!({ "code": "down", "message": SECRET, "retryable": true });
    post(
        &failed,
        "fail",
        json!({ "error": error, "partial_text": SECRET }),
    )
    .wrote(200);
    let cancelled = start("cancelled");
    post(&cancelled, "cancel", json!({ "partial_text": SECRET })).wrote(200);
    let body =
        json!({ "request_id": "replaced", "question_neutral": SECRET, "answer_neutral": SECRET });
    let replaced = post(&kept, "replace", body).wrote(201)["turn_id"].take();
    post(&cancelled, "redact", json!({ "reason": SECRET })).wrote(200);
    let streamed = start("streamed");
    let path = turn_path(&streamed, "stream?format=openai-chat");
    let recorded = client.post_text(&path, &chat_stream());
    recorded.wrote(200);
    client
        .put("/s/link", &json!({ "identity_id": "ada" }))
        .wrote(200);
    let ada = client.for_identity("ada");
    ada.post("/s/close", &json!({ "reason": SECRET }))
        .wrote(200);
    ada.post("/s/close", &json!({ "reason": SECRET }))
        .wrote(200);
    let last_seq = ada.get_body("/s")["last_seq"].as_u64().unwrap();
    server.ask_to_stop();
    let log = server.wait_for_exit();
    assert!(!log.contains(SECRET), "{log}");

    // No event can be awaited here: the open turn must be silent for longer than the next server allows.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let environment = [&environment[..], &[("FILROUGE_TURN_TIMEOUT_S", "1")]].concat();
    let server = world.serve_with_env(&environment, &[]);
    until("the silent turn is interrupted", || {
        server.client().for_identity("ada").get_body("/s")["last_seq"] != last_seq
    });
    let last_seq = server.client().for_identity("ada").get_body("/s")["last_seq"]
        .as_u64()
        .unwrap();
    server.ask_to_stop();
    let log = log + &server.wait_for_exit();
    let lines = lines(&log);
    lines.iter().for_each(assert_complete);
    assert_dense(&lines, "s", last_seq);

    let started = only(&lines, "start", &kept);
    assert_eq!(
        (&started["request_id"], &started["status"]),
        (&json!("kept"), &json!("open"))
    );
    assert_eq!(
        (&started["first_seq"], &started["last_seq"]),
        (&json!(1), &json!(1))
    );
    let appended: Vec<&Value> = lines
        .iter()
        .filter(|l| l["op"] == "append" && l["turn_id"] == kept)
        .collect();
    assert_eq!(appended.len(), 2);
    assert_eq!(
        (&appended[0]["items"], &appended[0]["replayed"]),
        (&json!(2), &json!(false))
    );
    assert_eq!(
        (&appended[1]["items"], &appended[1]["replayed"]),
        (&json!(0), &json!(true))
    );
    let finalized: Vec<&Value> = lines.iter().filter(|l| l["op"] == "finalize").collect();
    assert_eq!((finalized.len(), &finalized[0]["items"]), (2, &json!(2)));
    assert_eq!(
        (&finalized[1]["items"], &finalized[1]["replayed"]),
        (&json!(0), &json!(true))
    );
    assert_eq!(finalized[0]["request_id"], "kept");
    for (op, turn, items, status) in [
        ("fail", &failed, 2, "failed"),
        ("cancel", &cancelled, 2, "cancelled"),
        ("replace", &replaced, 2, "finalized"),
        ("redact", &cancelled, 1, "cancelled"),
        ("interrupt", &streamed, 1, "interrupted"),
    ] {
        let line = only(&lines, op, turn);
        assert_eq!(
            (&line["items"], &line["status"]),
            (&json!(items), &json!(status)),
            "{line}"
        );
    }
    assert_eq!(only(&lines, "link", &Value::Null)["items"], 1);
    let closed: Vec<&Value> = lines.iter().filter(|l| l["op"] == "close").collect();
    assert_eq!(
        (closed.len(), &closed[0]["items"], &closed[1]["items"]),
        (2, &json!(1), &json!(0))
    );
    assert_eq!(closed[0]["status"], "closed");
    let summary = only(&lines, "stream", &streamed);
    assert_eq!(
        (&summary["items"], &summary["status"]),
        (&json!(2), &json!("open")),
        "{summary}"
    );
    assert!(summary["events"].as_u64() > Some(2), "{summary}");
    let drafts = lines.iter().filter(|l| l["op"] == "draft").count();
    assert!(drafts >= 1, "no draft was logged");
    let appends = lines
        .iter()
        .filter(|l| l["op"] == "append" && l["turn_id"] == streamed);
    assert!(
        appends.clone().count() >= 1 && appends.clone().all(|l| l["stream"] == summary["stream"])
    );
}

#[test]
fn imports_log_their_items() {
    let world = World::new();
    let run_traced = |arguments: &[&str]| {
        let mut command = world.command(arguments);
        command
            .env("FILROUGE_LOG", "info")
            .env(JSON_LOG.0, JSON_LOG.1);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        lines(&String::from_utf8(output.stderr).unwrap())
    };
    let source = fixture("opencode-json");
    let imported = run_traced(&["import", "opencode", source.to_str().unwrap()]);
    assert!(
        !imported.is_empty() && imported.iter().all(|l| l["op"] == "import"),
        "{imported:#?}"
    );
    imported.iter().for_each(assert_complete);
    let list = world.json(&["sessions", "list", "--limit", "500"]);
    for session in list["data"].as_array().unwrap() {
        let id = session["session_id"].as_str().unwrap();
        assert_dense(&imported, id, session["last_seq"].as_u64().unwrap());
    }
    let repeated = run_traced(&["import", "opencode", source.to_str().unwrap()]);
    assert!(
        repeated
            .iter()
            .all(|l| l["items"] == 0 && l["replayed"] == true),
        "{repeated:#?}"
    );

    let session = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["last_seq"] != 0)
        .unwrap();
    let id = session["session_id"].as_str().unwrap();
    let bundle = world.path("bundle.json");
    fs::write(&bundle, world.ok(&["export", id])).unwrap();
    let other_store = format!("sqlite:{}", world.path("other.db").display());
    let from_bundle = run_traced(&[
        "import",
        "bundle",
        bundle.to_str().unwrap(),
        "--store",
        &other_store,
    ]);
    let last = session["last_seq"].as_u64().unwrap();
    assert_eq!(from_bundle.len(), 1, "{from_bundle:#?}");
    assert_complete(&from_bundle[0]);
    assert_dense(&from_bundle, id, last);
}
