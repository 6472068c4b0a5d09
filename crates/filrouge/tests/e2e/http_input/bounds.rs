//! Limits of size and of nesting.

use super::*;

#[test]
fn sizes_are_bounded() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = open_turn(&client);
    let items = format!("{turn}/items");
    let text = |bytes: usize| json!({ "items": [{ "role": "user", "channel": "plan", "parts": [{ "type": "text", "text": "x".repeat(bytes) }] }] });
    let problem = client
        .post(&items, &text(16 << 20))
        .fails(422, "limit_exceeded");
    assert!(problem["hint"].is_string());
    client.post(&items, &text((16 << 20) - 100)).wrote(201);
    let long = "x".repeat(17 << 20);
    client
        .post(
            "/s/turns",
            &json!({ "request_id": "l", "question_neutral": long }),
        )
        .fails(422, "limit_exceeded");
    let metadata = json!({ "m": long });
    let start = json!({ "request_id": "l", "question_neutral": "?", "metadata": metadata });
    client.post("/s/turns", &start).fails(422, "limit_exceeded");
    client
        .post("", &json!({ "session_id": "l", "metadata": metadata }))
        .fails(422, "limit_exceeded");
    client
        .post("", &json!({ "session_id": "l", "title": "x".repeat(4097) }))
        .fails(422, "limit_exceeded");
    let close = json!({ "answer_neutral": "x", "metadata": metadata });
    client
        .post(&format!("{turn}/finalize"), &close)
        .fails(422, "limit_exceeded");
    client
        .post(
            &format!("{turn}/finalize"),
            &json!({ "answer_neutral": long }),
        )
        .fails(422, "limit_exceeded");
    let partial = json!({ "partial_text": long });
    client
        .post(&format!("{turn}/cancel"), &partial)
        .fails(422, "limit_exceeded");

    let body = vec![b' '; (32 << 20) + 1];
    post_bytes(&client, &items, JSON, &body).fails(413, "payload_too_large");
    let item = json!({ "role": "user", "channel": "plan", "parts": [] });
    let body = json!({ "items": vec![item; 10_000] });
    client.post(&items, &body).fails(422, "limit_exceeded");
    assert_eq!(client.get_body("/s")["last_seq"], 2);
    server.stop();
    world.verify();
}

#[test]
fn nesting_is_bounded() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = open_turn(&client);
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    // The array of parts and the object in it are the first two levels.
    let parts = |levels: usize| format!("[{{\"type\":\"x\",\"deep\":{}}}]", nested(levels - 2));
    let body = |levels: usize| {
        let (parts, metadata) = (parts(levels), nested(levels - 1));
        format!(
            "{{\"items\":[{{\"role\":\"user\",\"channel\":\"plan\",\"parts\":{parts},\"metadata\":{{\"d\":{metadata}}}}}]}}"
        )
    };
    client
        .post_text(&format!("{turn}/items"), &body(128))
        .wrote(201);
    client
        .post_text(&format!("{turn}/items"), &body(129))
        .fails(422, "invalid");
    client
        .post_text(&format!("{turn}/items"), &body(100_000))
        .fails(422, "invalid");
    let page = client.get("/s/items?after=1");
    assert!(page.text.contains(&parts(128)), "{page:?}");
    let shown = world.ok(&["sessions", "show", "s"]);
    assert!(shown.contains("plan"));
    let json = world.ok(&["sessions", "show", "s", "--json"]);
    assert!(json.contains(&"[".repeat(126)) || json.matches('[').count() > 126);
    server.stop();
    world.verify();
}
