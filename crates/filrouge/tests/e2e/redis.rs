//! Redaction and erasure remove contents from Redis before the response, and no older state of Redis restores them.

use filrouge_testbed::Redis;
use serde_json::{Value, json};

use crate::erase::ledger_receipt;
use crate::hot::{
    CANARY, check_ephemeral, complete_turn_json, pairs, redis_content, turn_path, wait_for_copies,
    with_redis,
};
use crate::http::Client;
use crate::limits::{metric, until};
use crate::world::{World, finish};

/// Records three turns of a session; the middle one contains the canary.
pub(crate) fn record_three_turns(client: &Client, session: &str) -> Vec<Value> {
    let words = ["One", CANARY, "Three"];
    let turns = words.iter().enumerate().map(|(n, words)| {
        let body = complete_turn_json(&format!("r{n}"), &format!("{words}?"), &format!("{words}!"));
        client.post(&format!("/{session}/turns"), &body).is(201)
    });
    turns.collect()
}

/// Checks that no read shows the canary.
#[track_caller]
fn assert_absent(client: &Client, session: &str) {
    for path in [
        "/turns?status=finalized",
        "/turns",
        "/items",
        "/context",
        "/export?format=md",
    ] {
        let response = client.get(&format!("/{session}{path}"));
        assert!(!response.text.contains(CANARY), "{path}: {response:?}");
    }
}

pub(crate) fn redact(client: &Client, session: &str, turn: &Value) {
    let reason = json!({ "reason": "requested by the user" });
    client
        .post(&format!("{}/redact", turn_path(session, turn)), &reason)
        .is(200);
}

/// Empties Redis, starts it from an older dump, then kills and restarts it; calls `check` after each.
fn disrupt(redis: &Redis, older: &[u8], check: impl Fn(&str)) {
    redis.cli(&["FLUSHALL"]);
    check("after Redis was emptied");
    redis.start_from(older);
    check("after Redis started from an older dump");
    redis.kill();
    redis.restart();
    check("after Redis was killed and restarted");
}

#[test]
fn redis_does_not_restore_a_redacted_turn_of_the_ledger() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[]);
    let ada = server.client().for_identity("ada");
    let turns = record_three_turns(&ada, "s");
    wait_for_copies(&ada);
    let copies = redis_content(&redis);
    assert!(
        copies.contains(turns[1]["turn_id"].as_str().unwrap()),
        "{copies}"
    );
    let older = redis.save();
    redact(&ada, "s", &turns[1]);
    assert!(
        !redis_content(&redis).contains(CANARY),
        "the answer came before the erasure from Redis"
    );
    assert_absent(&ada, "s");
    disrupt(&redis, &older, |what| {
        until(what, || ada.get_body("/readyz")["status"] == "ready");
        assert_absent(&ada, "s");
        assert_eq!(pairs(&ada, "s").len(), 2, "{what}");
        let new_server = with_redis(&world, &redis, &[]);
        assert_absent(&new_server.client().for_identity("ada"), "s");
    });
    server.stop();
    world.verify();
}

#[test]
fn redis_does_not_restore_a_redacted_anonymous_turn() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[]);
    let client = server.client();
    let turns = record_three_turns(&client, "v");
    record_three_turns(&client, "w");
    assert!(redis_content(&redis).contains(CANARY));
    let older = redis.save();
    redact(&client, "v", &turns[1]);
    assert_absent(&client, "v");
    assert_eq!(pairs(&client, "v").len(), 2);
    client.delete("/w").is(200);
    assert!(
        !redis_content(&redis).contains(CANARY),
        "the answer came before the erasure from Redis"
    );
    let newest = redis.save();
    disrupt(&redis, &older, |what| {
        until(what, || client.get_body("/readyz")["status"] == "ready");
        let new_server = with_redis(&world, &redis, &[]);
        for client in [&client, &new_server.client()] {
            assert_absent(client, "v");
            assert_absent(client, "w");
            // A user who logs in does not see it either.
            assert!(
                !client
                    .for_identity("ada")
                    .get("/w/items")
                    .text
                    .contains(CANARY)
            );
        }
    });
    // A server that has just started shows the other turns, and a login adopts them.
    redis.start_from(&newest);
    let new_server = with_redis(&world, &redis, &[]);
    assert_eq!(pairs(&new_server.client(), "v").len(), 2);
    let ada = new_server.client().for_identity("ada");
    ada.post("/v/turns", &complete_turn_json("login", "?", "!"))
        .wrote(201);
    assert_absent(&ada, "v");
    world.assert_not_stored(CANARY);
    server.stop();
    world.verify();
}

