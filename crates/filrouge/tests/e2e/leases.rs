//! Leases over HTTP: one holder at a time, ever-growing fences, and waiters that are woken (DESIGN §6).

use serde_json::{Value, json};

use crate::http::{Client, Response, text_item};
use crate::limits::{metric, until};
use crate::upload_client::{Upload, journal, text, wait_for_draft};
use crate::world::{Server, World};

/// Starts a server with additional environment variables.
pub(crate) fn serve_with(world: &World, environment: &[(&str, &str)]) -> Server {
    let listen = [("FILROUGE_LISTEN", "127.0.0.1:0")];
    world.serve_with_env(&[&listen, environment].concat(), &[])
}

/// Starts a turn of the session `s`; returns its path.
pub(crate) fn start(client: &Client, request: &str, fence: Option<u64>) -> String {
    let body = json!({"request_id": request, "question_neutral": "Which way?", "fence": fence});
    let turn = client.post("/s/turns", &body).wrote(201);
    format!("/s/turns/{}", turn["turn_id"].as_str().unwrap())
}

/// Acquires the lease of the session `s`; returns the fence.
pub(crate) fn acquire(client: &Client, holder: &str) -> u64 {
    let lease = client
        .post("/s/lease", &json!({"holder": holder}))
        .wrote(201);
    assert_eq!(lease["holder"], holder);
    assert!(lease["expires_at"].is_string(), "{lease}");
    lease["fence"].as_u64().unwrap()
}

fn release(client: &Client, holder: &str, fence: u64) -> Response {
    client.delete(&format!("/s/lease?holder={holder}&fence={fence}"))
}

/// Sends every kind of write that continues the session, with this fence; returns the responses by name.
fn writes(client: &Client, turn: &str, fence: Option<u64>) -> Vec<(&'static str, Response)> {
    let with_fence = |mut body: Value| {
        if let Some(fence) = fence {
            body["fence"] = fence.into();
        }
        body
    };
    let post = |name: &'static str, path: String, body: Value| {
        (name, client.post(&path, &with_fence(body)))
    };
    let item = text_item("i", "assistant", "thought", "hm");
    vec![
        post(
            "start",
            "/s/turns".into(),
            json!({"request_id": "other", "question_neutral": "?"}),
        ),
        post("append", format!("{turn}/items"), json!({"items": [item]})),
        post(
            "finalize",
            format!("{turn}/finalize"),
            json!({"answer_neutral": "a"}),
        ),
        post(
            "fail",
            format!("{turn}/fail"),
            json!({"error": {"code": "c", "message": "m", "retryable": false}}),
        ),
        post("cancel", format!("{turn}/cancel"), json!({})),
        post("close", "/s/close".into(), json!({})),
        (
            "state",
            client.patch("/s", &with_fence(json!({"state": "X"}))),
        ),
        (
            "checkpoint",
            client.put("/s/checkpoints", &with_fence(json!({"state": {}}))),
        ),
    ]
}

