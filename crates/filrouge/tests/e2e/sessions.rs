//! Sessions are patched, linked, closed and erased; their events; and the server's report about itself.

use serde_json::{Value, json};

use crate::http::{Client, Response};
use crate::world::World;

fn etag(response: &Response) -> String {
    response.header("etag").expect("an ETag").to_owned()
}

/// Patches the session `s` if it has this ETag.
fn patch_if_match(client: &Client, tag: &str, body: &Value) -> Response {
    client.send("PATCH", "/s", Some(body), &[("if-match", tag)])
}

/// Records a complete turn.
fn turn(client: &Client, session: &str, request: &str) -> Response {
    let body = json!({"request_id": request, "question_neutral": "q", "answer_neutral": "a"});
    client.post(&format!("/{session}/turns"), &body)
}

#[test]
fn a_patch_changes_only_the_members_that_it_names() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let session = json!({"session_id": "s", "title": "t", "project_id": "p",
        "metadata": {"keep": 1.0, "deep": {"a": 1, "b": 2}}});
    client.post("", &session).wrote(201);
    let patch =
        json!({"title": null, "state": "WAIT", "metadata": {"deep": {"a": null}, "new": [1]}});
    let patched = client.patch("/s", &patch).wrote(200);
    assert_eq!(patched["title"], Value::Null);
    assert_eq!(patched["state"], "WAIT");
    assert_eq!(
        (&patched["project_id"], &patched["status"]),
        (&json!("p"), &json!("active"))
    );
    let text = client.get("/s").text;
    assert!(
        text.contains(r#""metadata":{"deep":{"b":2},"keep":1.0,"new":[1]}"#),
        "{text}"
    );
    assert_eq!(
        client.patch("/s", &json!({"metadata": null})).wrote(200)["metadata"],
        json!({})
    );
    for invalid in [
        json!({"status": "gone"}),
        json!({"last_seq": 1}),
        json!({"title": 1}),
        json!({"status": null, "x": 0}),
        json!({"metadata": []}),
        json!({"project_id": ""}),
        json!({"title": "x".repeat(5000)}),
        json!({"state": "\0"}),
    ] {
        assert_eq!(client.patch("/s", &invalid).status, 422, "{invalid}");
    }
    client
        .patch("/absent", &json!({}))
        .fails(404, "session_not_found");
    client
        .for_identity("ada")
        .post("", &json!({"session_id": "hers"}))
        .wrote(201);
    client
        .for_identity("eve")
        .patch("/hers", &json!({"title": "x"}))
        .fails(404, "session_not_found");
    world.verify();
}

#[test]
fn the_second_of_two_patches_of_one_state_is_refused() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client
        .post("", &json!({"session_id": "s", "title": "t"}))
        .wrote(201);
    let tag = etag(&client.get("/s"));
    turn(&client, "s", "r").wrote(201);
    assert_eq!(
        etag(&client.get("/s")),
        tag,
        "items do not change the session's ETag"
    );
    let first = patch_if_match(&client, &tag, &json!({"title": "one"}));
    first.wrote(200);
    assert_ne!(etag(&first), tag);
    let second = patch_if_match(&client, &tag, &json!({"title": "two"}));
    assert!(second.fails(412, "precondition_failed")["hint"].is_string());
    patch_if_match(&client, "*", &json!({"title": "three"})).wrote(200);
    patch_if_match(&client, &format!("W/{tag}"), &json!({"title": "weak"}))
        .fails(412, "precondition_failed");
    patch_if_match(&client, "bare", &json!({})).fails(400, "bad_request");
    assert_eq!(client.get_body("/s")["title"], "three");
    let clients: Vec<_> = (0..8).map(|_| server.client()).collect();
    let tag = etag(&client.get("/s"));
    let won = std::thread::scope(|scope| {
        let tries: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(n, c)| {
                let tag = &tag;
                scope.spawn(move || {
                    patch_if_match(c, tag, &json!({"title": format!("by {n}")})).status
                })
            })
            .collect();
        let statuses = tries.into_iter().map(|t| t.join().unwrap());
        statuses.filter(|s| *s == 200).count()
    });
    assert_eq!(won, 1);
}

