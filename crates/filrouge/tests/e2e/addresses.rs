//! Network addresses in metadata: hashed before they are stored, on every path, in the hot store and the ledger.

use filrouge_testbed::Redis;
use serde_json::{Value, json};

use crate::hot::{
    ephemeral, open_turn_json, redis_content, turn_path, wait_for_copies, with_redis,
};
use crate::http::{Client, Response, text_item};
use crate::world::{Server, World};

/// An address that no stored data may contain.
const ADDRESS: &str = "203.0.113.217";

fn with_member(mut body: Value, member: &str, value: Value) -> Value {
    body[member] = value;
    body
}

/// A caller's item with the address in its metadata, twice.
fn item(id: &str) -> Value {
    let metadata =
        json!({ "latency_ms": 7, "clientIp": ADDRESS, "hops": [{ "X-Forwarded-For": [ADDRESS] }] });
    with_member(
        text_item(id, "assistant", "thought", "t"),
        "metadata",
        metadata,
    )
}

/// Sends the address through every route of a session, each request twice: the second one must be a replay.
fn send_through_all_routes(client: &Client, session: &str) {
    let send_twice = |send: &dyn Fn() -> Response| {
        let first = send();
        assert!(first.status < 300, "{first:?}");
        let again = send();
        assert_eq!(again.status, 200, "{again:?}");
        first.body()
    };
    let nested = json!({ "kept": 1, "client": { "remoteAddr": ADDRESS } });
    let create = json!({ "session_id": session, "metadata": nested });
    send_twice(&|| client.post("", &create));
    let patch =
        json!({ "metadata": { "net": { "ip": ADDRESS }, "xRealIp": ADDRESS, "kept": null } });
    patch_twice(client, session, &patch);
    let event = json!({ "key": "k", "kind": "call", "detail": { "from": nested } });
    send_twice(&|| client.post(&format!("/{session}/events"), &event));

    let start = with_member(open_turn_json("r1", "One?"), "items", json!([item("i1")]));
    let start = with_member(start, "metadata", nested.clone());
    let start = with_member(
        start,
        "runtime_context",
        json!({ "locale": { "ip": ADDRESS }, "ip_address": ADDRESS }),
    );
    let turn = send_twice(&|| client.post(&format!("/{session}/turns"), &start));
    let turn_path = turn_path(session, &turn);
    let items = json!({ "items": [item("i2")] });
    send_twice(&|| client.post(&format!("{turn_path}/items"), &items));
    let end = json!({ "answer_neutral": "One.", "metadata": { "end": { "REMOTE_IP": ADDRESS } } });
    send_twice(&|| client.post(&format!("{turn_path}/finalize"), &end));
    let again = json!({ "request_id": "r2", "question_neutral": "One?", "answer_neutral": "1.",
        "metadata": nested, "items": [item("i3")] });
    send_twice(&|| client.post(&format!("{turn_path}/replace"), &again));
    let complete = with_member(again, "request_id", json!("r3"));
    let complete = with_member(complete, "items", json!([item("i4")]));
    send_twice(&|| client.post(&format!("/{session}/turns"), &complete));
}

/// Patches the session twice, checks the hashes, and then removes the top-level address.
fn patch_twice(client: &Client, session: &str, patch: &Value) {
    for _ in 0..2 {
        let patched = client.patch(&format!("/{session}"), patch).is(200);
        let metadata = &patched["metadata"];
        let hash = metadata["ip_hash"].as_str().unwrap();
        assert_eq!(metadata["client"]["ip_hash"], hash, "{metadata}");
        assert_eq!(metadata["net"]["ip_hash"], hash, "{metadata}");
        assert!(metadata.get("kept").is_none(), "{metadata}");
    }
    let path = format!("/{session}");
    let removed = client.patch(&path, &json!({ "metadata": { "xRealIp": null } }));
    let metadata = removed.is(200)["metadata"].clone();
    assert!(metadata.get("ip_hash").is_none(), "{metadata}");
    assert!(metadata["net"]["ip_hash"].is_string(), "{metadata}");
}

/// Checks that the session's items and events have the hash in place of the address, and everything else unchanged.
fn assert_hashed(client: &Client, session: &str) {
    let items = client.all(&format!("/{session}/items"), 50);
    let metadata = items.iter().map(|item| &item["metadata"]);
    let caller_metadata: Vec<&Value> = metadata.filter(|m| m["latency_ms"] == 7).collect();
    assert_eq!(caller_metadata.len(), 4, "{items:?}");
    let events = client.all(&format!("/{session}/events"), 50);
    let hash = &events[0]["detail"]["from"]["client"]["ip_hash"];
    assert!(hash.is_string() && events[0]["detail"]["from"]["kept"] == 1);
    for metadata in caller_metadata {
        let expected = json!({ "latency_ms": 7, "ip_hash": hash, "hops": [{ "ip_hash": hash }] });
        assert_eq!(*metadata, expected);
    }
}

/// Checks that neither the store nor the server's log contains the address.
fn assert_absent(world: &World, server: Server) {
    let log = server.log();
    assert!(!log.contains(ADDRESS), "{log}");
    world.assert_not_stored(ADDRESS);
    server.stop();
    world.assert_not_stored(ADDRESS);
    world.verify();
}

#[test]
fn no_address_is_stored() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[("FILROUGE_LOG", "debug")]);
    let client = server.client();
    send_through_all_routes(&client, "v");
    assert_hashed(&client, "v");
    let stored = redis_content(&redis);
    assert!(
        stored.contains("ip_hash") && !stored.contains(ADDRESS),
        "{stored}"
    );
    // The login copies the recorded history into the ledger.
    let ada = client.for_identity("ada");
    ada.post("/v/turns", &open_turn_json("login", "?"))
        .wrote(201);
    assert_hashed(&ada, "v");
    send_through_all_routes(&ada, "hers");
    assert_hashed(&ada, "hers");
    wait_for_copies(&ada);
    assert!(!redis_content(&redis).contains(ADDRESS));
    assert_absent(&world, server);
}

#[test]
fn metadata_members_that_are_not_allowed_are_removed_from_turns() {
    let world = World::new();
    let server = ephemeral(&world, &[("FILROUGE_METADATA_ALLOW", "channel")]);
    let ada = server.client().for_identity("ada");
    send_through_all_routes(&ada, "s");
    assert_hashed(&ada, "s");
    for turn in ada.all("/s/turns", 50) {
        assert_eq!(turn["metadata"], json!({}), "{turn}");
    }
    assert_absent(&world, server);
}
