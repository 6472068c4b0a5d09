//! Anonymous sessions with `durable = authenticated`: they work like any other, but exist only in the hot store.

use std::time::Duration;

use filrouge_testbed::Redis;
use serde_json::{Value, json};

use crate::caller::{Caller, within_five_seconds};
use crate::hot::{
    CANARY, check_ephemeral, complete_turn_json, ephemeral, open_turn_json, pairs, redis_content,
    turn_path, with_redis,
};
use crate::http::{Client, Response, text_item};
use crate::limits::{metric, until};
use crate::tail_client::Tail;
use crate::world::{World, durability};

/// The id of a turn that does not exist.
const UNKNOWN_TURN: &str = "11111111-1111-8111-8111-111111111111";

/// A client, and the durability that its writes must report.
struct Writer {
    client: Client,
    durability: &'static str,
}

impl Writer {
    #[track_caller]
    fn check(&self, response: &Response, status: u16) -> Value {
        let body = response.is(status);
        let durability = response.header("filrouge-durability");
        assert_eq!(durability, Some(self.durability), "{response:?}");
        body
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value, status: u16) -> Value {
        self.check(&self.client.post(path, body), status)
    }
}

/// Records turns in every possible state.
fn record_turns(writer: &Writer, session: &str) {
    let turns = format!("/{session}/turns");
    let turn = writer.post(&turns, &open_turn_json("r1", CANARY), 201);
    writer.post(&turns, &open_turn_json("r1", CANARY), 200);
    let path = turn_path(session, &turn);
    let item =
        json!({ "items": [text_item("i1", "assistant", "thought", CANARY)], "expected_seq": 1 });
    let appended = writer.post(&format!("{path}/items"), &item, 201);
    assert_eq!(appended, json!({ "first_seq": 2, "last_seq": 2 }));
    writer.post(&format!("{path}/items"), &item, 200);
    let stale =
        json!({ "items": [text_item("i2", "assistant", "thought", "?")], "expected_seq": 1 });
    let conflict = writer.client.post(&format!("{path}/items"), &stale);
    assert_eq!(conflict.fails(409, "seq_conflict")["actual_seq"], 2);
    let stale = json!({ "request_id": "r2", "question_neutral": "?", "expected_seq": 1 });
    let conflict = writer.client.post(&turns, &stale);
    assert_eq!(conflict.fails(409, "seq_conflict")["actual_seq"], 2);
    let answer = json!({ "answer_neutral": format!("{CANARY}!") });
    let done = writer.post(&format!("{path}/finalize"), &answer, 200);
    assert_eq!(done["status"], "finalized");

    let streamed = writer.post(&turns, &open_turn_json("r2", "Streamed?"), 201);
    let response = json!({ "id": "c", "object": "chat.completion", "model": "m", "choices": [
        { "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": "Yes." } }] });
    let path = format!(
        "{}/stream?format=openai-chat",
        turn_path(session, &streamed)
    );
    let recorded = writer.post(&path, &response, 200);
    assert_eq!(recorded["answer_neutral"], "Yes.", "{recorded}");

    for (request, call, body, status) in [
        (
            "r3",
            "fail",
            json!({ "error": { "code": "c", "message": "m" } }),
            "failed",
        ),
        (
            "r4",
            "cancel",
            json!({ "partial_text": "so f" }),
            "cancelled",
        ),
    ] {
        let turn = writer.post(&turns, &open_turn_json(request, "?"), 201);
        let path = format!("{}/{call}", turn_path(session, &turn));
        assert_eq!(writer.post(&path, &body, 200)["status"], status);
    }
    let old = writer.post(&turns, &complete_turn_json("r5", "Old?", "Old."), 201);
    let path = format!("{}/replace", turn_path(session, &old));
    writer.post(&path, &complete_turn_json("r6", "New?", "New."), 201);
    let event = json!({ "key": "e", "kind": "call_started" });
    writer.post(&format!("/{session}/events"), &event, 201);
    let patched = writer
        .client
        .patch(&format!("/{session}"), &json!({ "title": "A visitor" }));
    writer.check(&patched, 200);
}