#[test]
fn lost_writes_are_detected() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[]);
    let client = server.client();
    let turns = "/v/turns";
    check_ephemeral(
        &client.post(turns, &complete_turn_json("r1", "One?", "One.")),
        201,
    );
    let older = redis.save();
    let lost = check_ephemeral(
        &client.post(turns, &complete_turn_json("r2", "Two?", "Two.")),
        201,
    );
    redis.start_from(&older);
    until("Redis answers", || {
        client.get_body("/readyz")["status"] == "ready"
    });
    client.get("/v").fails(404, "session_not_found");
    client
        .get(&turn_path("v", &lost))
        .fails(410, "turn_expired");
    assert_eq!(metric(&client, "filrouge_ephemeral_went_back_total"), 1.0);
    // A repeated request creates the session again, with the same turn id.
    let repeated = check_ephemeral(
        &client.post(turns, &complete_turn_json("r2", "Two?", "Two.")),
        201,
    );
    assert_eq!(repeated["turn_id"], lost["turn_id"]);
    assert_eq!(pairs(&client, "v").len(), 1);
    server.stop();
}

#[test]
fn the_command_line_erases_contents_in_redis() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[]);
    let ada = server.client().for_identity("ada");
    let turns = record_three_turns(&ada, "s");
    record_three_turns(&ada, "t");
    wait_for_copies(&ada);
    let url = redis.url();
    let turn = turns[1]["turn_id"].as_str().unwrap();
    assert!(redis_content(&redis).contains(turn));
    let redact = [
        "--hot", &url, "redact", "s", "--turn", turn, "--reason", "x",
    ];
    let receipt = world.json(&redact);
    let hot = json!({ "store": "hot", "status": "erased" });
    assert_eq!(receipt["stores"], json!([ledger_receipt(), hot]));
    assert!(!redis_content(&redis).contains(turn));
    assert_absent(&ada, "s");
    let erase = ["--hot", &url, "erase", "--session", "t", "--yes"];
    let output = world.ok(&erase);
    assert!(output.contains("hot store: erased"), "{output}");
    wait_for_copies(&ada);
    redis.pause();
    let command_output = world.run(&["--hot", &url, "redact", "s", "--seq", "1", "--reason", "x"]);
    redis.resume();
    assert_eq!(command_output.code, Some(0), "{command_output:?}");
    assert!(
        command_output
            .stdout
            .contains("hot store: unreachable; repeat the command"),
        "{command_output:?}"
    );
    assert!(!ada.get("/s/turns?status=finalized").text.contains("One?"));
    // Without `--hot` the receipt does not mention Redis.
    let receipt = world.json(&["redact", "s", "--seq", "2", "--reason", "x"]);
    assert_eq!(receipt["stores"], json!([ledger_receipt()]));
    server.stop();
    world.verify();
}

#[test]
fn the_command_line_erases_ephemeral_sessions() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[]);
    let (client, url) = (server.client(), redis.url());
    let run = |arguments: &[&str]| {
        let mut command = world.command(arguments);
        command.env("FILROUGE_HOT", &url);
        command.env("FILROUGE_DURABLE", "authenticated");
        finish(command, "filrouge")
    };
    let body = complete_turn_json("r1", CANARY, CANARY);
    check_ephemeral(&client.post("/v/turns", &body), 201);
    client
        .for_identity("ada")
        .post("/hers/turns", &body)
        .is(201);
    let all = run(&["--json", "erase", "--all-of-tenant", "--yes"]);
    assert_eq!(all.code, Some(0), "{all:?}");
    assert!(all.stderr.contains("are not erased"), "{all:?}");
    let receipt: Value = serde_json::from_str(all.stdout.trim()).unwrap();
    assert_eq!(receipt["session_id"], "hers");
    assert!(receipt["not_listed"].is_string(), "{receipt}");
    assert_eq!(pairs(&client, "v").len(), 1);
    let one = run(&["--json", "erase", "--session", "v", "--yes"]);
    assert_eq!(one.code, Some(0), "{one:?}");
    let receipt: Value = serde_json::from_str(one.stdout.trim()).unwrap();
    assert_eq!(receipt["session_id"], "v");
    assert!(receipt.get("not_listed").is_none(), "{receipt}");
    assert!(!redis_content(&redis).contains(CANARY));
    client.get("/v").fails(410, "session_erased");
    server.stop();
}

