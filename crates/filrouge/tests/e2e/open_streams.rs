//! Credentials that become invalid end the streams that were opened with them (DESIGN §8).

use std::time::Instant;

use serde_json::json;

use crate::caller::{Caller, DEADLINE, key, key_id, within_five_seconds};
use crate::issuer::{OLD, claims_with, now};
use crate::jwt::serve_file;
use crate::tail_client::Tail;
use crate::world::{Server, World};

fn bearer(credentials: &str) -> String {
    format!("Bearer {credentials}")
}

/// Opens a tail of the session `s`, and reads its first item.
fn tail(server: &Server, headers: &[(&str, &str)]) -> Tail {
    let mut tail = Tail::open(server.origin(), "/s/items?after=0", headers);
    assert_eq!(tail.status(), 200, "{}", tail.head);
    assert_eq!(tail.take(1)[0].id, Some(1));
    tail
}

/// Reads a tail to its end, which must come within the promised time.
#[track_caller]
fn assert_ends(mut tail: Tail) {
    let began = Instant::now();
    while tail.next().is_some() {}
    let took = began.elapsed();
    assert!(took < DEADLINE, "the stream ended after {took:?}");
}

#[test]
fn a_stream_ends_when_its_key_is_revoked_and_others_continue() {
    let world = World::new();
    let revoked = key(&world, &["--role", "service"]);
    let other = key(&world, &["--role", "auditor"]);
    let server = world.serve();
    let caller = Caller::with_credentials(&server, &revoked);
    let turn = json!({ "request_id": "r", "question_neutral": "?" });
    caller.post("/s/turns", &turn).wrote(201);
    let open = tail(&server, &[("authorization", &bearer(&revoked))]);
    let mut kept = tail(&server, &[("authorization", &bearer(&other))]);
    world.ok(&["keys", "revoke", key_id(&revoked)]);
    assert_ends(open);
    let third = Caller::with_credentials(&server, &key(&world, &["--role", "service"]));
    let turn = json!({ "request_id": "q", "question_neutral": "?" });
    within_five_seconds("the new key is accepted", || {
        third.post("/s/turns", &turn).status == 201
    });
    assert_eq!(kept.take(1)[0].id, Some(2));
    server.stop();
}

#[test]
fn a_stream_without_a_key_ends_when_the_first_key_is_created() {
    let world = World::new();
    let server = world.serve();
    let turn = json!({ "request_id": "r", "question_neutral": "?" });
    Caller::anonymous(&server)
        .post("/s/turns", &turn)
        .wrote(201);
    let open = tail(&server, &[]);
    key(&world, &["--role", "service"]);
    assert_ends(open);
    server.stop();
}

#[test]
fn a_stream_ends_when_its_token_expires() {
    let world = World::new();
    let server = serve_file(&world, &[OLD], "leeway_s = 0");
    let token = OLD.sign(&claims_with(json!({ "exp": now() + 3 })));
    let turn = json!({ "request_id": "r", "question_neutral": "?" });
    Caller::with_credentials(&server, &token)
        .post("/s/turns", &turn)
        .wrote(201);
    let open = tail(&server, &[("authorization", &bearer(&token))]);
    assert_ends(open);
    Caller::with_credentials(&server, &token)
        .get("/s")
        .fails(401, "unauthenticated");
    server.stop();
}
