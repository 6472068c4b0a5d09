//! The states of a turn, step by step (promises P2 and P4).

use serde_json::{Value, json};

use crate::http::{Client, text_item};
use crate::world::World;

/// Starts a turn; returns its path.
fn start(client: &Client, session: &str, request: &str) -> String {
    let body = json!({ "request_id": request, "question_neutral": "Why?" });
    let turn = client.post(&format!("/{session}/turns"), &body).wrote(201);
    format!("/{session}/turns/{}", turn["turn_id"].as_str().unwrap())
}

/// The channels of a session's items, in order.
fn channels(client: &Client, session: &str) -> Vec<String> {
    let items = client.all(&format!("/{session}/items"), 500);
    let channel = |i: &Value| i["channel"].as_str().unwrap().to_owned();
    items.iter().map(channel).collect()
}

#[test]
fn sessions_are_created_once() {
    let world = World::new();
    let server = world.serve();
    let (anonymous, ada) = (server.client(), server.client().for_identity("ada"));
    let body =
        json!({ "session_id": "s", "title": "T", "project_id": "p", "metadata": { "k": 1 } });
    let created = ada.post("", &body).wrote(201);
    assert_eq!(created["identity_id"], "ada");
    assert_eq!(created["title"], "T");
    assert_eq!(created["status"], "active");
    assert_eq!(created["tenant_id"], "default");
    assert_eq!(
        (&created["last_seq"], &created["turn_count"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(created["metadata"], json!({ "k": 1 }));
    assert_eq!(ada.post("", &body).wrote(200), created);
    assert_eq!(ada.get_body("/s"), created);
    for other in [&anonymous, &anonymous.for_identity("bob")] {
        let problem = other.post("", &body).fails(409, "session_conflict");
        assert!(problem["hint"].is_string());
        let turn = json!({ "request_id": "r", "question_neutral": "?" });
        other.post("/s/turns", &turn).fails(409, "session_conflict");
    }
    let unnamed = anonymous.post("", &json!({})).wrote(201);
    let again = anonymous.post("", &json!({})).wrote(201);
    assert_ne!(unnamed["session_id"], again["session_id"]);
    anonymous.get_body(&format!("/{}", unnamed["session_id"].as_str().unwrap()));
    let empty = "POST /api/v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    anonymous.send_bytes(empty.as_bytes()).wrote(201);
    server.stop();
    world.verify();
}

#[test]
fn a_repeated_start_returns_the_first_response() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let body = json!({ "request_id": "r1", "question_neutral": "Why?", "pipeline_name": "p", "metadata": { "a": 1 } });
    let first = client.post("/s/turns", &body).wrote(201);
    let expected = json!({
        "session_id": "s", "request_id": "r1", "ordinal": 1, "status": "open", "identity_id": null,
        "question_neutral": "Why?", "question_translated": null, "answer_neutral": null,
        "answer_translated": null, "answer_translated_is_fallback": false, "translate_chat": false,
        "pipeline_name": "p", "consultant": null, "repository": null, "metadata": { "a": 1 },
        "first_seq": 1, "last_seq": 1, "record_version": 1, "replaced_by_turn_id": null,
        "finalized_at": null, "deleted_at": null, "replayed": false, "differs": false,
        "turn_id": first["turn_id"], "created_at": first["created_at"],
    });
    assert_eq!(first, expected);
    let again = client.post("/s/turns", &body).wrote(200);
    assert_eq!(
        (&again["replayed"], &again["differs"]),
        (&json!(true), &json!(false))
    );
    let other = json!({ "request_id": "r1", "question_neutral": "Who?" });
    let again = client.post("/s/turns", &other).wrote(200);
    assert_eq!(
        (&again["replayed"], &again["differs"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(again["question_neutral"], "Why?");
    assert_eq!(again["turn_id"], first["turn_id"]);
    assert_eq!(client.get_body("/s")["last_seq"], 1);
    let turn = format!("/s/turns/{}", first["turn_id"].as_str().unwrap());
    assert_eq!(client.get_body(&turn), expected);
    server.stop();
}

#[test]
fn items_are_appended_once() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = start(&client, "s", "r1");
    let path = format!("{turn}/items");
    let (a, b) = (
        text_item("a", "assistant", "thought", "hm"),
        text_item(
            "b",
            "tool",
            "weather/sunny",
            "unknown channels are accepted",
        ),
    );
    let both = json!({ "items": [a, b], "expected_seq": 1 });
    let seqs = json!({ "first_seq": 2, "last_seq": 3 });
    assert_eq!(client.post(&path, &both).wrote(201), seqs);
    assert_eq!(
        client.post(&path, &both).wrote(200),
        seqs,
        "a replay is answered before expected_seq is checked"
    );
    assert_eq!(
        client.post(&path, &json!({ "items": [b] })).wrote(200),
        json!({ "first_seq": 3, "last_seq": 3 })
    );

    let c = text_item("c", "assistant", "plan", "next");
    let late = json!({ "items": [c], "expected_seq": 1 });
    let problem = client.post(&path, &late).fails(409, "seq_conflict");
    assert_eq!(problem["actual_seq"], 3);
    client
        .post(&path, &json!({ "items": [b, c] }))
        .fails(409, "partial_replay");
    let changed = text_item("a", "assistant", "thought", "ha");
    client
        .post(&path, &json!({ "items": [changed] }))
        .fails(409, "idempotency_mismatch");
    client
        .post(&path, &json!({ "items": [b, a] }))
        .fails(409, "idempotency_mismatch");
    client
        .post(&path, &json!({ "items": [c, c] }))
        .fails(422, "invalid");
    client
        .post(&path, &json!({ "items": [] }))
        .fails(422, "invalid");
    let other_turn = start(&client, "s", "r2");
    client
        .post(&format!("{other_turn}/items"), &json!({ "items": [a] }))
        .fails(409, "idempotency_mismatch");
    assert_eq!(client.get_body("/s")["last_seq"], 4);
    assert_eq!(
        channels(&client, "s"),
        ["question", "thought", "weather/sunny", "question"]
    );

    let last = json!({ "items": [c], "expected_seq": 4 });
    assert_eq!(
        client.post(&path, &last).wrote(201),
        json!({ "first_seq": 5, "last_seq": 5 })
    );
    server.stop();
    world.verify();
}

#[test]
fn the_first_finalize_wins() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = start(&client, "s", "r1");
    let finalize = format!("{turn}/finalize");
    client
        .post(
            &finalize,
            &json!({ "request_id": "r2", "answer_neutral": "So." }),
        )
        .fails(409, "turn_mismatch");
    client
        .post(&finalize, &json!({}))
        .fails(422, "answer_missing");
    let body = json!({ "request_id": "r1", "answer_neutral": "So.", "metadata": { "m": true } });
    let done = client.post(&finalize, &body).wrote(200);
    assert_eq!(done["status"], "finalized");
    assert_eq!(done["answer_neutral"], "So.");
    assert_eq!(done["metadata"], json!({ "m": true }));
    assert!(done["finalized_at"].is_string());
    let again = client.post(&finalize, &body).wrote(200);
    assert_eq!(again["replayed"], true);
    assert_eq!(again["finalized_at"], done["finalized_at"]);
    client
        .post(&finalize, &json!({ "answer_neutral": "No." }))
        .fails(409, "idempotency_mismatch");
    client
        .post(
            &finalize,
            &json!({ "request_id": "other", "answer_neutral": "So." }),
        )
        .fails(409, "turn_mismatch");
    client
        .post(&format!("{turn}/cancel"), &json!({}))
        .fails(409, "turn_closed");
    client
        .post(
            &format!("{turn}/fail"),
            &json!({ "error": { "code": "x" } }),
        )
        .fails(409, "turn_closed");
    let late = json!({ "items": [text_item("z", "assistant", "plan", "late")] });
    client
        .post(&format!("{turn}/items"), &late)
        .fails(409, "turn_closed");
    assert_eq!(channels(&client, "s"), ["question", "final"]);
    let before = client.get_body(&turn);
    let late = json!({ "items": [text_item("e", "system", "error", "late")] });
    let seqs = client.post(&format!("{turn}/items"), &late).wrote(201);
    assert_eq!(seqs, json!({ "first_seq": 3, "last_seq": 3 }));
    assert_eq!(client.get_body(&turn), before);
    assert_eq!(channels(&client, "s"), ["question", "final", "error"]);
    server.stop();
    world.verify();
}

#[test]
fn a_final_item_becomes_the_answer() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = start(&client, "s", "r1");
    let items = json!({ "items": [text_item("f", "assistant", "final", "Because.")] });
    client.post(&format!("{turn}/items"), &items).wrote(201);
    let second = json!({ "items": [text_item("g", "assistant", "final", "Twice.")] });
    client
        .post(&format!("{turn}/items"), &second)
        .fails(409, "final_exists");
    let finalize = format!("{turn}/finalize");
    client
        .post(&finalize, &json!({ "answer_neutral": "Other." }))
        .fails(409, "idempotency_mismatch");
    let empty = format!(
        "POST /api/v1/sessions{finalize} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    let done = client.send_bytes(empty.as_bytes()).wrote(200);
    assert_eq!(done["answer_neutral"], "Because.");
    assert_eq!(
        client.post(&finalize, &json!({})).wrote(200)["replayed"],
        true
    );
    assert_eq!(
        client
            .post(&finalize, &json!({ "answer_neutral": "Because." }))
            .wrote(200)["replayed"],
        true
    );
    server.stop();
    world.verify();
}

#[test]
fn failed_and_cancelled_turns_keep_the_shown_text() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let failed = start(&client, "s", "r1");
    let error = json!({ "error": { "code": "overloaded", "message": "try later", "retryable": true }, "partial_text": "It is" });
    let path = format!("{failed}/fail");
    client
        .post(&path, &json!({ "error": { "code": "" } }))
        .fails(422, "invalid");
    client.post(&path, &json!({})).fails(422, "invalid");
    let done = client.post(&path, &error).wrote(200);
    assert_eq!(
        (&done["status"], &done["answer_neutral"]),
        (&json!("failed"), &Value::Null)
    );
    assert_eq!(client.post(&path, &error).wrote(200)["replayed"], true);
    client
        .post(&path, &json!({ "error": { "code": "other" } }))
        .fails(409, "idempotency_mismatch");

    let cancelled = start(&client, "s", "r2");
    let path = format!("{cancelled}/cancel");
    let shown = json!({ "partial_text": "Perhaps" });
    assert_eq!(client.post(&path, &shown).wrote(200)["status"], "cancelled");
    assert_eq!(client.post(&path, &shown).wrote(200)["replayed"], true);
    client
        .post(&path, &json!({}))
        .fails(409, "idempotency_mismatch");
    client
        .post(
            &format!("{cancelled}/finalize"),
            &json!({ "answer_neutral": "x" }),
        )
        .fails(409, "turn_closed");

    let expected = [
        "question",
        "partial",
        "error",
        "question",
        "partial",
        "cancelled",
    ];
    assert_eq!(channels(&client, "s"), expected);
    let items = client.all("/s/items", 500);
    assert_eq!(
        items[2]["parts"],
        json!([{ "type": "error", "code": "overloaded", "message": "try later", "source": "caller", "retryable": true }])
    );
    server.stop();
    world.verify();
}
