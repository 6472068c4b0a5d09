//! A login gives an ephemeral session its owner, and moves it into the ledger: completely, once, and for one identity.

mod failures;

use filrouge_testbed::Redis;
use serde_json::{Value, json};

use crate::hot::{
    CANARY, check_ephemeral, complete_turn_json, ephemeral, open_turn_json, pairs, redis_content,
    turn_path, with_redis,
};
use crate::http::{Client, text_item};
use crate::limits::{metric, until};
use crate::upload_client::{Upload, text_chunk};
use crate::world::World;

/// The end of the Redis key of an ephemeral session.
const EPHEMERAL_KEY: &str = ":e";

/// Records an anonymous conversation: two finished turns, a failed one and an open one.
fn record_anonymous(client: &Client, session: &str) -> Vec<Value> {
    let turns = format!("/{session}/turns");
    check_ephemeral(
        &client.post(&turns, &complete_turn_json("r1", "One?", CANARY)),
        201,
    );
    let two = check_ephemeral(&client.post(&turns, &open_turn_json("r2", "Two?")), 201);
    let item = json!({ "items": [text_item("i", "assistant", "thought", "Hm.")] });
    check_ephemeral(
        &client.post(&format!("{}/items", turn_path(session, &two)), &item),
        201,
    );
    let answer = json!({ "answer_neutral": "Two." });
    check_ephemeral(
        &client.post(&format!("{}/finalize", turn_path(session, &two)), &answer),
        200,
    );
    let three = check_ephemeral(&client.post(&turns, &open_turn_json("r3", "Three?")), 201);
    let error = json!({ "error": { "code": "c", "message": "m" } });
    check_ephemeral(
        &client.post(&format!("{}/fail", turn_path(session, &three)), &error),
        200,
    );
    check_ephemeral(&client.post(&turns, &open_turn_json("r4", "Four?")), 201);
    client.all(&turns, 50)
}

/// Checks that the owner sees everything from before the login, unchanged.
fn assert_complete(ada: &Client, session: &str, before: &[Value]) {
    let after = ada.all(&format!("/{session}/turns"), 50);
    for (old, new) in before.iter().zip(&after) {
        for member in [
            "turn_id",
            "request_id",
            "ordinal",
            "status",
            "created_at",
            "finalized_at",
            "question_neutral",
            "answer_neutral",
            "first_seq",
            "last_seq",
        ] {
            assert_eq!(old[member], new[member], "{member}");
        }
    }
    assert!(after.len() >= before.len());
    assert_eq!(
        ada.get_body(&format!("/{session}/verify"))["status"],
        "intact"
    );
}

/// Checks that the session looks absent to all others.
fn assert_absent_for(others: &[&Client], session: &str, turn: &Value) {
    for other in others {
        for path in [
            "",
            "/items",
            "/turns",
            "/turns?status=finalized",
            "/context",
            "/export",
            "/verify",
        ] {
            let response = other.get(&format!("/{session}{path}"));
            response.fails(404, "session_not_found");
        }
        other
            .get(&turn_path(session, turn))
            .fails(404, "session_not_found");
        let item = json!({ "items": [text_item("x", "user", "plan", "?")] });
        let late = other.post(&format!("{}/items", turn_path(session, turn)), &item);
        late.fails(404, "session_not_found");
        let created = other.post(
            &format!("/{session}/turns"),
            &complete_turn_json("other", "?", "!"),
        );
        created.fails(409, "session_conflict");
        assert!(!created.text.contains(CANARY));
        assert_eq!(other.get_body("")["data"], json!([]));
    }
}

#[test]
fn the_first_turn_with_an_identity_moves_the_anonymous_history() {
    let world = World::new();
    let server = ephemeral(&world, &[]);
    let (anonymous, ada) = (server.client(), server.client().for_identity("ada"));
    let bob = server.client().for_identity("bob");
    let before = record_anonymous(&anonymous, "v");
    world.assert_not_stored(CANARY);
    // A read is not a login.
    assert_eq!(ada.all("/v/turns", 50), before);
    assert_eq!(world.json(&["sessions", "list"])["data"], json!([]));

    let turn = ada
        .post("/v/turns", &complete_turn_json("r5", "Five?", "Five."))
        .wrote(201);
    assert_eq!(turn["ordinal"], 5);
    assert_complete(&ada, "v", &before);
    assert_eq!(ada.get_body("/v")["identity_id"], "ada");
    let linked: Vec<Value> = ada.all("/v/items", 50);
    let linked: Vec<&Value> = linked.iter().filter(|i| i["channel"] == "link").collect();
    assert_eq!(linked.len(), 1, "{linked:?}");
    assert_eq!(pairs(&ada, "v").len(), 3);
    // The turn that was open at the login can be finalized.
    let path = format!("{}/finalize", turn_path("v", &before[3]));
    ada.post(&path, &json!({ "answer_neutral": "Four." }))
        .wrote(200);
    ada.post("/v/turns", &complete_turn_json("r1", "One?", CANARY))
        .wrote(200);
    assert_absent_for(&[&anonymous, &bob], "v", &before[0]);
    assert_eq!(metric(&anonymous, "filrouge_logins_total"), 1.0);
    let backfilled = metric(
        &anonymous,
        r#"filrouge_backfilled_turns_total{when="login"}"#,
    );
    assert_eq!(backfilled, 4.0);
    let log = server.log();
    assert!(
        log.contains("[SESSIONS][LOGIN]") && !log.contains(CANARY),
        "{log}"
    );
    server.stop();
    world.verify();
}

