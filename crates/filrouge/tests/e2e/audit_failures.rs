//! Refused and interrupted answers of the audit.

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
fn an_invalid_time_gets_a_hint_with_the_form() {
    let world = World::new();
    let server = world.serve();
    for query in [
        "since=yesterday",
        "until=2027-01-31",
        "since=12h&format=csv",
    ] {
        let reply = server.client().get(&format!("/api/v1/audit?{query}"));
        let problem = reply.fails(422, "invalid");
        let hint = problem["hint"].as_str().unwrap();
        assert!(hint.contains("2027-01-31T00:00:00Z"), "{query}: {hint}");
    }
    server.stop();
}

#[test]
fn no_spelling_hides_a_call_from_the_audit() {
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
    let call = json!({ "type": "tool_call_partial", "call_id": "c", "name": "look", "args": "{\"where\":\"le" });
    let image = json!({ "type": "image_url", "url": "u" });
    append(
        &client,
        &turn,
        json!([{ "role": "assistant", "channel": "partial", "parts": [call, image] }]),
    );
    server.stop();
    let text = world.ok(&["audit"]);
    assert!(
        text.contains("s:2  assistant  partial  look {\"where\":\"le\n"),
        "{text}"
    );
}

#[test]
fn an_answer_that_fails_midway_is_cut_off() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    let turn = start(&client, "s", "r", "?");
    for n in 0..6 {
        let mut noise = vec![0; 2 << 20];
        rand::rng().fill(noise.as_mut_slice());
        let large = base64::engine::general_purpose::STANDARD.encode(noise);
        let item = text_item(&format!("i{n}"), "assistant", "thought", &large);
        append(&client, &turn, json!([item]));
    }
    let whole = client.get("/api/v1/audit?format=jsonl");
    assert_eq!(lines(&whole.text).len(), 7);
    let request =
        b"GET /api/v1/audit?format=jsonl HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let ended = |text: &str| text.ends_with("0\r\n\r\n");
    assert!(ended(&client.raw(request).text));
    server.stop();
    // The newest contents are at the end of the file.
    let mut bytes = std::fs::read(world.store()).unwrap();
    let at = bytes.len() - (500 << 10);
    bytes[at] ^= 1;
    std::fs::write(world.store(), bytes).unwrap();

    let server = world.serve();
    let reply = server.client().raw(request);
    assert_eq!(reply.status, 200);
    assert!(reply.text.len() > 8 << 20, "{} bytes", reply.text.len());
    assert!(!ended(&reply.text), "the end of an answer is written");
    let page = server
        .client()
        .get("/api/v1/audit?session_id=s&cursor=0-7-0");
    page.fails(500, "integrity_error");
    server.stop();
    let done = world.run(&["audit", "--json"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("integrity_error"), "{}", done.stderr);
}
