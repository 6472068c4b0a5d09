//! Sessions in the shapes of OpenAI's Conversations API.

use serde_json::{Value, json};

use crate::caller::{Caller, key};
use crate::http::{Client, Response};
use crate::world::{Server, World};

/// The target of a request below OpenAI's conversations.
fn target(path: &str) -> String {
    format!("/openai/v1/conversations{path}")
}

fn get(client: &Client, path: &str) -> Response {
    client.send_without_body("GET", &target(path), "")
}

/// Checks a failure in the form of OpenAI's API; returns its message.
#[track_caller]
fn fails(response: &Response, status: u16, code: &str) -> String {
    let body = response.is(status);
    assert_eq!(response.header("content-type"), Some("application/json"));
    let error = body["error"].as_object().unwrap();
    let names: Vec<&str> = error.keys().map(String::as_str).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(
        (
            &body["error"]["code"],
            &body["error"]["type"],
            &body["error"]["param"]
        ),
        (&json!(code), &json!("invalid_request_error"), &Value::Null)
    );
    error["message"].as_str().unwrap().to_owned()
}

fn output_text_part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [] })
}

/// Records a turn with items of all shapes; its third item becomes four OpenAI items.
fn record_turn(server: &Server) -> Value {
    let client = server.client();
    let session =
        json!({ "session_id": "s", "metadata": { "a": "b", "n": 1.0, "o": { "x": [] } } });
    client.post("", &session).wrote(201);
    let body = json!({ "request_id": "r", "question_neutral": "Which way?", "answer_neutral": "Left.", "items": [
        { "role": "assistant", "channel": "thought", "parts": [{ "type": "text", "text": "Hm." }] },
        { "role": "assistant", "channel": "tool_call", "parts": [
            { "type": "text", "text": "I look" },
            { "type": "text", "text": "around." },
            { "type": "tool_call", "call_id": "1", "name": "look", "args": { "where": "left" } },
            { "type": "tool_call", "call_id": "2", "name": "look", "args": { "where": "right" } },
            { "type": "text", "text": "So." }] },
        { "role": "tool", "channel": "tool_result", "parts": [
            { "type": "tool_result", "call_id": "1", "ok": true, "content": "a wall" }] },
        { "role": "tool", "channel": "tool_result", "parts": [
            { "type": "tool_result", "call_id": "2", "ok": false, "error": "too dark" }] },
        { "role": "system", "channel": "system_note", "parts": [{ "type": "text", "text": "Noted." }] }] });
    client.post("/s/turns", &body).wrote(201)
}

/// Reads all items, in pages of `limit`.
#[track_caller]
fn read_pages(client: &Client, order: &str, limit: usize) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/s/items?order={order}&limit={limit}{after}");
        let page = get(client, &path).is(200);
        let data = page["data"].as_array().unwrap();
        assert_eq!(page["object"], "list");
        assert_eq!(page["first_id"], data.first().unwrap()["id"]);
        assert_eq!(page["last_id"], data.last().unwrap()["id"]);
        all.extend_from_slice(data);
        if page["has_more"] == false {
            return all;
        }
        assert_eq!(data.len(), limit);
        after = format!("&after={}", page["last_id"].as_str().unwrap());
    }
}

