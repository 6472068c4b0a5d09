//! Two concurrent deliveries of the same webhook: one starts the turn and answers it. Depending on `on_busy`, the other
//! waits for that answer, is refused, or gets an empty response (DESIGN §6).

use std::sync::Barrier;

use serde_json::json;

use crate::http::Client;
use crate::leases::{acquire, start};
use crate::limits::{metric, until};
use crate::world::World;

/// Starts the turn of the webhook; both deliveries send the same request.
fn start_turn(client: &Client, query: &str) -> crate::http::Response {
    let body = json!({"request_id": "webhook-1", "question_neutral": "le 2"});
    client.post(&format!("/s/turns{query}"), &body)
}

#[test]
fn one_of_two_concurrent_requests_answers_and_both_get_the_answer() {
    let world = World::new();
    // Each request is sent to a different server.
    let servers = [world.serve(), world.serve()];
    start(&servers[0].client(), "before", None);
    let barrier = Barrier::new(2);
    let answers = std::thread::scope(|scope| {
        let deliveries = [0, 1].map(|n| {
            let (client, barrier) = (servers[n].client(), &barrier);
            scope.spawn(move || {
                barrier.wait();
                let response = start_turn(&client, "?on_busy=wait&wait=60000");
                if response.status == 200 {
                    return (false, response.wrote(200));
                }
                let turn = response.wrote(201);
                let path = format!("/s/turns/{}/finalize", turn["turn_id"].as_str().unwrap());
                (
                    true,
                    client
                        .post(&path, &json!({"answer_neutral": "confirmed"}))
                        .wrote(200),
                )
            })
        });
        deliveries.map(|delivery| delivery.join().unwrap())
    });
    assert_eq!(
        answers.iter().filter(|(started, _)| *started).count(),
        1,
        "{answers:?}"
    );
    for (_, turn) in &answers {
        assert_eq!(
            (&turn["status"], &turn["answer_neutral"]),
            (&json!("finalized"), &json!("confirmed"))
        );
        assert_eq!(turn["turn_id"], answers[0].1["turn_id"]);
    }
    let waited = answers.iter().find(|(started, _)| !started).unwrap();
    assert_eq!(waited.1["replayed"], true);
    drop(servers);
    world.verify();
}

#[test]
fn a_request_that_does_not_wait_is_refused_or_gets_an_empty_response() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    start_turn(&client, "?on_busy=204").wrote(201);
    assert_eq!(
        start_turn(&client, "").wrote(200)["status"],
        "open",
        "by default, the open turn is returned"
    );
    let refused = start_turn(&client, "?on_busy=reject");
    refused.fails(409, "turn_busy");
    assert_eq!(refused.header("retry-after"), Some("1"));
    start_turn(&client, "?on_busy=wait&wait=20").fails(409, "turn_busy");
    let empty = start_turn(&client, "?on_busy=204");
    assert_eq!((empty.status, empty.text.as_str()), (204, ""));
    for bad in [
        "?on_busy=never",
        "?wait=5",
        "?on_busy=204&wait=5",
        "?on_busy=wait&wait=60001",
    ] {
        start_turn(&client, bad).fails(422, "invalid");
    }
    let turn = client.get_body("/s/turns?request_id=webhook-1")["data"][0]["turn_id"].clone();
    client
        .post(
            &format!("/s/turns/{}/finalize", turn.as_str().unwrap()),
            &json!({"answer_neutral": "a"}),
        )
        .wrote(200);
    for query in ["", "?on_busy=wait", "?on_busy=reject", "?on_busy=204"] {
        assert_eq!(
            start_turn(&client, query).wrote(200)["answer_neutral"],
            "a",
            "{query}"
        );
    }
    server.stop();
    world.verify();
}

#[test]
fn a_request_for_a_leased_session_is_refused_or_gets_an_empty_response() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    start(&client, "r", None);
    let fence = acquire(&client, "a");
    for route in ["lease", "resume"] {
        let post = |query: &str, body| client.post(&format!("/s/{route}{query}"), &body);
        let empty = post("?on_busy=204", json!({"holder": "b", "wait_ms": 20}));
        assert_eq!((empty.status, empty.text.as_str()), (204, ""), "{route}");
        post("?on_busy=reject", json!({"holder": "b"})).fails(423, "lease_timeout");
        post("?on_busy=wait", json!({"holder": "b", "wait_ms": 20})).fails(423, "lease_timeout");
        post("?on_busy=reject", json!({"holder": "b", "wait_ms": 20})).fails(422, "invalid");
        post("?on_busy=204", json!({"holder": "b", "fence": 1})).fails(422, "invalid");
    }
    let timeouts = client.all("/s/events", 100);
    let timeouts = timeouts.iter().filter(|e| e["kind"] == "call_lock_timeout");
    assert_eq!(timeouts.count(), 1, "one event for each waiter and fence");
    assert!(metric(&client, "filrouge_lease_timeouts_total") >= 4.0);
    assert!(metric(&client, "filrouge_leases_refused_total") >= 2.0);
    // A request waits until the lease is released.
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let body = json!({"holder": "b", "wait_ms": 30_000});
            client.post("/s/resume?on_busy=204", &body)
        });
        until("the request waits", || {
            metric(&client, "filrouge_http_requests_in_flight") >= 2.0
        });
        client
            .delete(&format!("/s/lease?holder=a&fence={fence}"))
            .wrote(200);
        assert_eq!(waiter.join().unwrap().wrote(200)["fence"], fence + 1);
    });
    server.stop();
    world.verify();
}
