//! Copies of durable sessions in Redis: whatever happens to Redis, responses equal those of a server without Redis, byte
//! for byte.

use filrouge_testbed::{Options, Redis, Server as PostgresServer};
use serde_json::{Value, json};

use crate::hot::{complete_turn_json, open_turn_json, redis_content, turn_path, wait_for_copies};
use crate::http::{Client, text_item};
use crate::limits::{metric, until};
use crate::world::{Server, World};

/// Starts a server whose hot store is in Redis; all its sessions are in the ledger.
fn serve(world: &World, redis: &Redis, more: &[(&str, &str)]) -> Server {
    let url = redis.url();
    let hot = [
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ("FILROUGE_HOT", url.as_str()),
        ("FILROUGE_HOT_TIMEOUT_MS", "5000"),
    ];
    world.serve_with_env(&[&hot, more].concat(), &[])
}

/// The metric that counts reads of the hot store with this outcome.
fn reads(outcome: &str) -> String {
    format!("filrouge_hot_reads_total{{outcome=\"{outcome}\"}}")
}

/// Checks that a server with Redis and one without return the same bytes, with every limit.
#[track_caller]
fn assert_same(hot: &Client, plain: &Client, session: &str) {
    for limit in [1, 2, 3, 20, 500] {
        let path = format!("/{session}/turns?status=finalized&limit={limit}");
        let (hot_response, plain_response) = (hot.get(&path), plain.get(&path));
        assert_eq!(
            (hot_response.status, &hot_response.text),
            (plain_response.status, &plain_response.text),
            "{path}"
        );
        assert_eq!(hot_response.header("filrouge-source"), None);
        if let Some(cursor) = plain_response.body()["next_cursor"].as_str() {
            let next = format!("{path}&cursor={cursor}");
            assert_eq!(hot.get(&next).text, plain.get(&next).text);
        }
    }
}

/// Sends every kind of write to a session; compares the responses after each.
fn write_and_compare(hot: &Client, plain: &Client, session: &str) {
    let turns = format!("/{session}/turns");
    let mut last = Value::Null;
    for n in 0..4 {
        last = hot
            .post(
                &turns,
                &complete_turn_json(&format!("r{n}"), &format!("{n} ł ?"), "!"),
            )
            .is(201);
        assert_same(hot, plain, session);
    }
    let started = hot.post(&turns, &open_turn_json("o", "Open?")).is(201);
    assert_same(hot, plain, session);
    let item = json!({ "items": [text_item("i", "assistant", "thought", "Hm.")] });
    plain
        .post(&format!("{}/items", turn_path(session, &started)), &item)
        .is(201);
    assert_same(hot, plain, session);
    let finalize = format!("{}/finalize", turn_path(session, &started));
    hot.post(&finalize, &json!({ "answer_neutral": "Open." }))
        .is(200);
    assert_same(hot, plain, session);
    let replace = format!("{}/replace", turn_path(session, &last));
    hot.post(&replace, &complete_turn_json("n", "New?", "New."))
        .is(201);
    assert_same(hot, plain, session);
    let failed = hot.post(&turns, &open_turn_json("f", "Failed?")).is(201);
    let error = json!({ "error": { "code": "c" } });
    hot.post(&format!("{}/fail", turn_path(session, &failed)), &error)
        .is(200);
    assert_same(hot, plain, session);
    plain
        .post(&turns, &complete_turn_json("elsewhere", "?", "!"))
        .is(201);
    assert_same(hot, plain, session);
    let reason = json!({ "reason": "requested by the user" });
    hot.post(&format!("{}/redact", turn_path(session, &started)), &reason)
        .is(200);
    assert_same(hot, plain, session);
    hot.patch(&format!("/{session}"), &json!({ "title": "T" }))
        .is(200);
    assert_same(hot, plain, session);
}

