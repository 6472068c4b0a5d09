//! The audit: refused queries, calls with unusual spellings, and a response that breaks midway.

use base64::Engine as _;
use rand::Rng as _;
use serde_json::json;

use crate::audit::{append, record, start};
use crate::audit_rows::lines;
use crate::http::text_item;
use crate::world::World;

#[test]
fn invalid_queries_are_refused() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record(&client);
    for query in [
        "cursor=x",
        "cursor=4711",
        "cursor=1-0-0",
        "cursor=1.7",
        "limit=0",
        "limit=501",
        "format=xml",
        "since=now",
        "identity_id=",
        "color=red",
        "include_redacted=true",
    ] {
        client
            .get(&format!("/api/v1/audit?{query}"))
            .fails(422, "invalid");
        let streamed = client.get(&format!("/api/v1/audit?{query}&format=csv"));
        streamed.fails(422, "invalid");
    }
    for format in ["json", "csv", "jsonl"] {
        let absent = client.get(&format!("/api/v1/audit?session_id=absent&format={format}"));
        absent.fails(404, "session_not_found");
    }
    for wrong in [
        &["audit", "--since", "tomorrow"][..],
        &["audit", "--session", ""],
        &["audit", "--format", "csv", "--json"],
    ] {
        assert_eq!(world.run(wrong).code, Some(2), "{wrong:?}");
    }
    assert_eq!(world.run(&["audit", "--session", "absent"]).code, Some(1));
}

#[test]
fn an_invalid_time_gets_a_hint_with_the_expected_format() {
    let world = World::new();
    let server = world.serve();
    for query in [
        "since=yesterday",
        "until=2027-01-31",
        "since=12h&format=csv",
    ] {
        let response = server.client().get(&format!("/api/v1/audit?{query}"));
        let problem = response.fails(422, "invalid");
        let hint = problem["hint"].as_str().unwrap();
        assert!(hint.contains("2027-01-31T00:00:00Z"), "{query}: {hint}");
    }
    server.stop();
}

#[test]
fn escaped_member_names_cannot_hide_a_call_from_the_audit() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = start(&client, "s", "r", "?");
    let item =
        |parts: &str| format!(r#"{{"role":"assistant","channel":"tool_call","parts":[{parts}]}}"#);
    for parts in [
        r#"{"type":"tool\u005fcall","call_id":"c","name":"rm","args":{}}"#,
        r#"{"t\u0079pe":"tool_call","call_id":"c","name":"rm","args":{}}"#,
        r#"{"type":"tool_call","call_id":"c","n\u0061me":"rm","args":{}}"#,
    ] {
        let items = format!(r#""items":[{}]"#, item(parts));
        for (path, body) in [
            (format!("{turn}/items"), format!("{{{items}}}")),
            (
                "/s/turns".to_owned(),
                format!(r#"{{"request_id":"r2","question_neutral":"?",{items}}}"#),
            ),
        ] {
            let problem = client.post_text(&path, &body).fails(422, "invalid");
            let hint = problem["hint"].as_str().unwrap();
            assert!(hint.contains("spell them as they are read"), "{hint}");
        }
    }
    // Escapes are accepted in values, and in members that filrouge does not look up by name.
    let escaped =
        r#"{"type":"tool_call","call_id":"c","name":"r\u006d","args":{"\u0061":1},"\u00e9":2}"#;
    let items = format!(r#"{{"items":[{}]}}"#, item(escaped));
    client
        .post_text(&format!("{turn}/items"), &items)
        .wrote(201);
    server.stop();
    assert_eq!(
        lines(&world.ok(&["audit", "--json", "--tool", "rm"])).len(),
        1
    );
}

#[test]
fn an_incomplete_call_is_shown_with_its_arguments() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = start(&client, "s", "r", "?");
    let call = json!({ "type": "tool_call_partial", "call_id": "c", "name": "read_file", "args": "{\"path\":\"sr" });
    let image = json!({ "type": "image_url", "url": "u" });
    append(
        &client,
        &turn,
        json!([{ "role": "assistant", "channel": "partial", "parts": [call, image] }]),
    );
    server.stop();
    let text = world.ok(&["audit"]);
    assert!(
        text.contains("s:2  assistant  partial  read_file {\"path\":\"sr\n"),
        "{text}"
    );
}

#[test]
fn a_response_that_fails_midway_has_no_last_chunk() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    let turn = start(&client, "s", "r", "?");
    for n in 0..6 {
        // Random bytes do not become smaller by compression.
        let mut noise = vec![0; 2 << 20];
        rand::rng().fill(noise.as_mut_slice());
        let large = base64::engine::general_purpose::STANDARD.encode(noise);
        let item = text_item(&format!("i{n}"), "assistant", "thought", &large);
        append(&client, &turn, json!([item]));
    }
    // The audit of one session is refused where the session is damaged.
    let complete = client.get("/api/v1/audit?session_id=s&format=jsonl");
    assert_eq!(lines(&complete.text).len(), 7);
    let request =
        b"GET /api/v1/audit?session_id=s&format=jsonl HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    // A complete chunked response ends with an empty chunk.
    let is_complete = |text: &str| text.ends_with("0\r\n\r\n");
    assert!(is_complete(&client.send_bytes(request).text));
    server.stop();
    // Damages the newest contents, which are at the end of the file.
    let mut bytes = std::fs::read(world.store()).unwrap();
    let at = bytes.len() - (500 << 10);
    bytes[at] ^= 1;
    std::fs::write(world.store(), bytes).unwrap();

    let server = world.serve();
    let response = server.client().send_bytes(request);
    assert_eq!(response.status, 200);
    assert!(
        response.text.len() > 8 << 20,
        "{} bytes",
        response.text.len()
    );
    assert!(
        !is_complete(&response.text),
        "a broken response ends like a complete one"
    );
    let page = server
        .client()
        .get("/api/v1/audit?session_id=s&cursor=0-7-0");
    page.fails(500, "integrity_error");
    server.stop();
    let output = world.run(&["audit", "--json", "--session", "s"]);
    assert_eq!(output.code, Some(1));
    assert!(
        output.stderr.contains("integrity_error"),
        "{}",
        output.stderr
    );
}
