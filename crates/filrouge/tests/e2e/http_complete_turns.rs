//! Complete turns in one request, languages, replacements, and invalid turns.

use serde_json::{Value, json};

use crate::http::text_item;
use crate::world::World;

#[test]
fn a_complete_turn_is_written_by_one_request() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let body = json!({
        "request_id": "r1", "question_neutral": "Weather?", "answer_neutral": "Sun.",
        "items": [
            { "item_id": "c", "role": "assistant", "channel": "tool_call", "agent": "w", "model": "m",
              "parts": [{ "type": "tool_call", "call_id": "1", "name": "sky", "args": {} }],
              "occurred_at": "2024-02-29T12:00:00+02:00" },
            { "item_id": "r", "role": "tool", "channel": "tool_result", "usage": { "input": 3 },
              "parts": [{ "type": "tool_result", "call_id": "1", "ok": true, "content": "blue" }] },
        ],
    });
    let turn = client.post("/s/turns", &body).wrote(201);
    assert_eq!(turn["status"], "finalized");
    assert_eq!(
        (&turn["first_seq"], &turn["last_seq"]),
        (&json!(1), &json!(4))
    );
    let items = client.all("/s/items", 500);
    assert_eq!(items.len(), 4);
    assert!(
        items
            .iter()
            .all(|i| i["turn_id"] == turn["turn_id"] && i["redacted"] == false)
    );
    assert_eq!(items[1]["agent"], "w");
    assert!(
        items[1]["occurred_at"]
            .as_str()
            .unwrap()
            .starts_with("2024-02-29T10:00:00")
    );
    assert_eq!(items[2]["usage"], json!({ "input": 3 }));

    let again = client.post("/s/turns", &body).wrote(200);
    assert_eq!(
        (&again["replayed"], &again["differs"]),
        (&json!(true), &json!(false))
    );
    let path = format!("/s/turns/{}/finalize", turn["turn_id"].as_str().unwrap());
    assert_eq!(
        client
            .post(&path, &json!({ "answer_neutral": "Sun." }))
            .wrote(200)["replayed"],
        true
    );
    client
        .post(&path, &json!({ "answer_neutral": "Rain." }))
        .fails(409, "idempotency_mismatch");

    let reused_item = json!({ "request_id": "r2", "question_neutral": "?", "items": [text_item("c", "user", "plan", "x")] });
    client
        .post("/s/turns", &reused_item)
        .fails(409, "idempotency_mismatch");
    let two_answers = json!({ "request_id": "r3", "question_neutral": "?", "answer_neutral": "!",
        "items": [text_item("f", "assistant", "final", "!")] });
    client
        .post("/s/turns", &two_answers)
        .fails(409, "final_exists");
    assert_eq!(client.get_body("/s")["last_seq"], 4);
    server.stop();
    world.verify();
}

#[test]
fn a_missing_language_is_filled_with_a_flagged_copy() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let translated =
        json!({ "request_id": "r1", "question_translated": "Warum?", "translate_chat": true });
    let turn = client.post("/s/turns", &translated).wrote(201);
    assert_eq!(
        (&turn["question_neutral"], &turn["question_translated"]),
        (&json!("Warum?"), &json!("Warum?"))
    );
    assert_eq!(
        turn["metadata"],
        json!({ "question_neutral_is_fallback": true })
    );
    let path = format!("/s/turns/{}/finalize", turn["turn_id"].as_str().unwrap());
    let turn = client
        .post(&path, &json!({ "answer_neutral": "So." }))
        .wrote(200);
    assert_eq!(
        (
            &turn["answer_translated"],
            &turn["answer_translated_is_fallback"]
        ),
        (&json!("So."), &json!(true))
    );

    let body = json!({ "request_id": "r2", "question_neutral": "Why?", "translate_chat": true });
    let turn = client.post("/s/turns", &body).wrote(201);
    let path = format!("/s/turns/{}/finalize", turn["turn_id"].as_str().unwrap());
    let answers = json!({ "answer_neutral": "So.", "answer_translated": "Darum.", "answer_translated_is_fallback": true });
    let turn = client.post(&path, &answers).wrote(200);
    assert_eq!(
        (
            &turn["answer_translated"],
            &turn["answer_translated_is_fallback"]
        ),
        (&json!("Darum."), &json!(true))
    );
    assert_eq!(client.post(&path, &answers).wrote(200)["replayed"], true);

    let body = json!({ "request_id": "r3", "question_neutral": "Why?" });
    let turn = client.post("/s/turns", &body).wrote(201);
    let path = format!("/s/turns/{}/finalize", turn["turn_id"].as_str().unwrap());
    let turn = client
        .post(&path, &json!({ "answer_translated": "Darum." }))
        .wrote(200);
    assert_eq!(
        (&turn["answer_neutral"], &turn["answer_translated"]),
        (&json!("Darum."), &json!("Darum."))
    );
    assert_eq!(
        turn["metadata"],
        json!({ "answer_neutral_is_fallback": true })
    );

    let body = json!({ "request_id": "r4", "question_neutral": "Why?", "translate_chat": true, "answer_neutral": "So." });
    let turn = client.post("/s/turns", &body).wrote(201);
    assert_eq!(
        (
            &turn["answer_translated"],
            &turn["answer_translated_is_fallback"]
        ),
        (&json!("So."), &json!(true))
    );
    server.stop();
    world.verify();
}

