//! Ids of every kind work end to end, percent-encoded in paths; invalid ids are refused.

use serde_json::{Value, json};

use crate::world::World;

/// Percent-encodes an id for a path or query.
fn encode(id: &str) -> String {
    let keep = |b: u8| b.is_ascii_alphanumeric() || b"-_~".contains(&b);
    id.bytes()
        .map(|b| {
            if keep(b) {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

/// Runs `sessions show`; `--` precedes the id, which may look like an option.
fn show(world: &World, id: &str) -> Value {
    let text = world.ok(&["--json", "sessions", "show", "--", id]);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_id_works_end_to_end() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let long = "ö".repeat(128);
    let ids = [
        "a/b",
        "..",
        ".",
        "%2e%2e",
        "ü",
        "u\u{308}",
        "🧵",
        " ",
        "a b",
        "a+b",
        "?x=1",
        "#",
        "\\",
        "\"",
        "items",
        "turns",
        "A",
        "a",
        "../../etc/passwd",
        "{sid}",
        "*",
        "null",
        "0",
        "--json",
        "-h",
        &long,
    ];
    for id in ids {
        let path = format!("/{}", encode(id));
        let body = json!({ "request_id": id, "question_neutral": "?", "items": [
            { "item_id": id, "role": "user", "channel": "plan", "parts": [] }] });
        let turn = client.post(&format!("{path}/turns"), &body).wrote(201);
        assert_eq!(
            (&turn["session_id"], &turn["request_id"]),
            (&json!(id), &json!(id))
        );
        assert_eq!(
            turn["last_seq"], 2,
            "{id:?} shares a session with another id"
        );
        let turn = format!("{path}/turns/{}", turn["turn_id"].as_str().unwrap());
        client
            .post(
                &format!("{turn}/finalize"),
                &json!({ "request_id": id, "answer_neutral": "!" }),
            )
            .wrote(200);
        assert_eq!(client.get_body(&path)["session_id"], id);
        assert_eq!(
            client.get_body(&format!("{path}/items"))["data"][1]["item_id"],
            id
        );
        let by_request = client.get_body(&format!("{path}/turns?request_id={}", encode(id)));
        assert_eq!(by_request["data"][0]["request_id"], id);
        assert_eq!(
            client.get_body(&format!("{path}/context"))["report"]["kept"],
            2
        );
        assert_eq!(
            client.get_body(&format!("{path}/verify"))["status"],
            "intact"
        );
        assert_eq!(
            client.post("", &json!({ "session_id": id })).wrote(200)["turn_count"],
            1
        );
        assert_eq!(show(&world, id)["session"]["session_id"], id);
    }
    assert_eq!(client.all("", 500).len(), ids.len());
    server.stop();
    assert_eq!(
        world.json(&["sessions", "list", "--limit", "500"])["data"]
            .as_array()
            .unwrap()
            .len(),
        ids.len()
    );
    world.verify();
}

#[test]
fn identities_follow_the_rules_of_ids() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let create_session = |identity: &[u8]| {
        let head = b"POST /api/v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\nfilrouge-identity: ";
        client.send_bytes(&[head, identity, b"\r\n\r\n"].concat())
    };
    let created = create_session("żółw".as_bytes()).wrote(201);
    assert_eq!(created["identity_id"], "żółw");
    create_session(&[b'a'; 256]).wrote(201);
    create_session(&[b'a'; 257]).fails(422, "invalid");
    create_session(b"\xff\xfe").fails(422, "invalid");
    create_session(b"").fails(422, "invalid");
    server.stop();
}

#[test]
fn invalid_ids_are_refused() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let (longest, too_long) = ("x".repeat(256), "x".repeat(257));
    let start = |request: &str, item: &str| {
        json!({ "request_id": request, "question_neutral": "?", "items": [
            { "item_id": item, "role": "user", "channel": "plan", "parts": [] }] })
    };
    client
        .post(&format!("/{longest}/turns"), &start(&longest, &longest))
        .wrote(201);
    for bad in [
        "",
        too_long.as_str(),
        "a\0b",
        "a\nb",
        "\u{7f}",
        "\u{85}",
        "\u{1b}[2J",
    ] {
        if !bad.is_empty() {
            for path in ["", "/items", "/turns", "/context", "/verify"] {
                client
                    .get(&format!("/{}{path}", encode(bad)))
                    .fails(422, "invalid");
            }
            client
                .post(&format!("/{}/turns", encode(bad)), &start("r", "i"))
                .fails(422, "invalid");
        }
        client
            .post("", &json!({ "session_id": bad }))
            .fails(422, "invalid");
        client
            .post("", &json!({ "project_id": bad }))
            .fails(422, "invalid");
        client
            .post("", &json!({ "parent_session_id": bad }))
            .fails(422, "invalid");
        client
            .post("/s/turns", &start(bad, "i"))
            .fails(422, "invalid");
        client
            .post("/s/turns", &start("r", bad))
            .fails(422, "invalid");
        client
            .get(&format!("?project_id={}", encode(bad)))
            .fails(422, "invalid");
    }
    client.get("/%ff%fe").fails(422, "invalid");
    client.get("//turns").fails(422, "invalid");
    client.get("/s").fails(404, "session_not_found");
    assert_eq!(world.run(&["sessions", "show", "a\nb"]).code, Some(2));
    server.stop();
}
