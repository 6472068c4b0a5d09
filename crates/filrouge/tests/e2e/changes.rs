//! The change feed: complete, without duplicates, in the order of commits, and only for callers that may see it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::Rng;
use serde_json::{Value, json};

use crate::caller::{Caller, key};
use crate::http::{Client, text_item};
use crate::limits::WAIT_LIMIT;
use crate::world::World;

/// Reads one page after a cursor; returns its changes and the next cursor.
#[track_caller]
pub(crate) fn page(client: &Client, after: &str, limit: usize) -> (Vec<Value>, String) {
    let path = format!("/api/v1/changes?after={after}&limit={limit}");
    let mut page = client.get_body(&path);
    let next = page["next_cursor"].as_str().unwrap().to_owned();
    assert_eq!(page.as_object().unwrap().len(), 2, "{page}");
    let data = page["data"].as_array_mut().unwrap();
    assert!(data.len() <= limit);
    (std::mem::take(data), next)
}

/// Reads all changes up to now.
pub(crate) fn all(client: &Client) -> Vec<Value> {
    let (mut rows, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let (data, next) = page(client, &after, 500);
        if data.is_empty() && next == after {
            return rows;
        }
        rows.extend(data);
        after = next;
    }
}

/// The lane, the commit and the place of a change, from its id.
pub(crate) fn position(change: &Value) -> (u64, u64, u64) {
    let id = change["id"].as_str().unwrap();
    let numbers: Vec<u64> = id.split(['-', '.']).map(|n| n.parse().unwrap()).collect();
    (numbers[0], numbers[1], numbers[2])
}

/// Checks that the changes of each lane are in the order of its commits, without a repetition.
#[track_caller]
pub(crate) fn assert_lanes_in_order<'c>(changes: impl IntoIterator<Item = &'c Value>) {
    let mut newest: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    for change in changes {
        let at = position(change);
        let before = newest.insert(at.0, at);
        assert!(before.is_none_or(|before| before < at), "{change}");
    }
}

/// Checks that two reads return the same changes. They may show those of different lanes in different orders, and then
/// their cursors differ.
#[track_caller]
pub(crate) fn assert_same<'c>(
    one: impl IntoIterator<Item = &'c Value>,
    other: impl IntoIterator<Item = &'c Value>,
) {
    fn without_cursors<'c>(changes: impl IntoIterator<Item = &'c Value>) -> Vec<Value> {
        let mut changes: Vec<Value> = changes.into_iter().cloned().collect();
        changes.sort_by_key(position);
        for change in &mut changes {
            change.as_object_mut().unwrap().remove("cursor");
        }
        changes
    }
    assert_eq!(without_cursors(one), without_cursors(other));
}

/// Checks the order of commits, and that every session's items have no gap; returns the number of items.
fn assert_complete(changes: &[Value]) -> u64 {
    assert_lanes_in_order(changes);
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for change in changes {
        let Some(first) = change["first_seq"].as_u64() else {
            continue;
        };
        let seq = last
            .entry(change["session_id"].as_str().unwrap())
            .or_default();
        assert_eq!(first, *seq + 1, "{change}");
        *seq = change["last_seq"].as_u64().unwrap();
    }
    last.values().sum()
}

/// Writes turns with items; returns the number of items.
fn write(client: &Client, name: &str, turns: usize) -> u64 {
    let mut items = 0;
    for n in 0..turns {
        // Half of the writes go to a session that all writers share.
        let session = if n % 2 == 0 { name } else { "shared" };
        let body = json!({ "request_id": format!("{name}-{n}"), "question_neutral": "?" });
        let turn = client.post(&format!("/{session}/turns"), &body).wrote(201);
        let path = format!(
            "/{session}/turns/{}/items",
            turn["turn_id"].as_str().unwrap()
        );
        let more =
            ["a", "b"].map(|x| text_item(&format!("{name}-{n}-{x}"), "assistant", "thought", "t"));
        client.post(&path, &json!({ "items": more })).wrote(201);
        items += 3;
    }
    items
}