#[test]
fn a_session_has_one_holder_and_all_other_writers_are_refused() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = start(&client, "r", None);
    let not_leased = json!({"fence": 0, "holder": null, "expires_at": null});
    assert_eq!(client.get_body("/s/lease"), not_leased);
    let first = acquire(&client, "a");
    assert_eq!(first, 1);
    let again = client.post("/s/lease", &json!({"holder": "a", "ttl_ms": 60_000}));
    assert_eq!(
        again.wrote(200)["fence"],
        first,
        "the holder keeps its fence"
    );
    assert_eq!(client.get_body("/s/lease")["holder"], "a");

    let refused = client.post("/s/lease", &json!({"holder": "b", "wait_ms": 1}));
    let reported = refused.fails(423, "lease_timeout");
    assert_eq!(reported["holder"], "a");
    assert_eq!(
        reported["expires_at"],
        client.get_body("/s/lease")["expires_at"]
    );
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");

    for (name, response) in writes(&client, &turn, None) {
        assert_eq!(response.fails(409, "lease_held")["holder"], "a", "{name}");
    }
    for (name, response) in writes(&client, &turn, Some(first + 6)) {
        let reported = response.fails(409, "stale_fence");
        assert_eq!(reported.get("holder"), None, "{name}");
    }
    assert_eq!(client.get_body("/s")["last_seq"], 1, "nothing was written");
    // Writes that do not continue the session need no lease.
    client.patch("/s", &json!({"title": "A call"})).wrote(200);
    client
        .post("/s/events", &json!({"key": "k", "kind": "call_started"}))
        .wrote(201);

    let fence = first.to_string();
    let item = json!({"items": [text_item("i", "assistant", "thought", "hm")]});
    let header = [("filrouge-fence", fence.as_str())];
    client
        .send("POST", &format!("{turn}/items"), Some(&item), &header)
        .wrote(201);
    let two_fences = json!({"items": [text_item("j", "assistant", "thought", "hm")], "fence": 2});
    let refused = client.send("POST", &format!("{turn}/items"), Some(&two_fences), &header);
    refused.fails(422, "invalid");
    for wrong in ["", "x", "-1", "1.0", "+1", "99999999999999999999"] {
        let header = [("filrouge-fence", wrong)];
        client
            .send("GET", "/s", None, &header)
            .fails(422, "invalid");
    }
    let done = json!({"answer_neutral": "left", "fence": first});
    client.post(&format!("{turn}/finalize"), &done).wrote(200);
    let replaced = json!({"request_id": "r2", "question_neutral": "?", "answer_neutral": "right"});
    client
        .post(&format!("{turn}/replace"), &replaced)
        .fails(409, "lease_held");

    release(&client, "b", first).fails(409, "lease_held");
    release(&client, "a", first + 1).wrote(200);
    assert_eq!(
        client.get_body("/s/lease")["holder"],
        "a",
        "a different fence does not release the lease"
    );
    let released = release(&client, "a", first).wrote(200);
    assert_eq!(
        (&released["holder"], &released["fence"]),
        (&Value::Null, &json!(first))
    );
    release(&client, "a", first).wrote(200);
    client.delete("/s/lease?holder=a").fails(422, "invalid");
    client.delete("/s/lease?fence=1").fails(422, "invalid");

    let late = json!({"request_id": "late", "question_neutral": "?", "fence": first});
    client.post("/s/turns", &late).fails(409, "lease_expired");
    start(&client, "free", None);
    let second = acquire(&client, "b");
    assert_eq!(second, first + 1);
    client.post("/s/turns", &late).fails(409, "stale_fence");
    start(&client, "held", Some(second));
    for (code, minimum) in [
        ("lease_held", 9.0),
        ("stale_fence", 9.0),
        ("lease_expired", 1.0),
    ] {
        let name = format!("filrouge_lease_refusals_total{{code=\"{code}\"}}");
        assert!(metric(&client, &name) >= minimum, "{code}");
    }
    assert!(metric(&client, "filrouge_leases_total") >= 3.0);
    assert!(metric(&client, "filrouge_lease_timeouts_total") >= 1.0);
    server.stop();
    world.verify();
}

