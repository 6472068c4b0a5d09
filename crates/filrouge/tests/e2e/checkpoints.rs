//! Checkpoints over HTTP: one for each seq, only the newest are kept, none contains secrets (DESIGN §6).

use serde_json::{Value, json};

use crate::leases::{acquire, serve_with, start};
use crate::world::World;

#[test]
fn a_checkpoint_is_written_once_for_each_seq() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client
        .put("/none/checkpoints", &json!({"state": {}}))
        .fails(404, "session_not_found");
    start(&client, "r", None);
    client
        .get("/s/checkpoints/latest")
        .fails(404, "checkpoint_not_found");
    assert_eq!(client.get_body("/s/checkpoints")["data"], json!([]));
    let first =
        json!({"seq": 1, "label": "WAIT_CONFIRM", "state": {"slots": ["a", "b"], "n": 1.50}});
    let put = client.put("/s/checkpoints", &first).wrote(201);
    assert_eq!(
        (&put["seq"], &put["label"]),
        (&json!(1), &json!("WAIT_CONFIRM"))
    );
    assert_eq!(
        client.put("/s/checkpoints", &first).wrote(200),
        put,
        "a retry gets the first answer"
    );
    assert_eq!(
        client.get_body("/s")["state"],
        "WAIT_CONFIRM",
        "the label is the session's state"
    );
    assert!(
        client.get("/s/checkpoints/latest").text.contains("1.5"),
        "the state is kept byte for byte"
    );
    let spaced =
        r#"{"seq": 1, "label": "WAIT_CONFIRM", "state": { "slots" : ["a",  "b"], "n": 1.5 }}"#;
    let spaced: Value = serde_json::from_str(spaced).unwrap();
    client.put("/s/checkpoints", &spaced).wrote(200);
    for other in [
        json!({"seq": 1, "label": "WAIT_CONFIRM", "state": {"slots": ["a"]}}),
        json!({"seq": 1, "label": "OTHER", "state": {"slots": ["a", "b"], "n": 1.5}}),
        json!({"seq": 1, "state": {"slots": ["a", "b"], "n": 1.5}}),
    ] {
        client
            .put("/s/checkpoints", &other)
            .fails(409, "idempotency_mismatch");
    }
    for bad in [
        json!({"seq": 2, "state": {}}),
        json!({"seq": 1, "state": []}),
        json!({"seq": 1, "state": null}),
        json!({"seq": 1}),
        json!({"seq": 1, "state": {}, "label": "x\u{0}"}),
        json!({"seq": 1, "state": {}, "more": 1}),
    ] {
        client.put("/s/checkpoints", &bad).fails(422, "invalid");
    }
    // Without a seq, a checkpoint covers all items up to now.
    start(&client, "two", None);
    let newest = client
        .put("/s/checkpoints", &json!({"state": {"at": 2}}))
        .wrote(201);
    assert_eq!(
        (&newest["seq"], &newest["label"]),
        (&json!(2), &Value::Null)
    );
    assert_eq!(
        client.get_body("/s")["state"],
        "WAIT_CONFIRM",
        "a checkpoint without a label leaves the session's state unchanged"
    );
    assert_eq!(client.get_body("/s/checkpoints/latest"), newest);
    let page = client.get_body("/s/checkpoints?limit=1");
    assert_eq!(
        (&page["data"][0]["seq"], &page["next_cursor"]),
        (&json!(2), &json!("2"))
    );
    let page = client.get_body("/s/checkpoints?limit=1&cursor=2");
    assert_eq!(
        (&page["data"][0]["seq"], &page["next_cursor"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(page["data"][0]["unreadable"], false);
    server.stop();
    world.verify();
}

#[test]
fn only_the_newest_checkpoints_are_kept_and_their_size_is_limited() {
    let world = World::new();
    let limits = [
        ("FILROUGE_CHECKPOINTS_KEPT", "3"),
        ("FILROUGE_CHECKPOINT_BYTES", "64"),
    ];
    let server = serve_with(&world, &limits);
    let client = server.client();
    for n in 1..=5 {
        start(&client, &format!("r{n}"), None);
        client
            .put("/s/checkpoints", &json!({"seq": n, "state": {"n": n}}))
            .wrote(201);
    }
    let seqs = |client: &crate::http::Client| -> Vec<Value> {
        let page = client.get_body("/s/checkpoints");
        page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["seq"].clone())
            .collect()
    };
    assert_eq!(seqs(&client), [5, 4, 3]);
    let large = json!({"state": {"n": "x".repeat(64)}});
    client
        .put("/s/checkpoints", &large)
        .fails(422, "limit_exceeded");
    server.stop();
    world.verify();
    // A redaction also removes the checkpoints that cover the item, since they may contain its text.
    let server = world.serve();
    let client = server.client();
    let turns = client.all("/s/turns", 50);
    let path = format!(
        "/s/turns/{}/finalize",
        turns[3]["turn_id"].as_str().unwrap()
    );
    client
        .post(&path, &json!({"answer_neutral": "a"}))
        .wrote(200);
    let path = path.replace("finalize", "redact");
    client
        .post(&path, &json!({"reason": "on request"}))
        .wrote(200);
    assert_eq!(seqs(&client), [3]);
    server.stop();
    world.verify();
}

/// A runtime context is valid for one turn and is stored in no checkpoint, not even in one that is written right after
/// the turn.
#[test]
fn no_checkpoint_contains_a_runtime_context() {
    const SECRET: &str = "canary-7Kd02mQp";
    let world = World::new();
    let server = serve_with(&world, &[("FILROUGE_LOG", "trace")]);
    let client = server.client();
    let context = json!({"session_token": SECRET});
    let begin = json!({"request_id": "r", "question_neutral": "?", "runtime_context": context});
    let turn = client.post("/s/turns", &begin).wrote(201);
    let state = json!({"crm": {"headers": [format!("X-Token: {SECRET}")], "kept": "yes"}});
    let during = client.put(
        "/s/checkpoints",
        &json!({"label": format!("at {SECRET}"), "state": state}),
    );
    during.wrote(201);
    assert_eq!(during.header("filrouge-masked"), Some("2"));
    let end = format!("/s/turns/{}/finalize", turn["turn_id"].as_str().unwrap());
    client
        .post(&end, &json!({"answer_neutral": "done"}))
        .wrote(200);
    let after = client.put("/s/checkpoints", &json!({"label": "DONE", "state": state}));
    after.wrote(201);
    assert_eq!(after.header("filrouge-masked"), Some("1"));
    // A credential is also masked if only its form shows that it is one.
    start(&client, "two", None);
    let key = format!("sk-ant-api03-{}", "a1B2".repeat(24));
    let with_key = client.put("/s/checkpoints", &json!({"state": {"key": key}}));
    with_key.wrote(201);
    assert_eq!(with_key.header("filrouge-masked"), Some("1"));
    let answers = [
        during.text,
        after.text,
        with_key.text,
        client.get("/s/checkpoints").text,
        client.get("/s/checkpoints/latest").text,
        client.post("/s/resume", &json!({"holder": "a"})).text,
        client.get("/s").text,
        server.log(),
    ];
    for secret in [SECRET, &key] {
        for answer in &answers {
            assert!(!answer.contains(secret), "{secret}: {answer}");
        }
        world.assert_not_stored(secret);
    }
    assert!(answers[0].contains("\"kept\":\"yes\""), "{}", answers[0]);
    server.stop();
    world.assert_not_stored(SECRET);
    world.verify();
}

#[test]
fn the_command_line_shows_lease_and_checkpoint() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    start(&client, "r", None);
    let shown = world.json(&["sessions", "show", "s"]);
    assert_eq!(
        (&shown["lease"]["fence"], &shown["checkpoint"]),
        (&json!(0), &Value::Null)
    );
    client
        .put(
            "/s/checkpoints",
            &json!({"label": "WAIT_CONFIRM", "state": {"n": 1}}),
        )
        .wrote(201);
    acquire(&client, "webhook-1");
    let shown = world.json(&["sessions", "show", "s"]);
    assert_eq!(shown["lease"]["holder"], "webhook-1");
    assert_eq!(shown["checkpoint"]["state"], json!({"n": 1}));
    let text = world.ok(&["sessions", "show", "s"]);
    assert!(text.contains("state WAIT_CONFIRM"), "{text}");
    assert!(text.contains("checkpoint at seq 1, WAIT_CONFIRM"), "{text}");
    assert!(
        text.contains("held by webhook-1, fence 1, until "),
        "{text}"
    );
    for format in ["md", "html"] {
        let document = world.ok(&["export", "s", "--format", format]);
        assert!(
            document.contains("WAIT_CONFIRM") || document.contains("WAIT\\_CONFIRM"),
            "{document}"
        );
    }
    server.stop();
}
