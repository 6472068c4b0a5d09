//! The live tail: from any seq, across processes, until the session ends.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::Client;
use crate::tail_client::Tail;
use crate::world::{Server, World};

/// Records a complete turn of two items.
fn record_turn(client: &Client, session: &str, request: usize) {
    let body = json!({
        "request_id": format!("r{request}"), "question_neutral": format!("question {request}"),
        "answer_neutral": format!("answer {request}"),
    });
    client.post(&format!("/{session}/turns"), &body).wrote(201);
}

/// All items of a session, as the list shows them.
fn items(client: &Client, session: &str) -> Vec<Value> {
    let page = client.get_body(&format!("/{session}/items?limit=500"));
    page["data"].as_array().unwrap().clone()
}

/// Opens a tail, which must succeed.
fn open(server: &Server, path: &str, headers: &[(&str, &str)]) -> Tail {
    let tail = Tail::open(server.origin(), path, headers);
    assert_eq!(tail.status(), 200, "{}", tail.head);
    assert!(tail.head.contains("content-type: text/event-stream"));
    tail
}

/// Checks that the events are these items, in this order.
#[track_caller]
fn assert_same(events: &[crate::tail_client::Event], items: &[Value]) {
    assert_eq!(events.len(), items.len());
    for (event, item) in events.iter().zip(items) {
        assert_eq!(
            (event.name.as_str(), event.id),
            ("item", item["seq"].as_u64())
        );
        assert_eq!(event.json(), *item);
    }
}

#[test]
fn a_tail_shows_existing_and_then_new_items() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    (1..=100).for_each(|n| record_turn(&client, "s", n));
    let mut tail = open(&server, "/s/items?after=0", &[]);
    assert_same(&tail.take(200), &items(&client, "s"));
    record_turn(&client, "s", 101);
    assert_same(&tail.take(2), &items(&client, "s")[200..]);
}

#[test]
fn a_tail_starts_after_the_last_event_else_after_the_parameter_else_at_the_end() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    (1..=3).for_each(|n| record_turn(&client, "s", n));
    let mut tails = [
        (
            4,
            open(&server, "/s/items?after=2", &[("last-event-id", "4")]),
        ),
        (2, open(&server, "/s/items?after=2", &[])),
        (6, open(&server, "/s/items", &[])),
        (7, open(&server, "/s/items?after=7", &[])),
    ];
    record_turn(&client, "s", 4);
    let all = items(&client, "s");
    for (after, tail) in &mut tails {
        assert_same(&tail.take(8 - *after), &all[*after..]);
    }
    let refused = Tail::open(server.origin(), "/s/items", &[("last-event-id", "x")]);
    assert_eq!(refused.status(), 422);
}

#[test]
fn every_byte_of_an_item_is_delivered() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let body = "{\"request_id\":\"r\",\"question_neutral\":\"a\\nb\",\"items\":[{\"role\":\"tool\",\"channel\":\"observation\",\
        \"parts\":[\n {\"type\":\"text\",\r\n\"text\":\"data: x\\r\\n\\nevent: y\"} ,\r {\"type\":\"odd\",\"n\":1.0} ]}]}";
    client.post_text("/s/turns", body).wrote(201);
    let mut tail = open(&server, "/s/items?after=0", &[]);
    assert_same(&tail.take(2), &items(&client, "s"));
}

#[test]
fn a_tail_shows_writes_of_another_server() {
    let world = World::new();
    let (one, two) = (world.serve(), world.serve());
    let (own, other) = (one.client(), two.client());
    record_turn(&own, "s", 1);
    let mut tail = open(&one, "/s/items", &[]);
    for n in 2..=20 {
        record_turn(if n % 3 == 0 { &own } else { &other }, "s", n);
        assert_same(&tail.take(2), &items(&other, "s")[2 * (n - 1)..]);
    }
}