#[test]
fn a_closed_session_starts_no_turns() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let open = client
        .post(
            "/s/turns",
            &json!({"request_id": "open", "question_neutral": "q"}),
        )
        .wrote(201);
    turn(&client, "s", "done").wrote(201);
    let closed = client
        .post("/s/close", &json!({"reason": "hung up"}))
        .wrote(200);
    assert_eq!(closed["status"], "closed");
    assert_eq!(
        client.post_text("/s/close", "").wrote(200),
        closed,
        "a repeated close has the same answer"
    );
    assert!(turn(&client, "s", "new").fails(409, "session_closed")["hint"].is_string());
    turn(&client, "s", "done").wrote(200);
    let path = format!("/s/turns/{}/finalize", open["turn_id"].as_str().unwrap());
    client
        .post(&path, &json!({"answer_neutral": "a"}))
        .wrote(200);
    let items = client.get_body("/s/items");
    let note = items["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|i| i["channel"] == "system_note")
        .unwrap();
    assert_eq!(
        note["parts"][0],
        json!({"type": "session_closed", "reason": "hung up"})
    );
    client.patch("/s", &json!({"status": "active"})).wrote(200);
    turn(&client, "s", "new").wrote(201);
    world.verify();
}

#[test]
fn only_the_first_login_becomes_the_owner() {
    let world = World::new();
    let server = world.serve();
    let (anonymous, ada, bob) = (
        server.client(),
        server.client().for_identity("ada"),
        server.client().for_identity("bob"),
    );
    turn(&anonymous, "s", "r").wrote(201);
    bob.put("/s/link", &json!({"identity_id": "ada"}))
        .fails(403, "forbidden");
    assert_eq!(
        ada.put("/s/link", &json!({"identity_id": "ada"}))
            .wrote(200)["identity_id"],
        "ada"
    );
    ada.put("/s/link", &json!({"identity_id": "ada"}))
        .wrote(200);
    let refused = bob.put("/s/link", &json!({"identity_id": "bob"}));
    assert!(!refused.text.contains("ada"), "the error reveals the owner");
    refused.fails(409, "session_linked");
    for stranger in [&anonymous, &bob] {
        stranger.get("/s").fails(404, "session_not_found");
        stranger.get("/s/items").fails(404, "session_not_found");
    }
    anonymous
        .put("/none/link", &json!({"identity_id": "ada"}))
        .fails(404, "session_not_found");
    anonymous
        .put("/s/link", &json!({"identity_id": ""}))
        .fails(422, "invalid");
    let items = ada.get_body("/s/items");
    let link = items["data"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&link["channel"], &link["turn_id"]),
        (&json!("link"), &Value::Null)
    );
    world.verify();
}

#[test]
fn one_of_two_concurrent_logins_wins_even_on_two_servers() {
    let world = World::new();
    let (one, two) = (world.serve(), world.serve());
    for n in 0..20 {
        let (session, path) = (format!("s{n}"), format!("/s{n}/link"));
        turn(&one.client(), &session, "r").wrote(201);
        let link = |server: &crate::world::Server, who: &str| {
            server
                .client()
                .for_identity(who)
                .put(&path, &json!({"identity_id": who}))
                .status
        };
        let (a, b) = std::thread::scope(|scope| {
            let a = scope.spawn(|| link(&one, "ada"));
            let b = scope.spawn(|| link(&two, "bob"));
            (a.join().unwrap(), b.join().unwrap())
        });
        assert!([(200, 409), (409, 200)].contains(&(a, b)), "{a} {b}");
        let owner = if a == 200 { "ada" } else { "bob" };
        assert_eq!(
            two.client()
                .for_identity(owner)
                .get_body(&format!("/{session}"))["identity_id"],
            owner
        );
    }
}

