//! Network addresses in metadata: hashed before they are stored, on every path, in the hot store and the ledger.

use filrouge_testbed::Redis;
use serde_json::{Value, json};

use crate::hot::{at, copied, ephemeral, held, open, with_redis};
use crate::http::{Client, Reply, text_item};
use crate::world::{Server, World};

/// An address that must not be found in stored data.
const ADDRESS: &str = "203.0.113.217";

fn with(mut body: Value, member: &str, value: Value) -> Value {
    body[member] = value;
    body
}

/// A caller's item with the address in its metadata, twice.
fn item(id: &str) -> Value {
    let metadata =
        json!({ "latency_ms": 7, "clientIp": ADDRESS, "hops": [{ "X-Forwarded-For": [ADDRESS] }] });
    with(
        text_item(id, "assistant", "thought", "t"),
        "metadata",
        metadata,
    )
}

/// Sends the address through every route of a session, each request twice: the second one must be a replay.
fn through_all_routes(client: &Client, session: &str) {
    let twice = |send: &dyn Fn() -> Reply| {
        let first = send();
        assert!(first.status < 300, "{first:?}");
        let again = send();
        assert_eq!(again.status, 200, "{again:?}");
        first.body()
    };
    let nested = json!({ "kept": 1, "client": { "remoteAddr": ADDRESS } });
    let made = json!({ "session_id": session, "metadata": nested });
    twice(&|| client.post("", &made));
    let patch =
        json!({ "metadata": { "net": { "ip": ADDRESS }, "xRealIp": ADDRESS, "kept": null } });
    twice_patched(client, session, &patch);
    let event = json!({ "key": "k", "kind": "call", "detail": { "from": nested } });
    twice(&|| client.post(&format!("/{session}/events"), &event));

    let start = with(open("r1", "One?"), "items", json!([item("i1")]));
    let start = with(start, "metadata", nested.clone());
    let start = with(
        start,
        "runtime_context",
        json!({ "locale": { "ip": ADDRESS }, "ip_address": ADDRESS }),
    );
    let turn = twice(&|| client.post(&format!("/{session}/turns"), &start));
    let place = at(session, &turn);
    let items = json!({ "items": [item("i2")] });
    twice(&|| client.post(&format!("{place}/items"), &items));
    let end = json!({ "answer_neutral": "One.", "metadata": { "end": { "REMOTE_IP": ADDRESS } } });
    twice(&|| client.post(&format!("{place}/finalize"), &end));
    let again = json!({ "request_id": "r2", "question_neutral": "One?", "answer_neutral": "1.",
        "metadata": nested, "items": [item("i3")] });
    twice(&|| client.post(&format!("{place}/replace"), &again));
    let whole = with(again, "request_id", json!("r3"));
    let whole = with(whole, "items", json!([item("i4")]));
    twice(&|| client.post(&format!("/{session}/turns"), &whole));
}

fn twice_patched(client: &Client, session: &str, patch: &Value) {
    for _ in 0..2 {
        let patched = client.patch(&format!("/{session}"), patch).is(200);
        let metadata = &patched["metadata"];
        let hash = metadata["ip_hash"].as_str().unwrap();
        assert_eq!(metadata["client"]["ip_hash"], hash, "{metadata}");
        assert_eq!(metadata["net"]["ip_hash"], hash, "{metadata}");
        assert!(metadata.get("kept").is_none(), "{metadata}");
    }
    let path = format!("/{session}");
    let forgotten = client.patch(&path, &json!({ "metadata": { "xRealIp": null } }));
    let metadata = forgotten.is(200)["metadata"].clone();
    assert!(metadata.get("ip_hash").is_none(), "{metadata}");
    assert!(metadata["net"]["ip_hash"].is_string(), "{metadata}");
}

/// Checks that the session's items and events have the hash in place of the address, and everything else unchanged.
fn has_hashes(client: &Client, session: &str) {
    let items = client.all(&format!("/{session}/items"), 50);
    let metadata = items.iter().map(|item| &item["metadata"]);
    let of_callers: Vec<&Value> = metadata.filter(|m| m["latency_ms"] == 7).collect();
    assert_eq!(of_callers.len(), 4, "{items:?}");
    let events = client.all(&format!("/{session}/events"), 50);
    let hash = &events[0]["detail"]["from"]["client"]["ip_hash"];
    assert!(hash.is_string() && events[0]["detail"]["from"]["kept"] == 1);
    for metadata in of_callers {
        let expected = json!({ "latency_ms": 7, "ip_hash": hash, "hops": [{ "ip_hash": hash }] });
        assert_eq!(*metadata, expected);
    }
}

/// Checks that neither the store nor the server's log contains the address.
fn assert_absent(world: &World, server: Server) {
    let log = server.log();
    assert!(!log.contains(ADDRESS), "{log}");
    world.holds_nowhere(ADDRESS);
    server.stop();
    world.holds_nowhere(ADDRESS);
    world.verify();
}

#[test]
fn no_address_is_stored() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[("FILROUGE_LOG", "debug")]);
    let client = server.client();
    through_all_routes(&client, "v");
    has_hashes(&client, "v");
    let all = held(&redis);
    assert!(all.contains("ip_hash") && !all.contains(ADDRESS), "{all}");
    // At the login, the recorded history is copied into the ledger.
    let ada = client.of("ada");
    ada.post("/v/turns", &open("login", "?")).wrote(201);
    has_hashes(&ada, "v");
    through_all_routes(&ada, "hers");
    has_hashes(&ada, "hers");
    copied(&ada);
    assert!(!held(&redis).contains(ADDRESS));
    assert_absent(&world, server);
}

#[test]
fn a_list_of_allowed_members_applies_to_turns() {
    let world = World::new();
    let server = ephemeral(&world, &[("FILROUGE_METADATA_ALLOW", "channel")]);
    let ada = server.client().of("ada");
    through_all_routes(&ada, "s");
    has_hashes(&ada, "s");
    for turn in ada.all("/s/turns", 50) {
        assert_eq!(turn["metadata"], json!({}), "{turn}");
    }
    assert_absent(&world, server);
}