#[test]
fn a_link_moves_the_history_and_a_second_link_is_refused() {
    let world = World::new();
    let server = ephemeral(&world, &[]);
    let anonymous = server.client();
    let (ada, bob) = (anonymous.for_identity("ada"), anonymous.for_identity("bob"));
    let before = record_anonymous(&anonymous, "v");
    let link_to = |identity: &str| json!({ "identity_id": identity });
    let linked = anonymous.put("/v/link", &link_to("ada")).wrote(200);
    assert_eq!(linked["identity_id"], "ada");
    assert_complete(&ada, "v", &before);
    ada.put("/v/link", &link_to("ada")).wrote(200);
    anonymous
        .put("/v/link", &link_to("bob"))
        .fails(409, "session_linked");
    bob.put("/v/link", &link_to("bob"))
        .fails(409, "session_linked");
    assert!(server.log().contains("[SESSIONS][LINK_REFUSED]"));
    assert_absent_for(&[&anonymous, &bob], "v", &before[0]);
    let stranger = server.client();
    stranger
        .put("/none/link", &link_to("ada"))
        .fails(404, "session_not_found");
    server.stop();
    world.verify();
}

#[test]
fn a_login_ends_an_open_stream_and_keeps_its_text() {
    let world = World::new();
    let server = ephemeral(&world, &[]);
    let (anonymous, ada) = (server.client(), server.client().for_identity("ada"));
    let response = json!({ "id": "c", "object": "chat.completion", "model": "m", "choices": [
        { "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": CANARY } }] });
    let turn = check_ephemeral(
        &anonymous.post("/v/turns", &open_turn_json("r1", "One?")),
        201,
    );
    // The user's first authenticated request records an answer.
    let path = format!("{}/stream?format=openai-chat", turn_path("v", &turn));
    let recorded = ada.post(&path, &response).wrote(200);
    assert_eq!(recorded["answer_neutral"], CANARY);
    anonymous.get("/v").fails(404, "session_not_found");

    // A login ends an open stream.
    let turn = check_ephemeral(
        &anonymous.post("/w/turns", &open_turn_json("r1", "One?")),
        201,
    );
    let mut upload = Upload::chat(&server, &turn_path("w", &turn), "");
    upload.send_text("so f");
    let written = || metric(&anonymous, "filrouge_stream_drafts_total") >= 1.0;
    until("a draft is written", written);
    ada.put("/w/link", &json!({ "identity_id": "ada" }))
        .wrote(200);
    let after = ada.get_body(&turn_path("w", &turn));
    assert_eq!(after["status"], "interrupted", "{after}");
    assert!(ada.get("/w/items").text.contains("so f"));
    upload.try_send(&text_chunk("ar")).ok();
    until("the stream has ended", || {
        metric(&anonymous, "filrouge_streams_under_way") == 0.0
    });
    server.stop();
    world.verify();
}

#[test]
fn the_ledger_gets_only_the_configured_metadata_and_items() {
    const ADDRESS: &str = "203.0.113.77";
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[("FILROUGE_RECORD", "conversation")]);
    let (anonymous, ada) = (server.client(), server.client().for_identity("ada"));
    let body = json!({ "request_id": "r1", "question_neutral": "?", "answer_neutral": "!",
        "metadata": { "channel": "web", "mood": CANARY, "ip": ADDRESS, "x-forwarded-for": ADDRESS },
        "items": [text_item("i", "assistant", "tool_result", "t00l-w0rds")] });
    let turn = check_ephemeral(&anonymous.post("/v/turns", &body), 201);
    let metadata = &turn["metadata"];
    assert_eq!(
        (&metadata["mood"], &metadata["channel"]),
        (&json!(CANARY), &json!("web"))
    );
    assert!(
        metadata["ip_hash"].is_string() && metadata["ip"].is_null(),
        "{metadata}"
    );
    assert_eq!(anonymous.all("/v/items", 50).len(), 3);
    let in_redis = redis_content(&redis);
    assert!(in_redis.contains(CANARY) && !in_redis.contains(ADDRESS));

    ada.post("/v/turns", &body).wrote(200);
    let turn = ada.get_body("/v/turns")["data"][0].clone();
    let members: Vec<&String> = turn["metadata"].as_object().unwrap().keys().collect();
    assert_eq!(members.len(), 2, "{members:?}");
    assert_eq!(turn["metadata"]["ip_hash"], metadata["ip_hash"]);
    let channels: Vec<Value> = ada
        .all("/v/items", 50)
        .iter()
        .map(|i| i["channel"].clone())
        .collect();
    assert!(!channels.contains(&json!("tool_result")), "{channels:?}");
    let body = json!({ "request_id": "r2", "question_neutral": "?", "answer_neutral": "!",
        "metadata": { "mood": CANARY, "remote_addr": ADDRESS },
        "items": [text_item("j", "assistant", "tool_result", "t00l-w0rds")] });
    ada.post("/v/turns", &body).wrote(201);
    assert_eq!(
        ada.all("/v/turns", 50)[1]["metadata"]["ip_hash"],
        metadata["ip_hash"]
    );
    assert!(metric(&anonymous, r#"filrouge_metadata_dropped_total{key="mood"}"#) >= 1.0);
    let not_recorded = r#"filrouge_items_not_recorded_total{channel="tool_result"}"#;
    assert!(metric(&anonymous, not_recorded) >= 1.0);
    server.stop();
    for text in [CANARY, ADDRESS, "t00l-w0rds"] {
        world.assert_not_stored(text);
        assert!(!redis_content(&redis).contains(text), "{text}");
    }
    world.verify();
}
