//! Redaction of single items over HTTP.

use serde_json::{Value, json};

use crate::http::Client;
use crate::world::World;

/// Records a complete turn of three items.
fn record_turn(client: &Client, request: &str) -> Value {
    let plan = json!({ "role": "assistant", "channel": "plan", "parts": [{ "type": "text", "text": "a plan" }] });
    let body = json!({ "request_id": request, "question_neutral": "?", "answer_neutral": "!", "items": [plan] });
    client.post("/s/turns", &body).wrote(201)
}

#[test]
fn items_of_several_turns_are_redacted_over_http() {
    let world = World::new();
    let server = world.serve();
    let ada = server.client().for_identity("ada");
    record_turn(&ada, "r1");
    let whole = record_turn(&ada, "r2");
    let request = json!({ "seqs": [[4, 6], [1, 1], [3, 3]], "reason": "too old" });
    let receipt = ada.post("/s/redact", &request).wrote(200);
    assert_eq!(
        (
            &receipt["seqs"],
            &receipt["redaction_seq"],
            &receipt["replayed"]
        ),
        (&json!([[1, 1], [3, 6]]), &json!(7), &json!(false))
    );
    let repeated = ada.post("/s/redact", &request).wrote(200);
    assert_eq!(
        (&repeated["redaction_seq"], &repeated["replayed"]),
        (&json!(7), &json!(true))
    );
    let items = ada.all("/s/items", 2);
    let kept: Vec<&Value> = items.iter().filter(|i| i["redacted"] == false).collect();
    assert_eq!(kept.len(), 2);
    assert_eq!(
        kept[0]["parts"],
        json!([{ "type": "text", "text": "a plan" }])
    );
    assert_eq!(
        kept[1]["parts"],
        json!([{ "type": "redaction", "seqs": [[1, 1], [3, 6]], "by": "ada", "reason": "too old" }])
    );
    let path = format!("/s/turns/{}", whole["turn_id"].as_str().unwrap());
    assert!(ada.get_body(&path)["deleted_at"].is_string());
    for seqs in [
        json!([]),
        json!([[0, 1]]),
        json!([[3, 2]]),
        json!([[1, 8]]),
        json!([[7, 7]]),
    ] {
        ada.post("/s/redact", &json!({ "seqs": seqs, "reason": "x" }))
            .is(422);
    }
    let bob = server.client().for_identity("bob");
    bob.post("/s/redact", &request).is(404);
}