#[test]
fn a_lease_is_renewed_by_its_holder_and_expires() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    start(&client, "r", None);
    client
        .put("/s/lease", &json!({"holder": "a"}))
        .fails(422, "invalid");
    client
        .put("/s/lease", &json!({"holder": "a", "fence": 1}))
        .fails(409, "stale_fence");
    let fence = acquire(&client, "a");
    client
        .put("/s/lease", &json!({"holder": "b", "fence": fence}))
        .fails(409, "lease_held");
    let renewed = client.put(
        "/s/lease",
        &json!({"holder": "a", "fence": fence, "ttl_ms": 1}),
    );
    assert_eq!(renewed.wrote(200)["fence"], fence);
    until("the lease expires", || {
        client.get_body("/s/lease")["holder"].is_null()
    });
    client
        .put("/s/lease", &json!({"holder": "a", "fence": fence}))
        .fails(409, "lease_expired");
    // Even the same holder gets a new fence, although no other caller has acquired the lease since.
    assert_eq!(acquire(&client, "a"), fence + 1);
    for bad in [
        json!({"holder": ""}),
        json!({"holder": "a\nb"}),
        json!({"holder": "a", "ttl_ms": 0}),
        json!({"holder": "a", "ttl_ms": 600_001}),
        json!({"holder": "a", "wait_ms": 30_001}),
        json!({}),
    ] {
        client.post("/s/lease", &bad).fails(422, "invalid");
    }
    client
        .post("/none/lease", &json!({"holder": "a"}))
        .fails(404, "session_not_found");
    server.stop();
    world.verify();
}

#[test]
fn a_write_can_release_the_lease() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    start(&client, "r", None);
    let is_free = |client: &Client| client.get_body("/s/lease")["holder"].is_null();
    let without_fence = json!({"request_id": "x", "question_neutral": "?", "release": true});
    client
        .post("/s/turns", &without_fence)
        .fails(422, "invalid");

    let fence = acquire(&client, "a");
    let turn = start(&client, "one", Some(fence));
    let done = json!({"answer_neutral": "left", "fence": fence, "release": true});
    client.post(&format!("{turn}/finalize"), &done).wrote(200);
    assert!(is_free(&client));
    // A retry of the last write gets the first response, even if another caller holds the session by then.
    let next = acquire(&client, "b");
    client.post(&format!("{turn}/finalize"), &done).wrote(200);
    assert!(!is_free(&client));

    let complete = json!({"request_id": "two", "question_neutral": "?", "answer_neutral": "a", "fence": next, "release": true});
    client.post("/s/turns", &complete).wrote(201);
    assert!(is_free(&client));
    let third = acquire(&client, "c");
    let checkpoint = json!({"label": "WAIT", "state": {"n": 1}, "fence": third, "release": true});
    client.put("/s/checkpoints", &checkpoint).wrote(201);
    assert!(is_free(&client));
    let fourth = acquire(&client, "d");
    let again = json!({"label": "WAIT", "state": {"n": 1}, "fence": fourth, "release": true});
    client.put("/s/checkpoints", &again).wrote(200);
    assert!(
        is_free(&client),
        "a repeated checkpoint releases the lease as well"
    );
    server.stop();
    world.verify();
}

/// With `record = conversation`, such items are dropped, but their fence is still checked.
#[test]
fn items_that_are_not_recorded_need_the_fence_too() {
    let world = World::new();
    let server = serve_with(&world, &[("FILROUGE_RECORD", "conversation")]);
    let client = server.client();
    let turn = start(&client, "r", None);
    let items = format!("{turn}/items");
    let thought = |id: &str, fence: Option<u64>, release: bool| json!({"items": [text_item(id, "assistant", "thought", "hm")], "fence": fence, "release": release});
    client.post(&items, &thought("a", None, false)).wrote(201);
    let fence = acquire(&client, "a");
    client
        .post(&items, &thought("b", None, false))
        .fails(409, "lease_held");
    client
        .post(&items, &thought("b", Some(fence + 1), false))
        .fails(409, "stale_fence");
    let kept = client
        .post(&items, &thought("b", Some(fence), true))
        .wrote(201);
    assert_eq!(kept["not_recorded"], 1);
    assert!(
        client.get_body("/s/lease")["holder"].is_null(),
        "the write released the lease"
    );
    server.stop();
    world.verify();
}

