//! Two concurrent deliveries of one webhook: one does the work; the other waits for its answer, is refused, or gets an
//! empty answer (DESIGN §6).

use std::sync::Barrier;

use serde_json::json;

use crate::http::Client;
use crate::leases::{start, take};
use crate::limits::{metric, until};
use crate::world::World;

fn ask(client: &Client, query: &str) -> crate::http::Reply {
    let body = json!({"request_id": "webhook-1", "question_neutral": "le 2"});
    client.post(&format!("/s/turns{query}"), &body)
}

#[test]
fn one_of_two_concurrent_requests_works_and_both_get_its_answer() {
    let world = World::new();
    // Each request is sent to a different server.
    let servers = [world.serve(), world.serve()];
    start(&servers[0].client(), "before", None);
    let both = Barrier::new(2);
    let answers = std::thread::scope(|scope| {
        let hits = [0, 1].map(|n| {
            let (client, both) = (servers[n].client(), &both);
            scope.spawn(move || {
                both.wait();
                let reply = ask(&client, "?on_busy=wait&wait=60000");
                if reply.status == 200 {
                    return (false, reply.wrote(200));
                }
                let turn = reply.wrote(201);
                let path = format!("/s/turns/{}/finalize", turn["turn_id"].as_str().unwrap());
                (
                    true,
                    client
                        .post(&path, &json!({"answer_neutral": "confirmed"}))
                        .wrote(200),
                )
            })
        });
        hits.map(|hit| hit.join().unwrap())
    });
    assert_eq!(
        answers.iter().filter(|(worked, _)| *worked).count(),
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
    let waited = answers.iter().find(|(worked, _)| !worked).unwrap();
    assert_eq!(waited.1["replayed"], true);
    drop(servers);
    world.verify();
}

#[test]
fn a_request_that_does_not_wait_is_refused_or_gets_an_empty_answer() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    ask(&client, "?on_busy=204").wrote(201);
    assert_eq!(
        ask(&client, "").wrote(200)["status"],
        "open",
        "as it stands, unless it is asked otherwise"
    );
    let refused = ask(&client, "?on_busy=reject");
    refused.fails(409, "turn_busy");
    assert_eq!(refused.header("retry-after"), Some("1"));
    ask(&client, "?on_busy=wait&wait=20").fails(409, "turn_busy");
    let nothing = ask(&client, "?on_busy=204");
    assert_eq!((nothing.status, nothing.text.as_str()), (204, ""));
    for bad in [
        "?on_busy=never",
        "?wait=5",
        "?on_busy=204&wait=5",
        "?on_busy=wait&wait=60001",
    ] {
        ask(&client, bad).fails(422, "invalid");
    }
    let turn = client.see("/s/turns?request_id=webhook-1")["data"][0]["turn_id"].clone();
    client
        .post(
            &format!("/s/turns/{}/finalize", turn.as_str().unwrap()),
            &json!({"answer_neutral": "a"}),
        )
        .wrote(200);
    for query in ["", "?on_busy=wait", "?on_busy=reject", "?on_busy=204"] {
        assert_eq!(
            ask(&client, query).wrote(200)["answer_neutral"],
            "a",
            "{query}"
        );
    }
    server.stop();
    world.verify();
}

#[test]
fn a_held_session_may_get_an_empty_answer() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    start(&client, "r", None);
    let fence = take(&client, "a");
    for route in ["lease", "resume"] {
        let ask = |query: &str, body| client.post(&format!("/s/{route}{query}"), &body);
        let nothing = ask("?on_busy=204", json!({"holder": "b", "wait_ms": 20}));
        assert_eq!(
            (nothing.status, nothing.text.as_str()),
            (204, ""),
            "{route}"
        );
        ask("?on_busy=reject", json!({"holder": "b"})).fails(423, "lease_timeout");
        ask("?on_busy=wait", json!({"holder": "b", "wait_ms": 20})).fails(423, "lease_timeout");
        ask("?on_busy=reject", json!({"holder": "b", "wait_ms": 20})).fails(422, "invalid");
        ask("?on_busy=204", json!({"holder": "b", "fence": 1})).fails(422, "invalid");
    }
    let timeouts = client.all("/s/events", 100);
    let timeouts = timeouts.iter().filter(|e| e["kind"] == "call_lock_timeout");
    assert_eq!(timeouts.count(), 1, "one waiter, one fence");
    assert!(metric(&client, "filrouge_lease_timeouts_total") >= 4.0);
    assert!(metric(&client, "filrouge_leases_refused_total") >= 2.0);
    // One request waits until the lease is released.
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let body = json!({"holder": "b", "wait_ms": 30_000});
            client.post("/s/resume?on_busy=204", &body)
        });
        until("it waits", || {
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
