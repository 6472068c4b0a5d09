//! Resuming a session over HTTP: the newest checkpoint, the items after it, and the known seq (P3, DESIGN §6).

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::call_log::source;
use crate::http::{Client, text_item};
use crate::leases::{serve_with, start};
use crate::limits::metric;
use crate::world::World;

fn resume(client: &Client, body: &Value) -> Value {
    client.post("/s/resume", body).wrote(200)
}

/// Resumes the session, then releases its lease.
fn resume_and_release(client: &Client, holder: &str, known: Option<u64>) -> Value {
    let resumed = resume(client, &json!({"holder": holder, "known_seq": known}));
    client
        .delete(&format!(
            "/s/lease?holder={holder}&fence={}",
            resumed["fence"]
        ))
        .wrote(200);
    resumed
}

/// The seqs of the returned items.
fn seqs(resumed: &Value) -> Vec<u64> {
    let tail = resumed["tail"].as_array().unwrap();
    tail.iter()
        .map(|item| item["seq"].as_u64().unwrap())
        .collect()
}

/// The number of the session's events of this kind.
fn count_events(client: &Client, kind: &str) -> usize {
    let all = client.all("/s/events", 100);
    all.iter().filter(|event| event["kind"] == kind).count()
}

#[test]
fn a_session_is_resumed_where_it_stopped_and_stale_copies_are_detected() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client
        .post("/s/resume", &json!({"holder": "a"}))
        .fails(404, "session_not_found");
    let created = client
        .post(
            "/s/resume",
            &json!({"holder": "a", "create": true, "known_seq": 0}),
        )
        .wrote(201);
    let expires_at = &created["expires_at"];
    let source = source();
    assert_eq!(
        created,
        json!({"fence": 1, "holder": "a", "expires_at": expires_at, "checkpoint": null, "tail": [], "tail_cursor": null, "last_seq": 0,
        "stale": false, "source": source, "created": true, "state": null, "fallback": null})
    );
    client
        .post("/s/resume", &json!({"holder": "b", "wait_ms": 0}))
        .fails(423, "lease_timeout");
    for n in 1..=3 {
        let turn = json!({"request_id": format!("r{n}"), "question_neutral": "?", "answer_neutral": "!", "fence": 1});
        client.post("/s/turns", &turn).wrote(201);
    }
    client.put("/s/checkpoints", &json!({"seq": 4, "label": "WAIT_CONFIRM", "state": {"slots": [2]}, "fence": 1, "release": true})).wrote(201);

    let resumed = resume_and_release(&client, "b", Some(4));
    assert_eq!(
        (&resumed["fence"], &resumed["created"]),
        (&json!(2), &json!(false))
    );
    assert_eq!(
        resumed["checkpoint"],
        client.get_body("/s/checkpoints/latest")
    );
    assert_eq!(resumed["state"], "WAIT_CONFIRM");
    assert_eq!(seqs(&resumed), [5, 6]);
    assert_eq!(
        (&resumed["tail_cursor"], &resumed["last_seq"]),
        (&Value::Null, &json!(6))
    );
    assert_eq!(
        resumed["stale"], true,
        "the copy ends at seq 4, the session at seq 6"
    );
    assert_eq!(
        resumed["tail"],
        client.get_body("/s/items?after=4")["data"],
        "the tail has the form of the list"
    );
    assert_eq!(count_events(&client, "resume_from_pg"), 1);
    assert_eq!(resume_and_release(&client, "c", Some(6))["stale"], false);
    assert_eq!(
        count_events(&client, "resume_from_pg"),
        1,
        "the store returned only known items"
    );
    assert_eq!(
        resume_and_release(&client, "d", Some(7))["stale"],
        true,
        "the server lacks items that the caller knows"
    );
    assert_eq!(resume_and_release(&client, "e", None)["stale"], Value::Null);
    assert_eq!(count_events(&client, "resume_from_pg"), 3);
    assert_eq!(count_events(&client, "session_reconstruct_used"), 0);
    let turn = client.get_body("/s/turns")["data"][2]["turn_id"]
        .as_str()
        .unwrap()
        .to_owned();
    client
        .post(
            &format!("/s/turns/{turn}/redact"),
            &json!({"reason": "on request"}),
        )
        .wrote(200);
    let redacted = resume_and_release(&client, "f", None);
    assert_eq!(redacted["tail"][0]["redacted"], true, "{redacted}");
    let count = format!("filrouge_resumes_total{{source=\"{source}\",fallback=\"none\"}}");
    assert!(metric(&client, &count) >= 6.0);
    server.stop();
    world.verify();
}