#[test]
fn a_waiter_at_another_server_wakes_when_the_session_is_released() {
    let world = World::new();
    let servers = [world.serve(), world.serve()];
    let [first, second] = [servers[0].client(), servers[1].client()];
    start(&first, "r", None);
    // The lease lasts longer than any wait in this test.
    let lease = first
        .post("/s/lease", &json!({"holder": "a", "ttl_ms": 600_000}))
        .wrote(201);
    let fence = lease["fence"].as_u64().unwrap();
    second
        .post("/s/lease", &json!({"holder": "b", "wait_ms": 0}))
        .fails(423, "lease_timeout");
    let body = json!({"request_id": "x", "question_neutral": "?"});
    second.post("/s/turns", &body).fails(409, "lease_held");
    std::thread::scope(|scope| {
        let waiter =
            scope.spawn(|| second.post("/s/lease", &json!({"holder": "b", "wait_ms": 30_000})));
        release(&first, "a", fence).wrote(200);
        let lease = waiter.join().unwrap().wrote(201);
        assert_eq!(lease["fence"], fence + 1);
    });
    first
        .post(
            "/s/turns",
            &json!({"request_id": "x", "question_neutral": "?", "fence": fence}),
        )
        .fails(409, "stale_fence");
    drop(servers);
    world.verify();
}

/// Ends the server that handles a call within a webhook, and starts another one: the next webhook continues at once,
/// although the lease lasts longer than any wait in this test.
fn check_next_webhook_after(end: fn(Server)) {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let webhook = json!({"holder": "webhook-1", "create": true, "ttl_ms": 600_000});
    let fence = client.post("/s/resume", &webhook).wrote(201)["fence"].clone();
    let fence = fence.as_u64().unwrap();
    let turn = start(&client, "r", Some(fence));
    let checkpoint = json!({"label": "WAIT_CONFIRM", "state": {"slots": 2}, "fence": fence});
    client.put("/s/checkpoints", &checkpoint).wrote(201);
    end(server);

    let server = world.serve();
    let client = server.client();
    let webhook = json!({"holder": "webhook-2", "wait_ms": 30_000});
    let resumed = client.post("/s/resume", &webhook).wrote(200);
    assert_eq!(resumed["fence"], fence + 1);
    assert_eq!(resumed["state"], "WAIT_CONFIRM");
    assert_eq!(metric(&client, "filrouge_lease_timeouts_total"), 0.0);
    let events = client.all("/s/events", 100);
    assert!(
        events.iter().all(|e| e["kind"] != "call_lock_timeout"),
        "{events:?}"
    );
    let late = json!({"answer_neutral": "late", "fence": fence});
    client
        .post(&format!("{turn}/finalize"), &late)
        .fails(409, "stale_fence");
    let answer = json!({"answer_neutral": "Friday at two", "fence": fence + 1, "release": true});
    client.post(&format!("{turn}/finalize"), &answer).wrote(200);
    server.stop();
    world.verify();
}

#[test]
fn the_next_webhook_does_not_wait_for_the_lease_of_a_killed_server() {
    check_next_webhook_after(|mut server| server.kill());
}

#[test]
fn the_next_webhook_does_not_wait_for_the_lease_of_a_stopped_server() {
    check_next_webhook_after(Server::stop);
}

/// Another server takes over the call in the middle of a webhook, for its handler.
#[test]
fn a_handler_that_continues_at_another_server_keeps_its_lease() {
    let world = World::new();
    let (mut first, second) = (world.serve(), world.serve());
    let client = first.client();
    start(&client, "r", None);
    let lease = client.post("/s/lease", &json!({"holder": "a", "ttl_ms": 600_000}));
    let fence = lease.wrote(201)["fence"].as_u64().unwrap();
    first.kill();
    let client = second.client();
    start(&client, "more", Some(fence));
    client
        .post("/s/lease", &json!({"holder": "b", "wait_ms": 0}))
        .fails(423, "lease_timeout");
    start(&client, "even more", Some(fence));
    second.stop();
    world.verify();
}

