//! What the start of a turn may contain: its question, its end, and the seq that it expects.

use serde_json::{Value, json};

use crate::http::text_item;
use crate::world::World;

#[test]
fn a_turn_starts_only_at_the_expected_seq() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let start = |request: &str, expected: u64| {
        let body =
            json!({ "request_id": request, "question_neutral": "?", "expected_seq": expected });
        client.post("/s/turns", &body)
    };
    let problem = start("r1", 3).fails(409, "seq_conflict");
    assert_eq!(problem["actual_seq"], 0);
    client.get("/s").fails(404, "session_not_found");
    let turn = start("r1", 0).wrote(201);
    assert_eq!(start("r1", 0).wrote(200)["replayed"], true);
    let problem = start("r2", 0).fails(409, "seq_conflict");
    assert_eq!(problem["actual_seq"], 1);
    assert_eq!(start("r2", 1).wrote(201)["first_seq"], 2);
    // Of two writers that expect the same seq, one writes.
    start("r3", 1).fails(409, "seq_conflict");
    let turn = format!("/s/turns/{}", turn["turn_id"].as_str().unwrap());
    client
        .post(
            &format!("{turn}/finalize"),
            &json!({ "answer_neutral": "." }),
        )
        .wrote(200);
    let replacement = |expected: u64| {
        let body = json!({ "request_id": "r4", "question_neutral": "?", "answer_neutral": "!", "expected_seq": expected });
        client.post(&format!("{turn}/replace"), &body)
    };
    let problem = replacement(2).fails(409, "seq_conflict");
    assert_eq!(problem["actual_seq"], 3);
    replacement(3).wrote(201);
    server.stop();
    world.verify();
}

#[test]
fn a_turn_takes_its_question_from_its_first_item() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let question = |parts: &Value| json!({ "item_id": "q", "role": "user", "channel": "question", "parts": parts, "metadata": { "k": 1 } });
    let parts = json!([{ "type": "text", "text": "What is this?" }, { "type": "image_url", "url": "https://example.org/a.png" }]);
    let thought = text_item("t", "assistant", "thought", "hm");
    let body = json!({ "request_id": "r1", "items": [question(&parts), thought], "runtime_context": { "locale": "fr-FR" } });
    let turn = client.post("/s/turns", &body).wrote(201);
    assert_eq!(turn["question_neutral"], "What is this?");
    assert_eq!(
        (&turn["first_seq"], &turn["last_seq"]),
        (&json!(1), &json!(2))
    );
    let again = client.post("/s/turns", &body).wrote(200);
    assert_eq!(
        (&again["replayed"], &again["differs"]),
        (&json!(true), &json!(false))
    );
    let items = client.all("/s/items", 500);
    assert_eq!(
        (&items[0]["item_id"], &items[0]["parts"]),
        (&json!("q"), &parts)
    );
    assert_eq!(items[0]["metadata"], json!({ "k": 1, "locale": "fr-FR" }));
    assert_eq!((items.len(), &items[1]["channel"]), (2, &json!("thought")));
    assert_eq!(client.get_body("/s")["title"], "What is this?");

    let mut translated = text_item("u", "user", "question", "Quoi ?");
    translated["variant"] = json!("translated");
    let neutral = text_item("n", "user", "question", "What?");
    let body =
        json!({ "request_id": "r2", "items": [neutral, translated], "answer_neutral": "That." });
    let turn = client.post("/s/turns", &body).wrote(201);
    assert_eq!(turn["question_neutral"], "What?");
    assert_eq!(turn["question_translated"], "Quoi ?");
    assert_eq!(
        (&turn["status"], &turn["last_seq"]),
        (&json!("finalized"), &json!(5))
    );

    let plan = text_item("p", "user", "plan", "?");
    for items in [
        json!([]),
        json!([question(&json!([]))]),
        json!([translated, neutral]),
        json!([plan, neutral]),
        json!([text_item("a", "assistant", "question", "?")]),
    ] {
        let body = json!({ "request_id": "r3", "items": items });
        let problem = client.post("/s/turns", &body).fails(422, "invalid");
        assert!(problem["hint"].is_string(), "{problem}");
    }
    // After a question of its own, the items follow it.
    let body = json!({ "request_id": "r3", "question_neutral": "?", "items": [text_item("v", "user", "question", "more")] });
    let turn = client.post("/s/turns", &body).wrote(201);
    assert_eq!(
        (&turn["question_neutral"], &turn["last_seq"]),
        (&json!("?"), &json!(7))
    );
    server.stop();
    world.verify();
}