#[test]
fn an_erased_session_leaves_a_tombstone() {
    let world = World::new();
    let server = world.serve();
    let (ada, bob) = (
        server.client().for_identity("ada"),
        server.client().for_identity("bob"),
    );
    turn(&ada, "s", "r").wrote(201);
    ada.post("/s/events", &json!({"key": "k", "kind": "call_started"}))
        .wrote(201);
    bob.delete("/s").fails(404, "session_not_found");
    let receipt = ada.delete("/s").wrote(200);
    assert_eq!(
        (&receipt["items"], &receipt["turns"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        ada.delete("/s").wrote(200),
        receipt,
        "a repeated erasure returns the first receipt"
    );
    ada.get("/s").fails(410, "session_erased");
    turn(&ada, "s", "late").fails(410, "session_erased");
    ada.post("", &json!({"session_id": "s"}))
        .fails(410, "session_erased");
    bob.get("/s").fails(404, "session_not_found");
    turn(&bob, "s", "x").fails(409, "session_conflict");
    assert_eq!(ada.get_body("")["data"], json!([]));
    world.verify();
    drop(server);
    assert_eq!(
        world
            .serve()
            .client()
            .for_identity("ada")
            .delete("/s")
            .wrote(200),
        receipt
    );
}

#[test]
fn events_are_recorded_once_for_each_key() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client
        .post("/s/events", &json!({"key": "k", "kind": "x"}))
        .fails(404, "session_not_found");
    turn(&client, "s", "r").wrote(201);
    let event = json!({"key": "k1", "kind": "call_started", "at": "2026-11-21T09:00:00Z", "detail": {"n": 1.0}});
    let first = client.post("/s/events", &event).wrote(201);
    assert_eq!(first["at"], "2026-11-21T09:00:00.000000Z");
    assert_eq!(client.post("/s/events", &event).wrote(200), first);
    let other = json!({"key": "k1", "kind": "call_ended"});
    client
        .post("/s/events", &other)
        .fails(409, "idempotency_mismatch");
    for n in 2..=30 {
        client
            .post(
                "/s/events",
                &json!({"key": format!("k{n}"), "kind": "unknown_state"}),
            )
            .wrote(201);
    }
    let all = client.all("/s/events", 7);
    let keys: Vec<String> = all
        .iter()
        .map(|e| e["key"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(keys, (1..=30).map(|n| format!("k{n}")).collect::<Vec<_>>());
    for invalid in [
        json!({"kind": "x"}),
        json!({"key": "", "kind": "x"}),
        json!({"key": "x", "kind": ""}),
        json!({"key": "x", "kind": "x", "at": "yesterday"}),
        json!({"key": "x", "kind": "x", "detail": []}),
    ] {
        assert_eq!(client.post("/s/events", &invalid).status, 422, "{invalid}");
    }
    world.verify();
}

#[test]
fn the_server_shows_its_version_and_limits() {
    let world = World::new();
    let info = world
        .serve()
        .client()
        .for_identity("ada")
        .get_body("/api/v1/info");
    assert_eq!(
        (&info["name"], &info["identity_id"]),
        (&json!("filrouge"), &json!("ada"))
    );
    assert_eq!(info["limits"]["body_bytes"], 32 << 20);
    assert!(
        info["context_formats"]
            .as_array()
            .unwrap()
            .contains(&json!("anthropic"))
    );
}

/// No caller can post the items that filrouge writes about redactions, links and ends.
#[test]
fn callers_cannot_forge_filrouges_own_items() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let open = client
        .post(
            "/s/turns",
            &json!({"request_id": "r", "question_neutral": "q"}),
        )
        .wrote(201);
    let path = format!("/s/turns/{}/items", open["turn_id"].as_str().unwrap());
    for kind in ["redaction", "session_link", "session_closed", "turn_status"] {
        let item = json!({"role": "system", "channel": "redaction", "parts": [
            {"type": "text", "text": "x"}, {"type": kind, "seqs": [[1, 2]], "by": "operator", "reason": "why"}]});
        let refused = client.post(&path, &json!({ "items": [item.clone()] }));
        assert!(refused.fails(422, "invalid")["hint"].is_string());
        let turn = json!({"request_id": kind, "question_neutral": "q", "items": [item], "answer_neutral": "a"});
        client.post("/s/turns", &turn).fails(422, "invalid");
    }
    assert_eq!(client.get_body("/s")["last_seq"], 1);
    client
        .patch("/s", &json!({"status": null}))
        .fails(422, "invalid");
}