/// Flips a bit of the stored checkpoint at `seq`, whose state contains `needle`. No server may run meanwhile.
fn damage_checkpoint(world: &World, on_sqlite: bool, (seq, needle): (u64, &str)) {
    if on_sqlite {
        let mut bytes = fs::read(world.store()).unwrap();
        let found: Vec<usize> = bytes
            .windows(needle.len())
            .enumerate()
            .filter(|(_, w)| *w == needle.as_bytes())
            .map(|(at, _)| at)
            .collect();
        assert!(!found.is_empty(), "{needle} is not in the file");
        for at in found {
            bytes[at] ^= 1;
        }
        fs::write(world.store(), bytes).unwrap();
    } else {
        let sql = format!(
            "UPDATE filrouge.checkpoint SET data = set_byte(data, length(data) - 1, get_byte(data, length(data) - 1) # 1) WHERE seq = {seq} RETURNING seq"
        );
        assert_eq!(world.database().sql(&sql).len(), 1);
    }
}

#[test]
fn an_unreadable_checkpoint_falls_back_to_the_previous_one_then_to_all_items() {
    let world = World::new();
    let on_sqlite = std::env::var_os("FILROUGE_TEST_STORE").is_none();
    let server = world.serve();
    let client = server.client();
    for n in 1..=3 {
        start(&client, &format!("r{n}"), None);
        let needle = format!("needle-{n}-needle");
        client
            .put(
                "/s/checkpoints",
                &json!({"seq": n, "state": {"is": needle}}),
            )
            .wrote(201);
    }
    server.stop();
    damage_checkpoint(&world, on_sqlite, (3, "needle-3-needle"));
    let server = world.serve();
    let client = server.client();
    let older = resume_and_release(&client, "a", None);
    assert_eq!(
        (&older["checkpoint"]["seq"], &older["fallback"]),
        (&json!(2), &json!("older_checkpoint"))
    );
    assert_eq!(seqs(&older), [3], "the items after the older checkpoint");
    assert_eq!(count_events(&client, "session_reconstruct_used"), 1);
    let listed = client.get_body("/s/checkpoints");
    assert_eq!(
        listed["data"][0],
        json!({"seq": 3, "label": null, "state": null, "created_at": null, "unreadable": true})
    );
    assert_eq!(listed["data"][1]["unreadable"], false);
    assert_eq!(client.get_body("/s/checkpoints/latest")["seq"], 2);
    assert!(
        server
            .log()
            .contains("[CALL_RESUME_WARN] err=checkpoint_unreadable"),
        "{}",
        server.log()
    );
    server.stop();
    for n in [1, 2] {
        damage_checkpoint(&world, on_sqlite, (n, &format!("needle-{n}-needle")));
    }
    let server = world.serve();
    let client = server.client();
    let replay = resume_and_release(&client, "b", None);
    assert_eq!(
        (&replay["checkpoint"], &replay["fallback"]),
        (&Value::Null, &json!("replay"))
    );
    assert_eq!(seqs(&replay), [1, 2, 3]);
    assert_eq!(count_events(&client, "session_reconstruct_used"), 2);
    client
        .get("/s/checkpoints/latest")
        .fails(404, "checkpoint_not_found");
    // A new checkpoint replaces the unreadable one.
    client
        .put(
            "/s/checkpoints",
            &json!({"seq": 3, "state": {"is": "readable"}}),
        )
        .wrote(201);
    let readable = resume_and_release(&client, "c", None);
    assert_eq!(
        (&readable["checkpoint"]["seq"], &readable["fallback"]),
        (&json!(3), &Value::Null)
    );
    server.stop();
}

