//! Refused requests and their errors.

mod bounds;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::http::{Client, Response};
use crate::world::World;

const JSON: &str = "content-type: application/json\r\n";

/// Posts any bytes with the given header lines.
fn post_bytes(client: &Client, path: &str, headers: &str, body: &[u8]) -> Response {
    let length = body.len();
    let head = format!(
        "POST /api/v1/sessions{path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    client.send_bytes(&[head.as_bytes(), body].concat())
}

/// Creates an open turn; returns its path.
fn open_turn(client: &Client) -> String {
    let body = json!({ "request_id": "r", "question_neutral": "?" });
    let turn = client.post("/s/turns", &body).wrote(201);
    format!("/s/turns/{}", turn["turn_id"].as_str().unwrap())
}

#[test]
fn unreadable_requests_get_400() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for body in [
        "{",
        "[1,",
        "nul",
        "{\"request_id\":\"r\",}",
        "{} {}",
        "",
        "{\"request_id\":\"\n\"}",
        "{\"a\":01}",
    ] {
        client.post_text("/s/turns", body).fails(400, "bad_request");
    }
    let not_utf8 = b"{\"request_id\":\"r\",\"question_neutral\":\"\xff\xfe\"}";
    post_bytes(&client, "/s/turns", JSON, not_utf8).fails(400, "bad_request");
    client.get("/s").fails(404, "session_not_found");
    server.stop();
}

#[test]
fn invalid_requests_get_422() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = open_turn(&client);
    for body in [
        json!({}),
        json!([]),
        json!(["r1", "Why?"]),
        json!(null),
        json!({ "request_id": "x" }),
        json!({ "request_id": 1, "question_neutral": "?" }),
        json!({ "request_id": "", "question_neutral": "?" }),
        json!({ "request_id": "x", "question_neutral": 1 }),
        json!({ "request_id": "x", "question_neutral": "" }),
        json!({ "request_id": "x", "question_neutral": " ", "question_translated": "" }),
        json!({ "request_id": "x", "question_neutral": "", "items": [
            { "role": "assistant", "channel": "thought", "parts": [{ "type": "text", "text": "t" }] }] }),
        json!({ "request_id": "x", "question_neutral": "?", "items": [
            { "role": "user", "channel": "question", "parts": [{ "type": "txt", "text": "t" }] }] }),
        json!({ "request_id": "x", "question_neutral": "?", "color": "red" }),
        json!({ "request_id": "x", "question_neutral": "?", "metadata": [] }),
        json!({ "request_id": "x", "question_neutral": "?", "runtime_context": "t" }),
        json!({ "request_id": "x", "question_neutral": "?", "pipeline_name": "a\u{0}b" }),
        json!({ "request_id": "x", "question_neutral": "?", "items": {} }),
        json!({ "request_id": "x", "question_neutral": "?", "items": [{}] }),
    ] {
        client.post("/s/turns", &body).fails(422, "invalid");
    }
    let image = json!({ "role": "user", "channel": "question",
        "parts": [{ "type": "image_url", "url": "https://example.org/a.png" }, { "type": "acme_mark" }] });
    let body = json!({ "request_id": "image", "question_neutral": "", "items": [image], "answer_neutral": "a" });
    client.post("/s/turns", &body).wrote(201);
    let text = json!([{ "type": "text", "text": "t" }]);
    for item in [
        json!({ "role": "user", "channel": "plan" }),
        json!({ "role": "wizard", "channel": "plan", "parts": text }),
        json!({ "role": "user", "channel": "", "parts": text }),
        json!({ "role": "user", "channel": "c".repeat(65), "parts": text }),
        json!({ "role": "user", "channel": "plan", "variant": "old", "parts": text }),
        json!({ "role": "user", "channel": "plan", "parts": "t" }),
        json!({ "role": "user", "channel": "plan", "parts": {} }),
        json!({ "role": "user", "channel": "plan", "parts": null }),
        json!({ "role": "user", "channel": "plan", "parts": ["t"] }),
        json!({ "role": "user", "channel": "plan", "parts": [["text"]] }),
        json!(["i", "user", "plan", "neutral", text]),
        json!({ "role": "user", "channel": "plan", "parts": [{ "text": "t" }] }),
        json!({ "role": "user", "channel": "plan", "parts": [{ "type": "" }] }),
        json!({ "role": "user", "channel": "plan", "parts": [{ "type": 1 }] }),
        json!({ "role": "user", "channel": "plan", "parts": text, "metadata": "m" }),
        json!({ "role": "user", "channel": "plan", "parts": text, "usage": [1] }),
        json!({ "role": "user", "channel": "plan", "parts": text, "occurred_at": "yesterday" }),
        json!({ "role": "user", "channel": "plan", "parts": text, "item_id": "a\u{7f}" }),
        json!({ "role": "user", "channel": "plan", "parts": text, "seq": 7 }),
    ] {
        let body = json!({ "items": [item] });
        client
            .post(&format!("{turn}/items"), &body)
            .fails(422, "invalid");
    }
    for (path, body) in [
        (String::new(), json!({ "sessionid": "x" })),
        (String::new(), json!({ "session_id": "x", "metadata": 1 })),
        (format!("{turn}/items"), json!({ "items": [], "x": 1 })),
        (
            format!("{turn}/items"),
            json!({ "items": [], "expected_seq": -1 }),
        ),
        (format!("{turn}/finalize"), json!({ "answer": "x" })),
        (
            format!("{turn}/finalize"),
            json!({ "answer_neutral": "x", "metadata": "m" }),
        ),
        (
            format!("{turn}/fail"),
            json!({ "error": { "code": "c", "x": 1 } }),
        ),
        (format!("{turn}/fail"), json!({ "error": ["c"] })),
        (format!("{turn}/cancel"), json!({ "x": 1 })),
        (format!("{turn}/cancel"), json!(["shown"])),
        (format!("{turn}/replace"), json!({ "x": 1 })),
    ] {
        client.post(&path, &body).fails(422, "invalid");
    }
    let empty = json!({ "items": [{ "role": "user", "channel": "plan", "parts": [] }] });
    client.post(&format!("{turn}/items"), &empty).wrote(201);
    assert_eq!(client.get_body("/s")["last_seq"], 5);
    server.stop();
    world.verify();
}