#[test]
fn conversations_have_openais_shapes_and_pages() {
    let world = World::new();
    let server = world.serve();
    record_turn(&server);
    let client = server.client();
    let conversation = get(&client, "/s").is(200);
    assert!(conversation["created_at"].as_i64().unwrap() > 1_700_000_000);
    assert_eq!(
        (&conversation["id"], &conversation["object"]),
        (&json!("s"), &json!("conversation"))
    );
    assert_eq!(
        conversation["metadata"],
        json!({ "a": "b", "n": "1.0", "o": r#"{"x":[]}"# })
    );

    let call = |id: &str, call: &str, side: &str| {
        json!({ "type": "function_call", "id": id, "call_id": call, "name": "look", "status": "completed",
            "arguments": format!(r#"{{"where":"{side}"}}"#) })
    };
    let output = |id: &str, call: &str, status: &str, text: &str| json!({ "type": "function_call_output", "id": id, "call_id": call, "status": status, "output": text });
    let message = |id: &str, role: &str, content: Value| json!({ "type": "message", "id": id, "role": role, "status": "completed", "content": content });
    let input_text_content = |text: &str| json!([{ "type": "input_text", "text": text }]);
    let mut all = vec![
        message("item_1", "user", input_text_content("Which way?")),
        json!({ "type": "reasoning", "id": "item_2", "summary": [{ "type": "summary_text", "text": "Hm." }] }),
        message(
            "item_3",
            "assistant",
            json!([output_text_part("I look"), output_text_part("around.")]),
        ),
        call("item_3_1", "1", "left"),
        call("item_3_2", "2", "right"),
        message("item_3_3", "assistant", json!([output_text_part("So.")])),
        output("item_4", "1", "completed", "a wall"),
        output("item_5", "2", "incomplete", "too dark"),
        message("item_6", "system", input_text_content("Noted.")),
        message("item_7", "assistant", json!([output_text_part("Left.")])),
    ];
    for limit in [1, 2, 3, 4, 10, 100] {
        assert_eq!(read_pages(&client, "asc", limit), all, "{limit}");
    }
    all.reverse();
    for limit in [1, 2, 3, 4, 10, 100] {
        assert_eq!(read_pages(&client, "desc", limit), all, "{limit}");
    }
    let newest = get(&client, "/s/items").is(200);
    assert_eq!(newest["data"], json!(all));
    for beyond in ["order=asc&after=item_99", "order=desc&after=item_1"] {
        let page = get(&client, &format!("/s/items?{beyond}")).is(200);
        let empty = json!({ "object": "list", "data": [], "first_id": null, "last_id": null, "has_more": false });
        assert_eq!(page, empty, "{beyond}");
    }
    server.stop();
}

/// A page of large items ends before its limit; the next page continues there, in both orders.
#[test]
fn large_items_are_paged_to_the_end() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let long = "x".repeat(900_000);
    for turn in 0..12 {
        let body = json!({ "request_id": turn.to_string(), "question_neutral": long, "answer_neutral": "!" });
        client.post("/s/turns", &body).wrote(201);
    }
    for order in ["asc", "desc"] {
        let (mut ids, mut after) = (Vec::new(), String::new());
        loop {
            let page = get(&client, &format!("/s/items?order={order}&limit=100{after}")).is(200);
            let data = page["data"].as_array().unwrap();
            ids.extend(
                data.iter()
                    .map(|item| item["id"].as_str().unwrap().to_owned()),
            );
            if page["has_more"] == false {
                break;
            }
            after = format!("&after={}", page["last_id"].as_str().unwrap());
        }
        if order == "desc" {
            ids.reverse();
        }
        let all: Vec<String> = (1..=24).map(|seq| format!("item_{seq}")).collect();
        assert_eq!(ids, all, "{order}");
    }
    server.stop();
}

#[test]
fn redacted_items_show_no_text() {
    let world = World::new();
    let server = world.serve();
    let turn = record_turn(&server);
    let client = server.client();
    let path = format!("/s/turns/{}/redact", turn["turn_id"].as_str().unwrap());
    client
        .post(&path, &json!({ "reason": "requested by the user" }))
        .wrote(200);
    let response = get(&client, "/s/items?order=asc");
    let data = response.is(200)["data"].as_array().unwrap().clone();
    assert_eq!(data.len(), 8);
    for item in &data[..7] {
        assert_eq!(
            (&item["type"], &item["content"]),
            (&json!("message"), &json!([]))
        );
    }
    assert_eq!(data[7]["role"], "system");
    for word in [
        "Which way",
        "Hm.",
        "I look",
        "left",
        "a wall",
        "too dark",
        "Noted",
        "Left",
    ] {
        assert!(!response.text.contains(word), "{word}: {}", response.text);
    }
    server.stop();
}

#[test]
fn foreign_conversations_look_absent() {
    let world = World::new();
    let admin = key(&world, &["--role", "admin"]);
    let server = world.serve();
    let admin = Caller::with_credentials(&server, &admin);
    let body = json!({ "request_id": "r", "question_neutral": "?" });
    admin
        .for_identity("ada")
        .post("/private/turns", &body)
        .wrote(201);
    for route in ["", "/items", "/items?order=asc", "/items?after=item_1"] {
        let get =
            |caller: &Caller, id: &str| caller.send("GET", &target(&format!("/{id}{route}")), None);
        get(&admin.for_identity("ada"), "private").is(200);
        let foreign = fails(
            &get(&admin.for_identity("bob"), "private"),
            404,
            "session_not_found",
        );
        let absent = fails(
            &get(&admin.for_identity("bob"), "missing"),
            404,
            "session_not_found",
        );
        assert_eq!(foreign.replace("private", "missing"), absent);
        fails(
            &get(&Caller::anonymous(&server), "private"),
            401,
            "unauthenticated",
        );
    }
    server.stop();
}

#[test]
fn invalid_requests_are_refused() {
    let world = World::new();
    let server = world.serve();
    record_turn(&server);
    let client = server.client();
    for path in [
        "/s?include=x",
        "/s/items?cursor=1",
        "/s/items?limit=0",
        "/s/items?limit=101",
        "/s/items?order=up",
        "/s/items?after=item_0",
        "/s/items?after=item_01",
        "/s/items?after=msg_1",
        "/s/items?after=item_3_0",
    ] {
        fails(&get(&client, path), 422, "invalid");
    }
    fails(&get(&client, "/s/other"), 404, "route_not_found");
    let response = client.send_without_body("DELETE", &target("/s"), "");
    fails(&response, 405, "method_not_allowed");
    server.stop();
}