#[test]
fn responses_are_the_same_with_and_without_redis() {
    let (world, redis) = (World::new(), Redis::start());
    let (hot_server, plain_server) = (serve(&world, &redis, &[]), world.serve());
    let (hot, plain) = (
        hot_server.client().for_identity("ada"),
        plain_server.client().for_identity("ada"),
    );
    write_and_compare(&hot, &plain, "a");
    hot.for_identity("bob")
        .get("/a/turns?status=finalized")
        .fails(404, "session_not_found");
    wait_for_copies(&hot);
    until("a copy answers", || {
        assert_same(&hot, &plain, "a");
        metric(&hot, &reads("hit")) > 0.0
    });
    redis.cli(&["FLUSHALL"]);
    write_and_compare(&hot, &plain, "b");
    let older = redis.save();
    let body = complete_turn_json("later", "?", "!");
    hot.post("/a/turns", &body).is(201);
    redis.start_from(&older);
    assert_same(&hot, &plain, "a");
    redis.kill();
    write_and_compare(&hot, &plain, "c");
    assert_eq!(hot.get_body("/readyz")["status"], "degraded");
    redis.restart();
    until("Redis is back", || {
        hot.get_body("/readyz")["status"] == "ready"
    });
    write_and_compare(&hot, &plain, "d");
    assert!(metric(&hot, &reads("hit")) > 0.0 && metric(&hot, "filrouge_hot_steps_waiting") == 0.0);
    for session in ["a", "b", "c", "d"] {
        assert_same(&hot, &plain, session);
    }
    hot_server.stop();
    plain_server.stop();
    world.verify();
}

#[test]
fn a_copy_of_another_ledger_is_not_used() {
    let redis = Redis::start();
    let worlds = [World::new(), World::new()];
    let servers = worlds.each_ref().map(|world| serve(world, &redis, &[]));
    for (server, question) in servers.iter().zip(["first", "second"]) {
        let client = server.client();
        client
            .post("/s/turns", &complete_turn_json("r", question, "!"))
            .wrote(201);
        wait_for_copies(&client);
    }
    for (server, question) in servers.iter().zip(["first", "second"]) {
        let page = server.client().get_body("/s/turns?status=finalized");
        assert_eq!(page["data"].as_array().unwrap().len(), 1);
        assert_eq!(page["data"][0]["question_neutral"], question);
    }
    let keys = redis.cli(&["KEYS", "filrouge:*:r"]);
    assert_eq!(keys.lines().count(), 2, "{keys}");
    for server in servers {
        server.stop();
    }
}

