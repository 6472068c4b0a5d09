//! A foreign id looks absent (promise P6): the same status, the same body apart from the id, the same headers.

use serde_json::{Value, json};

use crate::http::{Client, Reply};
use crate::world::World;

/// An answer without the requested id and without the date.
fn shape(reply: &Reply, id: &str) -> (u16, Vec<String>, String) {
    let names = reply.headers.iter().map(|(n, _)| n.clone()).collect();
    (reply.status, names, reply.text.replace(id, "ID"))
}

/// Sends every read and write that names a session; all ids have the same length.
fn ask_all(client: &Client, session: &str, turn: &str) -> Vec<Reply> {
    let reads = [
        "",
        "/items",
        "/turns",
        "/turns?request_id=r",
        "/turns?status=finalized",
        "/context",
        "/context?last_turns=2",
        "/verify",
    ];
    let mut replies: Vec<Reply> = reads
        .iter()
        .map(|r| client.get(&format!("/{session}{r}")))
        .collect();
    let turn = format!("/{session}/turns/{turn}");
    replies.push(client.get(&turn));
    let item =
        json!({ "items": [{ "item_id": "i", "role": "user", "channel": "plan", "parts": [] }] });
    for (call, body) in [
        ("items", item),
        ("finalize", json!({ "answer_neutral": "!" })),
        (
            "finalize",
            json!({ "request_id": "r", "answer_neutral": "!" }),
        ),
        ("fail", json!({ "error": { "code": "c" } })),
        ("cancel", json!({})),
    ] {
        replies.push(client.post(&format!("{turn}/{call}"), &body));
    }
    replies
}

#[test]
fn foreign_sessions_look_absent() {
    let world = World::new();
    let server = world.serve();
    let (anyone, ada) = (server.client(), server.client().of("ada"));
    let body = json!({ "request_id": "r", "question_neutral": "secret", "answer_neutral": "secret", "items": [
        { "item_id": "i", "role": "user", "channel": "plan", "parts": [] }] });
    let turn = ada.post("/private/turns", &body).wrote(201);
    let turn = turn["turn_id"].as_str().unwrap();
    for viewer in [&anyone, &anyone.of("bob"), &anyone.of("Ada")] {
        let foreign = ask_all(viewer, "private", turn);
        let absent = ask_all(viewer, "missing", turn);
        for (foreign, absent) in foreign.iter().zip(&absent) {
            assert_eq!(shape(foreign, "private"), shape(absent, "missing"));
            assert_eq!(foreign.status, 404, "{foreign:?}");
        }
        for list in ["", "?limit=500", "?identity_id=ada"] {
            let page = viewer.see(list);
            assert_eq!(page["data"], json!([]), "{list}");
        }
        let replace = json!({ "request_id": "n", "question_neutral": "?", "answer_neutral": "!" });
        let path = format!("/private/turns/{turn}/replace");
        let reply = viewer.post(&path, &replace);
        assert!(
            !reply.text.contains("secret") && reply.status >= 400,
            "{reply:?}"
        );
    }
    let private = ada.see("/private");
    assert_eq!(
        (&private["last_seq"], &private["turn_count"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(ada.all("", 50).len(), 1);
    server.stop();
    world.verify();
}

#[test]
fn a_foreign_turn_looks_absent_in_ones_own_session() {
    let world = World::new();
    let server = world.serve();
    let (ada, bob) = (server.client().of("ada"), server.client().of("bob"));
    let body = json!({ "request_id": "r", "question_neutral": "?" });
    let turn = ada.post("/private/turns", &body).wrote(201);
    let turn = turn["turn_id"].as_str().unwrap();
    let absent = "11111111-1111-8111-8111-111111111111";
    bob.post("/bobs", &json!({}))
        .fails(405, "method_not_allowed");
    bob.post("", &json!({ "session_id": "bobs" })).wrote(201);
    bob.post(
        "/bobs/turns",
        &json!({ "request_id": "x", "question_neutral": "?" }),
    )
    .wrote(201);
    let foreign = ask_all(&bob, "bobs", turn);
    let missing = ask_all(&bob, "bobs", absent);
    for (foreign, missing) in foreign.iter().zip(&missing).skip(8) {
        assert_eq!(shape(foreign, turn), shape(missing, absent));
        foreign.fails(404, "turn_not_found");
    }
    server.stop();
}

#[test]
fn anonymous_sessions_are_found_only_by_id() {
    let world = World::new();
    let server = world.serve();
    let (anyone, ada) = (server.client(), server.client().of("ada"));
    let body = json!({ "request_id": "r", "question_neutral": "?" });
    anyone.post("/open/turns", &body).wrote(201);
    ada.post("/hers/turns", &body).wrote(201);
    let ids = |client: &Client| -> Vec<Value> {
        client
            .all("", 50)
            .iter()
            .map(|s| s["session_id"].clone())
            .collect()
    };
    assert_eq!(ids(&anyone), ["open"]);
    assert_eq!(ids(&ada), ["hers"]);
    assert_eq!(ada.see("/open")["identity_id"], Value::Null);
    assert_eq!(
        world.json(&["sessions", "list"])["data"]
            .as_array()
            .unwrap()
            .len(),
        2,
        "the operator sees all"
    );

    let tenant = world.serve_with(&["--tenant", "other"]);
    for client in [tenant.client(), tenant.client().of("ada")] {
        assert_eq!(client.all("", 50).len(), 0);
        client.get("/open").fails(404, "session_not_found");
        client.get("/hers").fails(404, "session_not_found");
    }
    let theirs = tenant.client().post("/open/turns", &body).wrote(201);
    let mine = anyone.all("/open/turns", 50);
    assert_ne!(theirs["turn_id"], mine[0]["turn_id"]);
    let path = format!("/open/turns/{}", mine[0]["turn_id"].as_str().unwrap());
    tenant.client().get(&path).fails(404, "turn_not_found");
    tenant.stop();
    server.stop();
    world.verify();
}