/// The content of a session, without ids, times and owner.
fn session_content(client: &Client, session: &str) -> Value {
    let select = |row: &Value, members: &[&str]| -> Value {
        members.iter().map(|m| row[*m].clone()).collect()
    };
    let all = |path: &str, members: &[&str]| -> Value {
        let rows = client.all(&format!("/{session}{path}"), 2);
        rows.iter().map(|row| select(row, members)).collect()
    };
    let turn = [
        "request_id",
        "ordinal",
        "status",
        "question_neutral",
        "answer_neutral",
        "first_seq",
        "last_seq",
        "record_version",
    ];
    let context = client.get_body(&format!("/{session}/context?format=anthropic"));
    json!({
        "session": select(&client.get_body(&format!("/{session}")), &["title", "status", "last_seq", "turn_count"]),
        "items": all("/items", &["seq", "role", "channel", "parts", "model"]),
        "newest items": all("/items?order=desc", &["seq", "role", "channel", "parts", "model"]),
        "by key": all("/items?item_id=i1", &["seq", "parts"]),
        "by seq": all("/items?seqs=1,3-4", &["seq", "parts"]),
        "turns": all("/turns", &turn),
        "finalized": all("/turns?status=finalized", &turn),
        "events": all("/events", &["key", "kind"]),
        "by request": select(&client.get_body(&format!("/{session}/turns?request_id=r4"))["data"][0], &turn),
        "context": context,
        "pairs": pairs(client, session),
        "stats": client.get_body(&format!("/{session}/stats"))["own"]["turns"],
    })
}

/// Checks that the session `v` has no export or verification, and is in no list.
fn assert_unsupported(client: &Client) {
    for path in ["/v/export?format=json", "/v/verify"] {
        let refused = client.get(path).fails(409, "session_ephemeral");
        assert!(refused["hint"].is_string(), "{refused}");
    }
    assert_eq!(
        client.get_body("")["data"],
        json!([]),
        "no list contains the session"
    );
}

#[test]
fn ephemeral_sessions_work_like_durable_ones_and_leave_no_trace() {
    let world = World::new();
    let server = ephemeral(&world, &[]);
    let client = server.client();
    let visitor = Writer {
        client: client.clone(),
        durability: "ephemeral",
    };
    record_turns(&visitor, "v");
    let content = session_content(&client, "v");
    assert!(client.get("/v/export?format=md").text.contains(CANARY));
    assert_unsupported(&client);
    let first = client.get_body("/v/turns?limit=1")["data"][0].clone();
    let path = format!("{}/redact", turn_path("v", &first));
    let redacted = check_ephemeral(&client.post(&path, &json!({ "reason": "on request" })), 200);
    assert!(redacted["deleted_at"].is_string() && redacted["question_neutral"].is_null());
    assert!(!client.get("/v/items").text.contains(CANARY));
    assert_eq!(client.get_body("/api/v1/changes")["data"], json!([]));
    assert_eq!(world.json(&["sessions", "list"])["data"], json!([]));
    world.assert_not_stored(CANARY);

    let ada = Writer {
        client: client.for_identity("ada"),
        durability: durability(),
    };
    record_turns(&ada, "hers");
    assert_eq!(
        content,
        session_content(&ada.client, "hers"),
        "an ephemeral session differs from one in the ledger"
    );

    let receipt = client.delete("/v").is(200);
    let stores = receipt["stores"].as_array().unwrap();
    let erased = json!({ "store": "hot", "status": "erased" });
    assert!(stores.contains(&erased), "{receipt}");
    assert_ne!(client.get("/v").status, 200);
    assert_eq!(client.get_body("/readyz")["status"], "ready");
    server.stop();
    world.verify();
}

#[test]
fn owned_sessions_are_written_to_the_ledger() {
    let world = World::new();
    let server = ephemeral(&world, &[]);
    let ada = server.client().for_identity("ada");
    ada.post("/hers/turns", &complete_turn_json("r", "?", "!"))
        .wrote(201);
    assert_eq!(ada.get_body("/hers/verify")["status"], "intact");
    assert_eq!(
        world.json(&["sessions", "list"])["data"][0]["session_id"],
        "hers"
    );
    // No other caller can read it, or create another session under its id.
    let anonymous = server.client();
    anonymous.get("/hers").fails(404, "session_not_found");
    let refused = anonymous.post("/hers/turns", &complete_turn_json("r", "?", "!"));
    refused.fails(409, "session_conflict");
    let info = anonymous.get_body("/api/v1/info");
    assert_eq!(
        (&info["hot"], &info["durable"]),
        (&json!("memory"), &json!("authenticated"))
    );
    assert_eq!(info["hot_bounds"]["turns"], 500);
    server.stop();
    world.verify();
}

