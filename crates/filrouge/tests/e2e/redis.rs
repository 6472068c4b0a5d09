//! Redacted and erased contents are removed from Redis at once, and no older state of Redis restores them.

use filrouge_testbed::Redis;
use serde_json::{Value, json};

use crate::hot::{CANARY, at, check_ephemeral, copied, held, pairs, whole, with_redis};
use crate::http::Client;
use crate::limits::{metric, until};
use crate::world::{World, finish};

/// Records three turns of a session; the middle one is about the canary.
fn three(client: &Client, session: &str) -> Vec<Value> {
    let words = ["One", CANARY, "Three"];
    let turns = words.iter().enumerate().map(|(n, words)| {
        let body = whole(&format!("r{n}"), &format!("{words}?"), &format!("{words}!"));
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
        let reply = client.get(&format!("/{session}{path}"));
        assert!(!reply.text.contains(CANARY), "{path}: {reply:?}");
    }
}

fn redact(client: &Client, session: &str, turn: &Value) {
    let reason = json!({ "reason": "asked to" });
    client
        .post(&format!("{}/redact", at(session, turn)), &reason)
        .is(200);
}

/// Empties Redis, starts it from an older dump, and restarts it after a kill; runs `after` each time.
fn troubles(redis: &Redis, older: &[u8], after: impl Fn(&str)) {
    redis.cli(&["FLUSHALL"]);
    after("emptied");
    redis.start_from(older);
    after("an older dump");
    redis.kill();
    redis.restart();
    after("started again");
}

#[test]
fn a_redacted_turn_of_the_ledger_does_not_come_back() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[]);
    let ada = server.client().of("ada");
    let turns = three(&ada, "s");
    copied(&ada);
    let sealed = held(&redis);
    assert!(
        sealed.contains(turns[1]["turn_id"].as_str().unwrap()),
        "{sealed}"
    );
    let older = redis.save();
    redact(&ada, "s", &turns[1]);
    assert!(
        !held(&redis).contains(CANARY),
        "erased from Redis before the answer"
    );
    assert_absent(&ada, "s");
    troubles(&redis, &older, |what| {
        until(what, || ada.see("/readyz")["status"] == "ready");
        assert_absent(&ada, "s");
        assert_eq!(pairs(&ada, "s").len(), 2, "{what}");
        let again = with_redis(&world, &redis, &[]);
        assert_absent(&again.client().of("ada"), "s");
    });
    server.stop();
    world.verify();
}

#[test]
fn a_redacted_anonymous_turn_does_not_come_back() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[]);
    let client = server.client();
    let turns = three(&client, "v");
    three(&client, "w");
    assert!(held(&redis).contains(CANARY));
    let older = redis.save();
    redact(&client, "v", &turns[1]);
    assert_absent(&client, "v");
    assert_eq!(pairs(&client, "v").len(), 2);
    client.delete("/w").is(200);
    assert!(
        !held(&redis).contains(CANARY),
        "erased from Redis before the answer"
    );
    let newest = redis.save();
    troubles(&redis, &older, |what| {
        until(what, || client.see("/readyz")["status"] == "ready");
        let again = with_redis(&world, &redis, &[]);
        for client in [&client, &again.client()] {
            assert_absent(client, "v");
            assert_absent(client, "w");
            // A user who logs in does not see it either.
            assert!(!client.of("ada").get("/w/items").text.contains(CANARY));
        }
    });
    // Turns newer than the redaction are shown, also by a server that has just started.
    redis.start_from(&newest);
    let again = with_redis(&world, &redis, &[]);
    assert_eq!(pairs(&again.client(), "v").len(), 2);
    let ada = again.client().of("ada");
    ada.post("/v/turns", &whole("login", "?", "!")).wrote(201);
    assert_absent(&ada, "v");
    world.holds_nowhere(CANARY);
    server.stop();
    world.verify();
}

#[test]
fn lost_writes_are_detected() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[]);
    let client = server.client();
    let turns = format!("/{}/turns", "v");
    check_ephemeral(&client.post(&turns, &whole("r1", "One?", "One.")), 201);
    let older = redis.save();
    let lost = check_ephemeral(&client.post(&turns, &whole("r2", "Two?", "Two.")), 201);
    redis.start_from(&older);
    until("Redis answers", || {
        client.see("/readyz")["status"] == "ready"
    });
    client.get("/v").fails(404, "session_not_found");
    client.get(&at("v", &lost)).fails(410, "turn_expired");
    assert_eq!(metric(&client, "filrouge_ephemeral_went_back_total"), 1.0);
    // The session starts anew, with the same ids.
    let again = check_ephemeral(&client.post(&turns, &whole("r2", "Two?", "Two.")), 201);
    assert_eq!(again["turn_id"], lost["turn_id"]);
    assert_eq!(pairs(&client, "v").len(), 1);
    server.stop();
}