#[test]
fn a_reader_of_random_pages_sees_concurrent_writes_complete_and_in_order() {
    let world = World::new();
    let servers = [world.serve(), world.serve()];
    let done = AtomicBool::new(false);
    let (written, seen) = std::thread::scope(|scope| {
        let readers: Vec<_> = servers
            .iter()
            .map(|server| {
                let (client, done) = (server.client(), &done);
                scope.spawn(move || {
                    let (mut rows, mut after) = (Vec::new(), "0".to_owned());
                    loop {
                        let last = done.load(Ordering::SeqCst);
                        let limit = rand::rng().random_range(1..=17);
                        let (data, next) = page(&client, &after, limit);
                        if data.is_empty() && next == after && last {
                            return rows;
                        }
                        rows.extend(data);
                        after = next;
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..4)
            .map(|n| {
                let client = servers[n % 2].client();
                scope.spawn(move || write(&client, &format!("w{n}"), 40))
            })
            .collect();
        let written: u64 = writers.into_iter().map(|w| w.join().unwrap()).sum();
        done.store(true, Ordering::SeqCst);
        let seen: Vec<_> = readers.into_iter().map(|r| r.join().unwrap()).collect();
        (written, seen)
    });
    assert_eq!(assert_complete(&seen[0]), written);
    assert_same(&seen[0], &seen[1]);
    let later = all(&servers[0].client());
    assert_same(&later, &seen[0]);
    let created = seen[0].iter().filter(|c| c["kind"] == "created").count();
    assert_eq!(created, 5);
    // A cursor within a commit works like one between two commits. With several lanes, another change may follow it.
    let is_inner = |cursor: &str| cursor.contains('.') && !cursor.contains('_');
    let inner = seen[0]
        .iter()
        .position(|c| is_inner(c["cursor"].as_str().unwrap()));
    if let Some(at) = inner {
        let after = seen[0][at]["cursor"].as_str().unwrap();
        let (data, _) = page(&servers[1].client(), after, 1);
        assert_eq!(data[0], seen[0][at + 1]);
    }
    for server in servers {
        server.stop();
    }
    world.verify();
}

#[test]
fn every_kind_of_change_is_reported_even_after_an_erasure() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.post("", &json!({ "session_id": "s" })).wrote(201);
    let body = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
    client.post("/s/turns", &body).wrote(201);
    client.patch("/s", &json!({ "title": "t" })).wrote(200);
    client
        .post("/s/events", &json!({ "key": "k", "kind": "call_started" }))
        .wrote(201);
    client.delete("/s").is(200);
    let kinds: Vec<_> = all(&client)
        .iter()
        .map(|c| {
            assert_eq!(c["session_id"], "s");
            let members: Vec<_> = c.as_object().unwrap().keys().cloned().collect();
            assert_eq!(
                members,
                [
                    "at",
                    "cursor",
                    "first_seq",
                    "id",
                    "kind",
                    "last_seq",
                    "session_id"
                ]
            );
            c["kind"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(kinds, ["created", "items", "patched", "event", "erased"]);
}

#[test]
fn an_end_user_sees_only_changes_of_their_own_sessions() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for identity in ["ada", "bob"] {
        let body = json!({ "request_id": "r", "question_neutral": "?" });
        client
            .for_identity(identity)
            .post(&format!("/of-{identity}/turns"), &body)
            .wrote(201);
    }
    client
        .post("", &json!({ "session_id": "anonymous" }))
        .wrote(201);
    let sessions = |client: &Client| -> Vec<String> {
        all(client)
            .iter()
            .map(|c| c["session_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(sessions(&client), ["of-ada", "of-bob", "anonymous"]);
    assert_eq!(sessions(&client.for_identity("ada")), ["of-ada"]);
    assert_eq!(sessions(&client.for_identity("eve")), [""; 0]);
    // Only owners see the erasure.
    client.for_identity("ada").delete("/of-ada").is(200);
    assert_eq!(
        all(&client.for_identity("ada")).last().unwrap()["kind"],
        "erased"
    );
    assert_eq!(sessions(&client.for_identity("bob")), ["of-bob"]);

    let feed = |caller: &Caller| {
        let response = caller.send("GET", "/api/v1/changes", None);
        (
            response.status,
            response.body()["data"].as_array().map_or(0, Vec::len),
        )
    };
    let total = all(&client).len();
    let keys = ["service", "auditor", "admin"].map(|role| key(&world, &["--role", role]));
    let user = key(&world, &["--role", "user", "--identity", "bob"]);
    let other = key(&world, &["--role", "admin", "--tenant", "other"]);
    drop(server);
    let server = world.serve();
    for key in &keys {
        let caller = Caller::with_credentials(&server, key);
        assert_eq!(feed(&caller), (200, total));
        assert_eq!(feed(&caller.for_identity("bob")), (200, 1));
    }
    assert_eq!(feed(&Caller::with_credentials(&server, &user)), (200, 1));
    assert_eq!(
        feed(&Caller::with_credentials(&server, &user).for_identity("ada")).0,
        403
    );
    assert_eq!(feed(&Caller::with_credentials(&server, &other)), (200, 0));
    assert_eq!(feed(&Caller::anonymous(&server)).0, 401);
}

#[test]
fn a_wait_ends_with_a_commit_of_any_process() {
    let world = World::new();
    let servers = [world.serve(), world.serve()];
    let reader = servers[0].client().for_identity("ada");
    for (n, writer) in [0, 1, 0, 1].into_iter().enumerate() {
        let after = reader.get_body("/api/v1/changes")["next_cursor"].clone();
        let path = format!(
            "/api/v1/changes?after={}&wait=60000",
            after.as_str().unwrap()
        );
        let page = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| reader.get_body(&path));
            std::thread::sleep(Duration::from_millis(300));
            assert!(!waiting.is_finished());
            let client = servers[writer].client().for_identity("ada");
            client
                .post("", &json!({ "session_id": n.to_string() }))
                .wrote(201);
            let written = Instant::now();
            let page = waiting.join().unwrap();
            assert!(
                written.elapsed() < WAIT_LIMIT,
                "the wait was not ended by the commit"
            );
            page
        });
        assert_eq!(page["data"].as_array().unwrap().len(), 1, "{page}");
        assert_eq!(page["data"][0]["session_id"], n.to_string());
    }
}

#[test]
fn commits_of_others_neither_end_nor_delay_a_wait() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let (ada, bob) = (client.for_identity("ada"), client.for_identity("bob"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let began = Instant::now();
                    (ada.get_body("/api/v1/changes?wait=2000"), began.elapsed())
                })
            })
            .collect();
        let writer = scope.spawn(|| {
            let mut written = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                bob.post("", &json!({ "session_id": format!("b{written}") }))
                    .wrote(201);
                written += 1;
            }
            written
        });
        for waiter in waiting {
            let (page, took) = waiter.join().unwrap();
            assert_eq!(page["data"], json!([]));
            assert!(
                took >= Duration::from_secs(2),
                "other callers' commits ended the wait after {took:?}"
            );
            assert!(took < WAIT_LIMIT, "other callers' commits delayed it");
            let lanes = page["next_cursor"].as_str().unwrap().split('_');
            let next: u64 = lanes.map(|commit| commit.parse::<u64>().unwrap()).sum();
            assert!(next > 5, "the cursor did not move: {next}");
        }
        stop.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 10);
    });
}