#[test]
fn doctor_compares_copies_with_the_ledger() {
    let (world, redis) = (World::new(), Redis::start());
    let server = serve(&world, &redis, &[]);
    let client = server.client();
    for n in 0..4 {
        client
            .post(&format!("/s{n}/turns"), &complete_turn_json("r", "?", "!"))
            .wrote(201);
    }
    wait_for_copies(&client);
    let url = redis.url();
    let doctor = |more: &[&str]| {
        let output = world.run(&[&["--hot", &url, "doctor", "--json"], more].concat());
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        (output.code, report["hot"].clone())
    };
    let (code, hot) = doctor(&[]);
    assert_eq!(code, Some(0), "{hot}");
    assert_eq!(hot["kind"], "redis");
    assert!(
        hot["version"].is_string() && hot["used_bytes"].as_u64() > Some(0),
        "{hot}"
    );
    let copies = &hot["copies"];
    assert_eq!(
        (&copies["sessions"], &copies["fresh"]),
        (&json!(4), &json!(4)),
        "{hot}"
    );
    let (_, hot) = doctor(&["--sessions", "3"]);
    assert_eq!(hot["copies"]["sessions"], 3);
    let text = world.ok(&["--hot", &url, "doctor"]);
    assert!(
        text.contains("SQLite ") || text.contains("PostgreSQL "),
        "{text}"
    );
    assert!(
        text.contains("ok      copies         newest 4 sessions: 4 fresh, 0 stale"),
        "{text}"
    );

    // Writes that bypass the copies leave one stale, one absent and one forged copy.
    let plain = world.serve();
    plain
        .client()
        .post("/s0/turns", &complete_turn_json("q", "?", "!"))
        .wrote(201);
    plain.stop();
    let keys = redis.cli(&["KEYS", "filrouge:*:r"]);
    let key_of = |session: &str| {
        let turn = &client.get_body(&format!("/{session}/turns"))["data"][0];
        let id = turn["turn_id"].as_str().unwrap().to_owned();
        let has_turn = |key: &&str| redis.cli(&["ZRANGE", key, "0", "-1"]).contains(&id);
        keys.lines().find(has_turn).unwrap().to_owned()
    };
    let (deleted, forged) = (key_of("s1"), key_of("s2"));
    redis.cli(&["DEL", &deleted]);
    let (code, hot) = doctor(&[]);
    let copies = &hot["copies"];
    assert_eq!(code, Some(0), "{hot}");
    assert_eq!(
        (
            &copies["fresh"],
            &copies["stale"],
            &copies["absent"],
            &copies["lag_seqs"]
        ),
        (&json!(2), &json!(1), &json!(1), &json!(2))
    );
    // Replaces the answer "!" by "?" in the copied turns.
    let forge = "local n = 0 \
        for _, turn in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
            local other, found = string.gsub(turn, '\"!\"', '\"?\"') \
            if found > 0 then \
                redis.call('ZREM', KEYS[1], turn) \
                redis.call('ZADD', KEYS[1], 0, other) \
                n = n + 1 \
            end \
        end \
        return n";
    assert_eq!(redis.cli(&["EVAL", forge, "1", &forged]), "1");
    let (code, hot) = doctor(&[]);
    assert_eq!(code, Some(1), "{hot}");
    assert_eq!(hot["copies"]["different"], json!(["s2"]));
    assert_eq!(
        client.get_body("/s2/turns?status=finalized")["data"][0]["answer_neutral"],
        "!"
    );

    redis.kill();
    let output = world.run(&["--hot", &url, "doctor"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains("FAILED  hot"), "{output:?}");
    assert!(output.stdout.contains("ok      heads"), "{output:?}");
    server.stop();
}

/// Only for PostgreSQL: a store in SQLite cannot be stopped.
#[test]
fn while_the_database_is_down_a_copy_answers_with_its_position() {
    let (postgres, redis) = (PostgresServer::start(Options::default()), Redis::start());
    let world = World::at(&postgres.url(&postgres.database()), "buffered");
    let server = serve(&world, &redis, &[]);
    let (ada, bob) = (
        server.client().for_identity("ada"),
        server.client().for_identity("bob"),
    );
    let mut newest = Value::Null;
    for n in 0..3 {
        newest = ada
            .post("/s/turns", &complete_turn_json(&format!("r{n}"), "?", "!"))
            .wrote(201);
    }
    wait_for_copies(&ada);
    let path = "/s/turns?status=finalized&limit=2";
    let before = ada.get(path);
    assert_eq!(before.header("filrouge-source"), None);
    assert!(redis_content(&redis).contains(newest["turn_id"].as_str().unwrap()));
    postgres.stop_immediate();
    until("the copy answers", || ada.get(path).status == 200);
    let as_of = ada.get(path);
    assert_eq!(as_of.text, before.text);
    assert_eq!(as_of.header("filrouge-source"), Some("hot"));
    let seq = newest["last_seq"].to_string();
    assert_eq!(as_of.header("filrouge-as-of-seq"), Some(seq.as_str()));
    // The copy does not answer for another owner, or for contents that it lacks.
    bob.get(path).fails(503, "store_unavailable");
    ada.get("/s").fails(503, "store_unavailable");
    postgres.restart();
    until("the database answers", || ada.get("/s").status == 200);
    assert!(metric(&ada, &reads("as_of")) >= 1.0);
    assert_eq!(ada.get(path).header("filrouge-source"), None);
    server.stop();
    world.verify();
}