#[test]
fn redactions_are_items_and_an_erasure_is_the_last_event() {
    let world = World::new();
    let server = world.serve();
    let client = server.client().for_identity("ada");
    record_turn(&client, "s", 1);
    let turn = client.get_body("/s/turns")["data"][0]["turn_id"].clone();
    let mut tail = open(&server, "/s/items?after=0", &[("filrouge-identity", "ada")]);
    assert_eq!(tail.take(2)[0].json()["redacted"], false);
    let path = format!("/s/turns/{}/redact", turn.as_str().unwrap());
    client
        .post(&path, &json!({"reason": "requested by the user"}))
        .wrote(200);
    let redaction = tail.take(1)[0].json();
    assert_eq!(
        (&redaction["seq"], &redaction["channel"]),
        (&json!(3), &json!("redaction"))
    );
    let mut second = open(&server, "/s/items?after=0", &[("filrouge-identity", "ada")]);
    assert_eq!(second.take(3)[0].json()["redacted"], true);
    client.delete("/s").wrote(200);
    for mut tail in [tail, second] {
        let last = tail.next().unwrap();
        assert_eq!((last.name.as_str(), last.id), ("erased", None));
        assert_eq!(last.json()["session_id"], "s");
        assert_eq!(tail.next(), None);
    }
    let erased = Tail::open(server.origin(), "/s/items", &[("filrouge-identity", "ada")]);
    assert_eq!(erased.status(), 410);
}

#[test]
fn only_the_owner_gets_a_tail() {
    let world = World::new();
    let server = world.serve();
    let (ada, anonymous) = (server.client().for_identity("ada"), server.client());
    record_turn(&ada, "hers", 1);
    for who in ["bob", "Ada"] {
        let foreign = Tail::open(
            server.origin(),
            "/hers/items",
            &[("filrouge-identity", who)],
        );
        let absent = Tail::open(
            server.origin(),
            "/none/items",
            &[("filrouge-identity", who)],
        );
        assert_eq!((foreign.status(), absent.status()), (404, 404));
        assert_eq!(foreign.rest().replace("hers", "none"), absent.rest());
    }
    // A tail ends when the session gets an owner, although its caller was allowed to open it.
    record_turn(&anonymous, "open", 1);
    let mut tail = open(&server, "/open/items?after=0", &[]);
    tail.take(2);
    ada.put("/open/link", &json!({"identity_id": "ada"}))
        .wrote(200);
    record_turn(&ada, "open", 2);
    assert_eq!(tail.next(), None, "an item after the link was shown");
}

#[test]
fn a_stopping_server_ends_its_tails() {
    let world = World::new();
    let server = world.serve();
    record_turn(&server.client(), "s", 1);
    let tails: Vec<Tail> = (0..20).map(|_| open(&server, "/s/items", &[])).collect();
    let began = Instant::now();
    server.stop();
    for tail in tails {
        assert!(!tail.rest().contains("event:"));
    }
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "the server waited for its tails"
    );
}

#[test]
fn a_long_poll_ends_with_the_turn_or_after_its_timeout() {
    let world = World::new();
    let (one, two) = (world.serve(), world.serve());
    let client = one.client();
    let start = json!({"request_id": "r", "question_neutral": "q"});
    let turn = client.post("/s/turns", &start).wrote(201);
    let path = format!("/s/turns/{}", turn["turn_id"].as_str().unwrap());
    assert_eq!(
        client.get_body(&format!("{path}?wait=50"))["status"],
        "open"
    );
    client
        .get(&format!("{path}?wait=60001"))
        .fails(422, "invalid");
    client.get(&format!("{path}?wait=-1")).fails(422, "invalid");
    std::thread::scope(|scope| {
        let poll = scope.spawn(|| client.get_body(&format!("{path}?wait=30000")));
        std::thread::sleep(Duration::from_millis(200));
        let done = json!({"answer_neutral": "a"});
        two.client()
            .post(&format!("{path}/finalize"), &done)
            .wrote(200);
        assert_eq!(poll.join().unwrap()["status"], "finalized");
    });
    assert_eq!(
        client.get_body(&format!("{path}?wait=30000"))["status"],
        "finalized"
    );
}

#[test]
fn a_stream_with_two_start_positions_is_refused() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record_turn(&client, "s", 1);
    let refused = Tail::open(server.origin(), "/s/items?cursor=1", &[]);
    assert_eq!(refused.status(), 422);
    client
        .get("/s/items?after=0&cursor=1")
        .fails(422, "invalid");
}