#[test]
fn requests_for_expired_turns_are_refused() {
    let world = World::new();
    let server = ephemeral(&world, &[("FILROUGE_HOT_TTL_S", "1")]);
    let client = server.client();
    for session in ["never", "v"] {
        if session == "v" {
            let turn = check_ephemeral(&client.post("/v/turns", &open_turn_json("r", "?")), 201);
            let path = turn_path("v", &turn);
            // The reads of this loop do not extend the session's time to live.
            within_five_seconds("the session expires", || client.get(&path).status == 410);
        }
        let path = format!("/{session}/turns/{UNKNOWN_TURN}");
        let reported = client.get(&path).fails(410, "turn_expired");
        assert!(
            reported["hint"].as_str().unwrap().contains("again"),
            "{reported}"
        );
        for (call, body) in [
            ("finalize", json!({ "answer_neutral": "!" })),
            (
                "items",
                json!({ "items": [text_item("i", "assistant", "plan", "?")] }),
            ),
            ("cancel", json!({})),
        ] {
            let late = client.post(&format!("{path}/{call}"), &body);
            late.fails(410, "turn_expired");
        }
        for path in ["", "/items", "/turns", "/context"] {
            let absent = client.get(&format!("/{session}{path}"));
            absent.fails(404, "session_not_found");
        }
    }
    check_ephemeral(&client.post("/v/turns", &open_turn_json("r", "?")), 201);
    let ada = client.for_identity("ada");
    let turn = ada
        .post("/hers/turns", &open_turn_json("r", "?"))
        .wrote(201);
    let absent = ada.get(&format!("/hers/turns/{UNKNOWN_TURN}"));
    absent.fails(404, "turn_not_found");
    std::thread::sleep(Duration::from_millis(1100));
    ada.get(&turn_path("hers", &turn)).is(200);
    server.stop();
}

#[test]
fn the_oldest_turns_are_dropped_first() {
    let world = World::new();
    let server = ephemeral(&world, &[("FILROUGE_HOT_TURNS", "3")]);
    let client = server.client();
    let turns: Vec<Value> = (0..5)
        .map(|n| {
            check_ephemeral(
                &client.post(
                    "/v/turns",
                    &complete_turn_json(&format!("r{n}"), &format!("{n}?"), "!"),
                ),
                201,
            )
        })
        .collect();
    let questions: Vec<_> = pairs(&client, "v").into_iter().map(|(q, _)| q).collect();
    assert_eq!(questions, ["2?", "3?", "4?"]);
    client
        .get(&turn_path("v", &turns[0]))
        .fails(410, "turn_expired");
    client.get(&turn_path("v", &turns[2])).is(200);
    assert_eq!(client.get_body("/v")["last_seq"], 10);
    let trimmed = metric(&client, "filrouge_ephemeral_trimmed_turns_total");
    assert_eq!(trimmed, 2.0);
    server.stop();
}