#[test]
fn a_start_ends_its_turn_with_a_final_item() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let answer = |variant: &str, parts: Value| json!({ "role": "assistant", "channel": "final", "variant": variant, "parts": parts });
    let said = |text: &str| json!([{ "type": "text", "text": text }]);
    let note = text_item("n", "system", "system_note", "after the answer");
    let body = |request: &str, items: Value| json!({ "request_id": request, "question_neutral": "?", "items": items, "finalize": true });
    let complete = body("r1", json!([answer("neutral", said("So.")), note]));
    let turn = client.post("/s/turns", &complete).wrote(201);
    assert_eq!(
        (&turn["status"], &turn["answer_neutral"]),
        (&json!("finalized"), &json!("So."))
    );
    assert_eq!(
        (&turn["last_seq"], &turn["answer_translated"]),
        (&json!(3), &Value::Null)
    );
    let again = client.post("/s/turns", &complete).wrote(200);
    assert_eq!(
        (&again["replayed"], &again["differs"]),
        (&json!(true), &json!(false))
    );
    let mut open = complete.clone();
    open["finalize"] = json!(false);
    assert_eq!(client.post("/s/turns", &open).wrote(200)["differs"], true);
    let finalize = format!("/s/turns/{}/finalize", turn["turn_id"].as_str().unwrap());
    for same in [json!({}), json!({ "answer_neutral": "So." })] {
        assert_eq!(client.post(&finalize, &same).wrote(200)["replayed"], true);
    }
    client
        .post(&finalize, &json!({ "answer_neutral": "No." }))
        .fails(409, "idempotency_mismatch");

    let mut wanted = body("r2", json!([answer("neutral", said("So."))]));
    wanted["translate_chat"] = json!(true);
    let turn = client.post("/s/turns", &wanted).wrote(201);
    assert_eq!(
        (
            &turn["answer_translated"],
            &turn["answer_translated_is_fallback"]
        ),
        (&json!("So."), &json!(true))
    );
    let both = json!([
        answer("neutral", said("So.")),
        answer("translated", said("Ainsi."))
    ]);
    let turn = client.post("/s/turns", &body("r3", both)).wrote(201);
    assert_eq!(
        (
            &turn["answer_translated"],
            &turn["answer_translated_is_fallback"]
        ),
        (&json!("Ainsi."), &json!(false))
    );
    let only = json!([answer("translated", said("Ainsi."))]);
    let turn = client.post("/s/turns", &body("r4", only)).wrote(201);
    assert_eq!(turn["answer_neutral"], "Ainsi.");
    assert_eq!(
        turn["metadata"],
        json!({ "answer_neutral_is_fallback": true })
    );
    let image = json!([{ "type": "image_url", "url": "https://example.org/a.png" }]);
    let turn = client
        .post("/s/turns", &body("r5", json!([answer("neutral", image)])))
        .wrote(201);
    assert_eq!(
        (&turn["status"], &turn["answer_neutral"]),
        (&json!("finalized"), &Value::Null)
    );

    let last = client.get_body("/s")["last_seq"].clone();
    for items in [
        json!([]),
        json!([note]),
        json!([text_item("u", "user", "final", "?")]),
    ] {
        let refused = client.post("/s/turns", &body("r6", items));
        assert!(refused.fails(422, "answer_missing")["hint"].is_string());
    }
    assert_eq!(client.get_body("/s")["last_seq"], last);
    server.stop();
    world.verify();
}