#[test]
fn the_command_line_erases_contents_in_redis() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[]);
    let ada = server.client().of("ada");
    let turns = three(&ada, "s");
    three(&ada, "t");
    copied(&ada);
    let url = redis.url();
    let turn = turns[1]["turn_id"].as_str().unwrap();
    assert!(held(&redis).contains(turn));
    let redact = [
        "--hot", &url, "redact", "s", "--turn", turn, "--reason", "asked to",
    ];
    let receipt = world.json(&redact);
    let erased = |store: &str| json!({ "store": store, "status": "erased" });
    assert_eq!(receipt["stores"], json!([erased("ledger"), erased("hot")]));
    assert!(!held(&redis).contains(turn));
    assert_absent(&ada, "s");
    let erase = ["--hot", &url, "erase", "--session", "t", "--yes"];
    let reported = world.ok(&erase);
    assert!(reported.contains("hot store: erased"), "{reported}");
    copied(&ada);
    redis.pause();
    let done = world.run(&[
        "--hot", &url, "redact", "s", "--seq", "1", "--reason", "asked to",
    ]);
    redis.resume();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.stdout
            .contains("hot store: unreachable; repeat the command"),
        "{done:?}"
    );
    assert!(!ada.get("/s/turns?status=finalized").text.contains("One?"));
    // Without `--hot` the receipt does not mention Redis.
    let reported = world.json(&["redact", "s", "--seq", "2", "--reason", "asked to"]);
    assert_eq!(reported["stores"], json!([erased("ledger")]));
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
    let said = whole("r1", CANARY, CANARY);
    check_ephemeral(&client.post("/v/turns", &said), 201);
    client.of("ada").post("/hers/turns", &said).is(201);
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
    assert!(!held(&redis).contains(CANARY));
    client.get("/v").fails(410, "session_erased");
    server.stop();
}

#[test]
fn a_password_is_required_and_never_reported() {
    const PASSWORD: &str = "h0t-p4ssw0rd";
    let world = World::new();
    let redis = Redis::with_settings(&[("requirepass", PASSWORD)]);
    let server = with_redis(&world, &redis, &[]);
    let ready = server.client().see("/readyz");
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
        &server.client().post("/v/turns", &whole("r", "?", "!")),
        201,
    );
    let ready = server.client().get("/readyz");
    assert_eq!(ready.is(200)["status"], "ready");
    let wrong = format!("redis://:{PASSWORD}-not@{}", redis.tcp());
    let reported = world.run(&["--hot", &wrong, "doctor"]).stdout;
    assert!(
        reported.contains("refuses the user or the password"),
        "{reported}"
    );
    let other = format!("redis://:{PASSWORD}@{}/99", redis.tcp());
    let reported = world.run(&["--hot", &other, "doctor"]).stdout;
    assert!(reported.contains("has no database 99"), "{reported}");
    let other = format!("redis://:{PASSWORD}@{}/?cluster=true", redis.tcp());
    let reported = world.run(&["--hot", &other, "doctor"]).stdout;
    assert!(reported.contains("is not a cluster"), "{reported}");
    for arguments in [&["doctor"][..], &["config", "show"], &["sessions", "list"]] {
        let done = world.run(&[&["--hot", &wrong], arguments].concat());
        assert!(
            !done.stdout.contains(PASSWORD) && !done.stderr.contains(PASSWORD),
            "{done:?}"
        );
    }
    let wrong = format!("redis:/:{PASSWORD}@x");
    let done = world.run(&["--hot", &wrong, "config", "show"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(!done.stderr.contains(PASSWORD), "{done:?}");
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
    check_ephemeral(&client.post("/v/turns", &whole("r1", "One?", "1")), 201);
    assert!(doctor().stdout.contains("it has no maxmemory"));
    redis.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    client
        .post("/v/turns", &whole("r2", "Two?", "2"))
        .fails(503, "hot_unavailable");
    let ready = client.see("/readyz");
    assert_eq!(ready["status"], "degraded");
    let why = ready["hot"].as_str().unwrap();
    assert!(why.starts_with("refuses writes: Redis is full"), "{why}");
    assert_eq!(pairs(&client, "v").len(), 1);
    let done = doctor();
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.contains("refuses writes"), "{done:?}");
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    check_ephemeral(&client.post("/v/turns", &whole("r2", "Two?", "2")), 201);
    assert_eq!(client.see("/readyz")["status"], "ready");
    server.stop();
}