#[test]
fn a_session_in_a_terminal_state_cannot_continue() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    start(&client, "r", None);
    client
        .put(
            "/s/checkpoints",
            &json!({"label": "WAIT_CONFIRM", "state": {}}),
        )
        .wrote(201);
    let fence = resume(&client, &json!({"holder": "a"}))["fence"].clone();
    start(&client, "two", fence.as_u64());
    let last = json!({"label": "CONFIRMED", "state": {"slot": 2}, "fence": fence, "release": true});
    client.put("/s/checkpoints", &last).wrote(201);
    client
        .post("/s/resume", &json!({"holder": "b"}))
        .fails(409, "session_terminated");
    client
        .post("/s/resume", &json!({"holder": "b", "create": true}))
        .fails(409, "session_terminated");
    client
        .post("/s/lease", &json!({"holder": "b"}))
        .fails(409, "session_terminated");
    assert_eq!(client.get_body("/s/lease")["holder"], Value::Null);
    let another = json!({"request_id": "three", "question_neutral": "q"});
    client
        .post("/s/turns", &another)
        .fails(409, "session_terminated");
    client
        .patch("/s", &json!({"state": "TRANSFERRED"}))
        .wrote(200);
    client
        .post("/s/turns", &another)
        .fails(409, "session_terminated");
    // A write of another state reopens the session.
    client.patch("/s", &json!({"state": "START"})).wrote(200);
    resume(&client, &json!({"holder": "b"}));
    server.stop();
    // Another setting replaces the default; a closed session stays closed.
    let server = serve_with(&world, &[("FILROUGE_TERMINAL_STATES", "none")]);
    let client = server.client();
    client
        .patch("/s", &json!({"state": "CONFIRMED", "fence": 2}))
        .wrote(200);
    start(&client, "four", Some(2));
    client.post("/s/close", &json!({"fence": 2})).wrote(200);
    client.delete("/s/lease?holder=b&fence=2").wrote(200);
    client
        .post("/s/resume", &json!({"holder": "c"}))
        .fails(409, "session_closed");
    server.stop();
    world.verify();
}

#[test]
fn the_journal_can_be_disabled_for_reads_or_completely() {
    let world = World::new();
    let server = serve_with(&world, &[("FILROUGE_JOURNAL", "shadow")]);
    let client = server.client();
    start(&client, "r", None);
    client
        .put(
            "/s/checkpoints",
            &json!({"label": "WAIT", "state": {"n": 1}}),
        )
        .wrote(201);
    let shadow = resume_and_release(&client, "a", Some(0));
    assert_eq!(shadow["source"], "shadow");
    for absent in ["checkpoint", "state", "stale", "tail_cursor", "fallback"] {
        assert_eq!(shadow[absent], Value::Null, "{absent}");
    }
    assert_eq!(shadow["tail"], json!([]));
    assert_eq!(count_events(&client, "resume_from_pg"), 0);
    server.stop();
    let server = serve_with(&world, &[("FILROUGE_JOURNAL", "off")]);
    let client = server.client();
    client
        .post("/s/lease", &json!({"holder": "a"}))
        .fails(409, "journal_off");
    client
        .post("/s/resume", &json!({"holder": "a"}))
        .fails(409, "journal_off");
    client
        .put("/s/checkpoints", &json!({"state": {}}))
        .fails(409, "journal_off");
    start(&client, "two", None);
    assert_eq!(
        client.get_body("/s/checkpoints/latest")["label"],
        "WAIT",
        "the earlier checkpoint is readable"
    );
    server.stop();
    let server = world.serve();
    let on = resume_and_release(&server.client(), "a", Some(2));
    assert_eq!(
        (&on["checkpoint"]["seq"], &on["state"]),
        (&json!(1), &json!("WAIT"))
    );
    server.stop();
    world.verify();
}

#[test]
fn a_long_tail_is_paged_to_its_end() {
    const ITEMS: u64 = 10_000;
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = start(&client, "r", None);
    let mut last = 1;
    while last < ITEMS {
        let count = 500.min(ITEMS - last);
        let items: Vec<Value> = (0..count)
            .map(|n| text_item(&format!("i{}", last + n), "assistant", "thought", "hm"))
            .collect();
        let appended = client
            .post(&format!("{turn}/items"), &json!({"items": items}))
            .wrote(201);
        last = appended["last_seq"].as_u64().unwrap();
    }
    let resumed = resume_and_release(&client, "a", None);
    assert_eq!(resumed["last_seq"], ITEMS);
    assert_eq!(
        count_events(&client, "session_reconstruct_used"),
        1,
        "there is no checkpoint"
    );
    let mut seen = seqs(&resumed);
    assert_eq!(seen.len(), 200);
    let mut after = resumed["tail_cursor"].as_u64().unwrap();
    while after < ITEMS {
        let page = client.get_body(&format!("/s/items?after={after}&limit=500"));
        let items = page["data"].as_array().unwrap();
        seen.extend(items.iter().map(|item| item["seq"].as_u64().unwrap()));
        after = *seen.last().unwrap();
    }
    assert!(
        seen.iter().copied().eq(1..=ITEMS),
        "the pages contain {} different seqs",
        seen.iter().collect::<BTreeSet<_>>().len()
    );
    // With a fresh checkpoint the tail is empty.
    client
        .put("/s/checkpoints", &json!({"state": {}}))
        .wrote(201);
    let fresh = resume_and_release(&client, "b", Some(ITEMS));
    assert_eq!(
        (&fresh["tail"], &fresh["tail_cursor"]),
        (&json!([]), &Value::Null)
    );
    server.stop();
}
