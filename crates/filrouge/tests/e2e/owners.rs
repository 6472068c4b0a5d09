//! A foreign id looks absent (promise P6): the same status, the same body apart from the id, the same headers.

use serde_json::{Value, json};

use crate::http::{Client, Response};
use crate::world::World;

/// The status, header names and body of a response, without the requested id.
fn comparable_parts(response: &Response, id: &str) -> (u16, Vec<String>, String) {
    let names = response.headers.iter().map(|(n, _)| n.clone()).collect();
    (response.status, names, response.text.replace(id, "ID"))
}

/// The reads of a session that name no turn.
const SESSION_READS: [&str; 11] = [
    "",
    "/items",
    "/items?order=desc",
    "/items?item_id=i",
    "/items?seqs=1-3",
    "/turns",
    "/turns?request_id=r",
    "/turns?status=finalized",
    "/context",
    "/context?last_turns=2",
    "/verify",
];

/// Sends every read and write that names a session, first [`SESSION_READS`].
///
/// Compared calls must use ids of one length, so that responses differ only in the id.
fn request_all(client: &Client, session: &str, turn: &str) -> Vec<Response> {
    let mut responses: Vec<Response> = SESSION_READS
        .iter()
        .map(|r| client.get(&format!("/{session}{r}")))
        .collect();
    let turn = format!("/{session}/turns/{turn}");
    responses.push(client.get(&turn));
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
        responses.push(client.post(&format!("{turn}/{call}"), &body));
    }
    responses
}

#[test]
fn foreign_sessions_look_absent() {
    let world = World::new();
    let server = world.serve();
    let (anonymous, ada) = (server.client(), server.client().for_identity("ada"));
    let body = json!({ "request_id": "r", "question_neutral": "secret", "answer_neutral": "secret", "items": [
        { "item_id": "i", "role": "user", "channel": "plan", "parts": [] }] });
    let turn = ada.post("/private/turns", &body).wrote(201);
    let turn = turn["turn_id"].as_str().unwrap();
    for viewer in [
        &anonymous,
        &anonymous.for_identity("bob"),
        &anonymous.for_identity("Ada"),
    ] {
        let foreign = request_all(viewer, "private", turn);
        let absent = request_all(viewer, "missing", turn);
        for (foreign, absent) in foreign.iter().zip(&absent) {
            assert_eq!(
                comparable_parts(foreign, "private"),
                comparable_parts(absent, "missing")
            );
            assert_eq!(foreign.status, 404, "{foreign:?}");
        }
        for list in ["", "?limit=500", "?identity_id=ada"] {
            let page = viewer.get_body(list);
            assert_eq!(page["data"], json!([]), "{list}");
        }
        let replace = json!({ "request_id": "n", "question_neutral": "?", "answer_neutral": "!" });
        let path = format!("/private/turns/{turn}/replace");
        let response = viewer.post(&path, &replace);
        assert!(
            !response.text.contains("secret") && response.status >= 400,
            "{response:?}"
        );
    }
    let private = ada.get_body("/private");
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
    let (ada, bob) = (
        server.client().for_identity("ada"),
        server.client().for_identity("bob"),
    );
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
    let foreign = request_all(&bob, "bobs", turn);
    let missing = request_all(&bob, "bobs", absent);
    let responses = foreign.iter().zip(&missing).skip(SESSION_READS.len());
    for (foreign, missing) in responses {
        assert_eq!(
            comparable_parts(foreign, turn),
            comparable_parts(missing, absent)
        );
        foreign.fails(404, "turn_not_found");
    }
    server.stop();
}

#[test]
fn anonymous_sessions_are_found_only_by_id() {
    let world = World::new();
    let server = world.serve();
    let (anonymous, ada) = (server.client(), server.client().for_identity("ada"));
    let body = json!({ "request_id": "r", "question_neutral": "?" });
    anonymous.post("/open/turns", &body).wrote(201);
    ada.post("/hers/turns", &body).wrote(201);
    let ids = |client: &Client| -> Vec<Value> {
        client
            .all("", 50)
            .iter()
            .map(|s| s["session_id"].clone())
            .collect()
    };
    assert_eq!(ids(&anonymous), ["open"]);
    assert_eq!(ids(&ada), ["hers"]);
    assert_eq!(ada.get_body("/open")["identity_id"], Value::Null);
    assert_eq!(
        world.json(&["sessions", "list"])["data"]
            .as_array()
            .unwrap()
            .len(),
        2,
        "the operator sees sessions of all owners"
    );

    let tenant = world.serve_with(&["--tenant", "other"]);
    for client in [tenant.client(), tenant.client().for_identity("ada")] {
        assert_eq!(client.all("", 50).len(), 0);
        client.get("/open").fails(404, "session_not_found");
        client.get("/hers").fails(404, "session_not_found");
    }
    let other_tenants_turn = tenant.client().post("/open/turns", &body).wrote(201);
    let turns = anonymous.all("/open/turns", 50);
    assert_ne!(other_tenants_turn["turn_id"], turns[0]["turn_id"]);
    let path = format!("/open/turns/{}", turns[0]["turn_id"].as_str().unwrap());
    tenant.client().get(&path).fails(404, "turn_not_found");
    tenant.stop();
    server.stop();
    world.verify();
}