#[test]
fn a_replacement_takes_the_place_of_the_old_turn() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let open = json!({ "request_id": "r1", "question_neutral": "2+2?" });
    let old = client.post("/s/turns", &open).wrote(201);
    let old_path = format!("/s/turns/{}", old["turn_id"].as_str().unwrap());
    let path = format!("{old_path}/replace");
    let body = json!({ "request_id": "r1b", "question_neutral": "2+2?", "answer_neutral": "4" });
    client.post(&path, &body).fails(409, "turn_open");
    client
        .post(
            &format!("{old_path}/finalize"),
            &json!({ "answer_neutral": "5" }),
        )
        .wrote(200);
    client
        .post(
            &path,
            &json!({ "request_id": "x", "question_neutral": "2+2?" }),
        )
        .fails(422, "answer_missing");
    let new = client.post(&path, &body).wrote(201);
    assert_eq!(
        (&new["ordinal"], &new["record_version"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(new["answer_neutral"], "4");
    let again = client.post(&path, &body).wrote(200);
    assert_eq!(
        (&again["replayed"], &again["turn_id"]),
        (&json!(true), &new["turn_id"])
    );
    let other = json!({ "request_id": "r1b", "question_neutral": "2+2?", "answer_neutral": "3" });
    client
        .post(&path, &other)
        .fails(409, "idempotency_mismatch");
    let second = json!({ "request_id": "r1c", "question_neutral": "2+2?", "answer_neutral": "3" });
    client.post(&path, &second).fails(409, "turn_replaced");

    let old = client.get_body(&old_path);
    assert_eq!(
        (&old["answer_neutral"], &old["replaced_by_turn_id"]),
        (&json!("5"), &new["turn_id"])
    );
    let context = client.get_body("/s/context");
    assert_eq!(context["messages"][0]["answer"], "4");
    assert_eq!(
        context["report"]["dropped"],
        json!([{ "seq": 1, "reason": "turn_replaced" }, { "seq": 2, "reason": "turn_replaced" }])
    );
    let finalized = client.get_body("/s/turns?status=finalized");
    assert_eq!(
        finalized["data"].as_array().unwrap().len(),
        1,
        "{finalized}"
    );
    assert_eq!(client.all("/s/turns", 1).len(), 2);
    assert_eq!(client.get_body("/s")["turn_count"], 1);
    server.stop();
    world.verify();
}

#[test]
fn invalid_turns_are_refused() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let body = json!({ "request_id": "r", "question_neutral": "?" });
    let turn = client.post("/a/turns", &body).wrote(201);
    client.post("/b/turns", &body).wrote(201);
    let id = turn["turn_id"].as_str().unwrap();
    let absent = "00000000-0000-8000-8000-000000000000";
    let answer = json!({ "answer_neutral": "!" });
    client
        .get(&format!("/b/turns/{id}"))
        .fails(409, "turn_mismatch");
    client
        .post(&format!("/b/turns/{id}/finalize"), &answer)
        .fails(409, "turn_mismatch");
    for turn in [absent, "r", "%2e%2e"] {
        client
            .get(&format!("/a/turns/{turn}"))
            .fails(404, "turn_not_found");
        client
            .post(&format!("/a/turns/{turn}/finalize"), &answer)
            .fails(404, "turn_not_found");
        let replace = json!({ "request_id": "n", "question_neutral": "?", "answer_neutral": "!" });
        client
            .post(&format!("/a/turns/{turn}/replace"), &replace)
            .fails(404, "turn_not_found");
    }
    client
        .post(&format!("/none/turns/{id}/finalize"), &answer)
        .fails(404, "session_not_found");
    client
        .post("/c/turns", &json!({ "request_id": "r" }))
        .fails(422, "invalid");
    client.get("/c").fails(404, "session_not_found");
    server.stop();
}

#[test]
fn only_listed_runtime_context_is_stored() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let body = json!({ "request_id": "r", "question_neutral": "?",
        "runtime_context": { "auth_token": "s3cr3t-t0ken", "channel": "web", "locale": "pl" } });
    client.post("/s/turns", &body).wrote(201);
    let items = client.all("/s/items", 10);
    assert_eq!(
        items[0]["metadata"],
        json!({ "channel": "web", "locale": "pl" })
    );
    let rotated = json!({ "request_id": "r", "question_neutral": "?", "runtime_context": { "auth_token": "another" } });
    assert_eq!(
        client.post("/s/turns", &rotated).wrote(200)["differs"],
        false,
        "a renewed token makes the retry differ"
    );
    server.ask_to_stop();
    assert!(!server.wait_for_exit().contains("s3cr3t"));
    let export: Value = serde_json::from_str(&world.ok(&["export", "s"])).unwrap();
    assert!(!export.to_string().contains("s3cr3t"));
    world.assert_not_stored("s3cr3t");
}