#[test]
fn parameters_are_checked() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = open_turn(&client);
    for list in ["", "/s/turns", "/s/items"] {
        for bad in [
            "limit=0",
            "limit=501",
            "limit=-1",
            "limit=ten",
            "limit=",
            "limit=99999999999999999999",
            "limit=5&limit=6",
            "cursor=x",
            "cursor=-1",
            "cursor=",
            "cursor=1.5",
            "after=-1",
            "order=up",
        ] {
            client.get(&format!("{list}?{bad}")).fails(422, "invalid");
        }
        client.get_body(&format!("{list}?limit=500"));
        let largest = client.get(&format!("{list}?cursor=9999999999999999999"));
        // The cursor of a list of sessions names one of them.
        if list.is_empty() {
            largest.fails(422, "invalid");
        } else {
            largest.is(200);
        }
    }
    for bad in [
        "?status=done",
        "?since=monday",
        "?project_id=",
        "?identity_id=%00",
    ] {
        client.get(bad).fails(422, "invalid");
    }
    client.get("/s/turns?status=done").fails(422, "invalid");
    client.get("/s/turns?request_id=").fails(422, "invalid");
    for path in ["/s", "/s/verify", "/s/turns"] {
        client.get(&format!("{path}?wait=5")).fails(422, "invalid");
    }
    let body = json!({ "request_id": "q", "question_neutral": "?" });
    client
        .post("/s/turns?dry_run=true", &body)
        .fails(422, "invalid");
    client
        .post("?dry_run=true", &json!({ "session_id": "dry" }))
        .fails(422, "invalid");
    for call in ["items", "finalize", "fail", "cancel", "replace"] {
        client
            .post(&format!("{turn}/{call}?dry_run=true"), &json!({}))
            .fails(422, "invalid");
    }
    client.get("/dry").fails(404, "session_not_found");
    assert_eq!(client.get_body("/s")["last_seq"], 1);
    server.stop();
}

#[test]
fn only_json_is_accepted() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let body = json!({ "request_id": "r", "question_neutral": "?" }).to_string();
    for header in [
        "",
        "content-type: text/plain\r\n",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: application/jsonp\r\n",
        "content-type: application/merge-patch+json\r\n",
        "content-type: application/json; charset=latin1\r\n",
    ] {
        let problem = post_bytes(&client, "/s/turns", header, body.as_bytes());
        assert!(problem.fails(415, "unsupported_media_type")["hint"].is_string());
        post_bytes(&client, "", header, b"{}").fails(415, "unsupported_media_type");
    }
    let valid = "content-type: Application/JSON; charset=utf-8\r\n";
    post_bytes(&client, "/s/turns", valid, body.as_bytes()).wrote(201);
    let patch = r#"{"title":"T"}"#;
    let patched = client.send_bytes(
        format!(
            "PATCH /api/v1/sessions/s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/merge-patch+json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{patch}",
            patch.len()
        )
        .as_bytes(),
    );
    assert_eq!(patched.wrote(200)["title"], "T");
    server.stop();
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for headers in [
        "host: example.org\r\n",
        "host: localhost.example.org\r\n",
        "host: 10.0.0.1:7717\r\n",
        "origin: https://example.org\r\n",
        "origin: null\r\n",
        "host: localhost\r\norigin: http://127.0.0.1.example.org\r\n",
    ] {
        for target in ["/api/v1/sessions", "/healthz", "/nowhere"] {
            client
                .send_without_body("GET", target, headers)
                .fails(403, "forbidden");
        }
    }
    for headers in [
        "",
        "host: 127.0.0.1\r\n",
        "host: [::1]:80\r\n",
        "origin: http://localhost:3000\r\n",
    ] {
        assert_eq!(
            client
                .send_without_body("GET", "/api/v1/sessions", headers)
                .status,
            200,
            "{headers}"
        );
    }
    server.stop();
}