#[test]
fn after_a_takeover_the_fence_from_a_killed_server_is_stale() {
    let world = World::new();
    let mut server = world.serve();
    let client = server.client();
    let turn = start(&client, "r", None);
    let lease = client
        .post("/s/lease", &json!({"holder": "a", "ttl_ms": 300}))
        .wrote(201);
    let fence = lease["fence"].as_u64().unwrap();
    server.kill();
    let server = world.serve();
    let client = server.client();
    // The request waits until the lease of the first holder expires.
    let lease = client
        .post("/s/lease", &json!({"holder": "b", "wait_ms": 30_000}))
        .wrote(201);
    assert_eq!(lease["fence"], fence + 1);
    for (name, response) in writes(&client, &turn, Some(fence)) {
        assert_eq!(
            response.fails(409, "stale_fence")["title"],
            "The lease was taken over",
            "{name}"
        );
    }
    assert_eq!(client.get_body("/s")["last_seq"], 1);
    server.stop();
    world.verify();
}

#[test]
fn a_recording_whose_lease_was_taken_over_ends_and_keeps_its_text() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    start(&client, "r", None);
    let fence = acquire(&client, "a");
    let turn = start(&client, "streamed", Some(fence));
    let path = format!("{turn}/stream?format=openai-chat");
    let sse = ("content-type", "text/event-stream");
    let mut refused = Upload::begin(server.origin(), &path, &[sse, ("filrouge-fence", "77")]);
    refused.response().fails(409, "stale_fence");
    let number = fence.to_string();
    let mut upload = Upload::begin(server.origin(), &path, &[sse, ("filrouge-fence", &number)]);
    upload.send_text("To the left");
    wait_for_draft(&server);
    release(&client, "a", fence).wrote(200);
    let next = acquire(&client, "b");
    upload.send_text(" of the exit");
    upload.response().fails(409, "stale_fence");
    assert_eq!(client.get_body(&turn)["status"], "open");
    let refused_streams = "filrouge_streams_total{format=\"openai-chat\",outcome=\"stale_fence\"}";
    assert!(metric(&client, refused_streams) >= 1.0);
    assert!(
        server
            .log()
            .contains("a recording was ended: its lease no longer holds the session"),
        "{}",
        server.log()
    );
    let cancelled = client.post(&format!("{turn}/cancel"), &json!({"fence": next}));
    cancelled.wrote(200);
    let items = journal(&client);
    let partial = items.iter().find(|(channel, _)| channel == "partial");
    assert_eq!(partial.unwrap().1, text("To the left"), "{items:?}");
    server.stop();
    world.verify();
}

#[test]
fn a_session_looks_absent_to_other_callers() {
    let world = World::new();
    let server = world.serve();
    let ada = server.client().for_identity("ada");
    start(&ada, "r", None);
    ada.put("/s/checkpoints", &json!({"state": {}})).wrote(201);
    let fence = acquire(&ada, "a");
    for other in [server.client().for_identity("bob"), server.client()] {
        let responses = [
            other.get("/s/lease"),
            other.post("/s/lease", &json!({"holder": "b", "wait_ms": 0})),
            other.put("/s/lease", &json!({"holder": "a", "fence": fence})),
            release(&other, "a", fence),
            other.post("/s/resume", &json!({"holder": "a"})),
            other.put("/s/checkpoints", &json!({"state": {}, "fence": fence})),
            other.get("/s/checkpoints"),
            other.get("/s/checkpoints/latest"),
        ];
        for response in responses {
            let reported = response.fails(404, "session_not_found");
            assert!(!reported.to_string().contains("\"a\""), "{reported}");
        }
        // As for any creation under an id that exists.
        let created = other.post("/s/resume", &json!({"holder": "b", "create": true}));
        created.fails(409, "session_conflict");
    }
    assert_eq!(ada.get_body("/s/lease")["holder"], "a");
    server.stop();
    world.verify();
}