#[test]
fn two_servers_share_an_ephemeral_session() {
    let (world, redis) = (World::new(), Redis::start());
    let servers = [
        with_redis(&world, &redis, &[]),
        with_redis(&world, &redis, &[]),
    ];
    let clients = servers.each_ref().map(crate::world::Server::client);
    let mut tail = Tail::open(servers[1].origin(), "/v/items?after=0", &[]);
    assert_eq!(tail.status(), 404, "the session does not exist yet");
    let turn = check_ephemeral(
        &clients[0].post("/v/turns", &open_turn_json("r", CANARY)),
        201,
    );
    tail = Tail::open(servers[1].origin(), "/v/items?after=0", &[]);
    assert_eq!(tail.next().unwrap().id, Some(1));
    for n in 0..6 {
        let path = format!("{}/items", turn_path("v", &turn));
        let item = text_item(&n.to_string(), "assistant", "thought", "t");
        let body = json!({ "items": [item] });
        check_ephemeral(&clients[(n + 1) % 2].post(&path, &body), 201);
        // A retry at the other server is a replay.
        check_ephemeral(&clients[n % 2].post(&path, &body), 200);
    }
    // Each server checks once a second for writes of the other.
    assert_eq!(tail.take(6).last().unwrap().id, Some(7));
    for client in &clients {
        assert_eq!(client.all("/v/items", 50).len(), 7);
    }
    // Concurrent writes all succeed, each exactly once.
    std::thread::scope(|scope| {
        for n in 0..8 {
            let client = &clients[n % 2];
            scope.spawn(move || {
                check_ephemeral(
                    &client.post("/v/turns", &complete_turn_json(&format!("w{n}"), "?", "!")),
                    201,
                )
            });
        }
    });
    assert_eq!(
        clients[0].get("/v/items?limit=500").text,
        clients[1].get("/v/items?limit=500").text
    );
    assert_eq!(pairs(&clients[1], "v").len(), 8);
    assert!(
        redis_content(&redis).contains(CANARY),
        "the text is in Redis"
    );
    world.assert_not_stored(CANARY);
    for server in servers {
        server.stop();
    }
    world.verify();
}

#[test]
fn without_redis_ephemeral_sessions_fail_and_durable_ones_continue() {
    let (world, redis) = (World::new(), Redis::start());
    redis.kill();
    let server = with_redis(&world, &redis, &[("FILROUGE_HOT_TIMEOUT_MS", "1000")]);
    let client = server.client();
    let refused = client.post("/v/turns", &complete_turn_json("r", "?", "!"));
    refused.fails(503, "hot_unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let reported = serde_json::from_str::<Value>(&refused.text).unwrap();
    assert_eq!(reported["detail"], "the hot store does not answer");
    assert!(
        reported["hint"].as_str().unwrap().contains("/readyz"),
        "{reported}"
    );
    client.get("/v").fails(503, "hot_unavailable");
    let ada = client.for_identity("ada");
    ada.post("/hers/turns", &complete_turn_json("r", "?", "!"))
        .wrote(201);
    ada.get_body("/hers/turns?status=finalized");
    let ready = client.get_body("/readyz");
    assert_eq!(ready["status"], "degraded");
    assert!(ready["hot"].is_string(), "{ready}");
    assert_eq!(metric(&client, "filrouge_hot_up"), 0.0);
    assert_eq!(metric(&client, "filrouge_degraded"), 1.0);

    redis.restart();
    until("Redis is used again", || {
        client
            .post("/v/turns", &complete_turn_json("r", "?", "!"))
            .status
            < 300
    });
    assert_eq!(pairs(&client, "v").len(), 1);
    assert_eq!(client.get_body("/readyz")["status"], "ready");
    assert!(metric(&client, "filrouge_hot_failures_total") >= 1.0);
    server.stop();
    world.verify();
}

#[test]
fn a_session_token_gives_access_to_an_ephemeral_session() {
    let world = World::new();
    let server = ephemeral(&world, &[("FILROUGE_REQUIRE_SESSION_TOKEN", "true")]);
    let anonymous = Caller::anonymous(&server);
    let created = anonymous.post("/v/turns", &complete_turn_json("r", CANARY, "!"));
    check_ephemeral(&created, 201);
    let token = created.header("filrouge-session-token").unwrap();
    anonymous.get("/v").fails(404, "session_not_found");
    anonymous
        .with("filrouge-session-token", token)
        .get("/v")
        .is(200);
    let ada = anonymous.for_identity("ada");
    // Without the token, a login does not link the session.
    assert_eq!(
        ada.post("/v/turns", &complete_turn_json("a", "?", "!"))
            .status,
        409
    );
    let with_token = ada.with("filrouge-session-token", token);
    with_token
        .post("/v/turns", &complete_turn_json("a", "?", "!"))
        .wrote(201);
    assert!(ada.get("/v/items").text.contains(CANARY));
    server.stop();
    world.verify();
}