#[test]
fn unknown_routes_and_methods_are_refused() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for target in [
        "/nothing",
        "/api",
        "/api/v1",
        "/api/v2/sessions",
        "/api/v1/sessions/s/nothing",
        "/v1/x",
    ] {
        let problem = client
            .send_without_body("GET", target, "")
            .fails(404, "route_not_found");
        assert!(problem["hint"].as_str().unwrap().contains("/openapi.json"));
    }
    for (method, target) in [
        ("PUT", "/api/v1/sessions"),
        ("DELETE", "/api/v1/sessions/s/items"),
        ("POST", "/api/v1/sessions/s/verify"),
        ("GET", "/api/v1/sessions/s/turns/t/finalize"),
        ("POST", "/healthz"),
        ("BREW", "/api/v1/sessions"),
    ] {
        let response = client.send_without_body(method, target, "content-length: 0\r\n");
        let problem = response.fails(405, "method_not_allowed");
        let hint = problem["hint"].as_str().unwrap().to_owned();
        let hinted = hint.strip_prefix("known methods: ").unwrap().split(", ");
        let allowed = response.header("allow").unwrap().split(',').map(str::trim);
        let (hinted, allowed): (BTreeSet<_>, BTreeSet<_>) = (hinted.collect(), allowed.collect());
        assert_eq!(hinted, allowed, "{method} {target}");
    }
    server.stop();
}

#[test]
fn an_error_that_a_retry_does_not_solve_has_no_hint_and_no_retry_after() {
    let world = World::new();
    let server = world.serve_with(&["--store", "memory:"]);
    let client = server.client();
    let response = client.get("/none");
    let body = response.fails(404, "session_not_found");
    assert_eq!(body["hint"], Value::Null);
    assert_eq!(response.header("retry-after"), None);
    server.stop();
}

#[test]
fn a_fence_that_was_never_granted_is_refused() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let body = json!({ "request_id": "r", "question_neutral": "?" }).to_string();
    let fenced = format!("{JSON}filrouge-fence: 7\r\n");
    let problem = post_bytes(&client, "/s/turns", &fenced, body.as_bytes());
    let problem = problem.fails(409, "stale_fence");
    assert!(problem["hint"].as_str().unwrap().contains("take a lease"));
    client.get("/s").fails(404, "session_not_found");
    for wrong in ["seven", "-7", "7.0", "7\r\nfilrouge-fence: 7"] {
        let wrong = format!("{JSON}filrouge-fence: {wrong}\r\n");
        post_bytes(&client, "/s/turns", &wrong, body.as_bytes()).fails(422, "invalid");
    }
    // Reads and creations ignore the fence.
    client
        .send_without_body("GET", "/api/v1/sessions", "filrouge-fence: 7\r\n")
        .is(200);
    post_bytes(&client, "", &fenced, b"{}").is(201);
    server.stop();
}

#[test]
fn a_refusal_names_the_invalid_member() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let items = format!("{}/items", open_turn(&client));
    let good = json!({ "role": "user", "channel": "plan", "parts": [] });
    let robot = json!({ "role": "robot", "channel": "plan", "parts": [] });
    let problem = client
        .post(&items, &json!({ "items": [good, good, robot] }))
        .fails(422, "invalid");
    assert_eq!(problem["detail"], r#"items[2].role: unknown role "robot""#);
    assert_eq!(problem["hint"], "known: user, assistant, tool, system");
    let problem = client
        .post("", &json!({ "session_id": 5 }))
        .fails(422, "invalid");
    assert_eq!(
        problem["detail"],
        "session_id: invalid type: integer `5`, expected a string"
    );
    for (query, detail) in [
        ("?limit=abc", "limit: no whole number from 1 to 500"),
        ("?limit=0", "limit: no whole number from 1 to 500"),
        (
            "/s/events?cursor=x",
            "cursor: no cursor; pass a next_cursor unchanged, or leave it out for the first page",
        ),
    ] {
        let problem = client.get(query).fails(422, "invalid");
        assert_eq!(problem["detail"], detail);
    }
    server.stop();
}