#[test]
fn a_required_password_is_never_shown() {
    const PASSWORD: &str = "h0t-p4ssw0rd";
    let world = World::new();
    let redis = Redis::with_settings(&[("requirepass", PASSWORD)]);
    let server = with_redis(&world, &redis, &[]);
    let ready = server.client().get_body("/readyz");
    assert_eq!(ready["status"], "degraded");
    let why = ready["hot"].as_str().unwrap();
    assert!(why.contains("wants a password"), "{why}");
    let log = server.log();
    assert!(log.contains("cannot be used at the moment"), "{log}");
    server.stop();
    let server = with_redis(
        &world,
        &redis,
        &[
            ("FILROUGE_HOT_PASSWORD", PASSWORD),
            ("FILROUGE_LOG", "trace"),
        ],
    );
    check_ephemeral(
        &server
            .client()
            .post("/v/turns", &complete_turn_json("r", "?", "!")),
        201,
    );
    let ready = server.client().get("/readyz");
    assert_eq!(ready.is(200)["status"], "ready");
    let wrong = format!("redis://:{PASSWORD}-not@{}", redis.tcp());
    let output = world.run(&["--hot", &wrong, "doctor"]).stdout;
    assert!(
        output.contains("refuses the user or the password"),
        "{output}"
    );
    let other = format!("redis://:{PASSWORD}@{}/99", redis.tcp());
    let output = world.run(&["--hot", &other, "doctor"]).stdout;
    assert!(output.contains("has no database 99"), "{output}");
    let other = format!("redis://:{PASSWORD}@{}/?cluster=true", redis.tcp());
    let output = world.run(&["--hot", &other, "doctor"]).stdout;
    assert!(output.contains("is not a cluster"), "{output}");
    for arguments in [&["doctor"][..], &["config", "show"], &["sessions", "list"]] {
        let command_output = world.run(&[&["--hot", &wrong], arguments].concat());
        assert!(
            !command_output.stdout.contains(PASSWORD) && !command_output.stderr.contains(PASSWORD),
            "{command_output:?}"
        );
    }
    let malformed = format!("redis:/:{PASSWORD}@x");
    let command_output = world.run(&["--hot", &malformed, "config", "show"]);
    assert_eq!(command_output.code, Some(2), "{command_output:?}");
    assert!(
        !command_output.stderr.contains(PASSWORD),
        "{command_output:?}"
    );
    let log = server.log();
    server.stop();
    assert!(log.contains("TRACE") && !log.contains(PASSWORD));
}

#[test]
fn a_full_redis_is_reported() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[]);
    let (client, url) = (server.client(), redis.url());
    let doctor = || world.run(&["--hot", &url, "doctor"]);
    check_ephemeral(
        &client.post("/v/turns", &complete_turn_json("r1", "One?", "1")),
        201,
    );
    assert!(doctor().stdout.contains("it has no maxmemory"));
    redis.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    client
        .post("/v/turns", &complete_turn_json("r2", "Two?", "2"))
        .fails(503, "hot_unavailable");
    let ready = client.get_body("/readyz");
    assert_eq!(ready["status"], "degraded");
    let why = ready["hot"].as_str().unwrap();
    assert!(why.starts_with("refuses writes: Redis is full"), "{why}");
    assert_eq!(pairs(&client, "v").len(), 1);
    let command_output = doctor();
    assert_eq!(command_output.code, Some(1), "{command_output:?}");
    assert!(
        command_output.stdout.contains("refuses writes"),
        "{command_output:?}"
    );
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    check_ephemeral(
        &client.post("/v/turns", &complete_turn_json("r2", "Two?", "2")),
        201,
    );
    assert_eq!(client.get_body("/readyz")["status"], "ready");
    server.stop();
}