#[test]
fn a_wait_ends_when_the_server_stops() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let waiting = std::thread::spawn(move || client.get_body("/api/v1/changes?wait=60000"));
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed() < WAIT_LIMIT);
    assert_eq!(
        waiting.join().unwrap(),
        json!({ "data": [], "next_cursor": "0" })
    );
}

#[test]
fn malformed_cursors_are_refused_with_a_hint() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.post("", &json!({ "session_id": "s" })).wrote(201);
    let end = client.get_body("/api/v1/changes")["next_cursor"].clone();
    let (empty, end) = (
        json!({ "data": [], "next_cursor": end }),
        end.as_str().unwrap(),
    );
    for query in [
        format!("after={end}"),
        format!("cursor={end}"),
        format!("cursor={end}&after={end}"),
    ] {
        let page = client.get_body(&format!("/api/v1/changes?{query}"));
        assert_eq!(page, empty, "nothing new yet");
    }
    for bad in [
        "",
        "x",
        "-1",
        "+1",
        "1.",
        ".1",
        "1.2.3",
        "0.1",
        "2",
        "2.1",
        "1%20",
        "%00",
        "1'",
        "9223372036854775808",
        "18446744073709551615",
        "99999999999999999999999",
        "%D9%A1",
    ] {
        for name in ["after", "cursor"] {
            let problem = client
                .get(&format!("/api/v1/changes?{name}={bad}"))
                .fails(422, "invalid");
            assert!(problem["hint"].is_string(), "{bad}: {problem}");
        }
    }
    for bad in [
        "after=0&cursor=1",
        "limit=0",
        "limit=501",
        "wait=60001",
        "wait=-1",
        "wait=x",
        "since=1",
    ] {
        client
            .get(&format!("/api/v1/changes?{bad}"))
            .fails(422, "invalid");
    }
}

#[test]
fn a_checkpoint_is_a_change_and_a_lease_is_not() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.post("", &json!({ "session_id": "s" })).is(201);
    let lease = client.post("/s/lease", &json!({ "holder": "h" })).body();
    let put = json!({ "label": "START", "state": {}, "fence": lease["fence"], "release": true });
    client.put("/s/checkpoints", &put).is(201);
    let feed = client
        .send_without_body("GET", "/api/v1/changes", "")
        .is(200);
    let changes = feed["data"].as_array().unwrap();
    let kinds: Vec<&str> = changes
        .iter()
        .map(|c| c["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["created", "checkpoint"], "{feed}");
    assert_eq!(changes[1]["first_seq"], Value::Null);
}
