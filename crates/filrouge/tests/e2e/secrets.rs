//! Credentials and the secrets of a `runtime_context` are neither stored nor shown (DESIGN §8).

use std::fs;

use serde_json::{Value, json};

use crate::caller::Caller;
use crate::http::Response;
use crate::world::{Server, World};

/// A secret that has no known form; only `runtime_context` reveals it.
const CANARY: &str = "c4n4ry-0paque-t0k3n";
const PASSWORD: &str = "hunter2hunter2";

/// A token in GitHub's form, composed here so that no scanner reports this file as a leak.
fn token(n: usize) -> String {
    format!("gh{}_{:0>36}", "p", format!("{n}aB3dE5fG7hJ9kL1mN"))
}

/// Starts a server with this policy for credentials and the most detailed log.
fn serve(world: &World, policy: &str) -> Server {
    let environment = [
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ("FILROUGE_LOG", "trace"),
        ("FILROUGE_CREDENTIALS", policy),
    ];
    world.serve_with_env(&environment, &[])
}

/// Checks the number of masked credentials that a response names.
#[track_caller]
fn assert_masked(response: &Response, count: u64) {
    let masked = response.header("filrouge-masked").map(str::to_owned);
    let expected = (count > 0).then(|| count.to_string());
    assert_eq!(masked, expected, "{response:?}");
}

/// Checks that neither stored data, nor the log, nor the responses contain one of `secrets`.
fn assert_absent(world: &World, secrets: &[&str], log: &str, answers: &[Response]) {
    let keyring = fs::read_to_string(world.keyring()).unwrap();
    for secret in secrets {
        world.assert_not_stored(secret);
        assert!(!keyring.contains(secret));
        let lines: Vec<_> = log.lines().filter(|line| line.contains(secret)).collect();
        assert!(lines.is_empty(), "{lines:?}");
        for answer in answers {
            assert!(!answer.text.contains(secret), "{answer:?}");
        }
    }
}

fn turn_id(response: &Response) -> String {
    response.body()["turn_id"].as_str().unwrap().to_owned()
}

#[test]
fn credentials_are_masked_counted_and_reported() {
    let world = World::new();
    let server = serve(&world, "mask");
    let caller = Caller::anonymous(&server);
    let [a, b, c] = [1, 2, 3].map(token);
    let url = format!("postgres://app:{PASSWORD}@db/prod");
    let args = json!({ "command": format!("curl -H \"x: {b}\"\n{c}") }).to_string();
    let start = json!({
        "request_id": "r", "question_neutral": format!("use {a} at {url}"), "question_translated": format!("« {a} »"),
        "items": [
            { "item_id": "1", "role": "assistant", "channel": "tool_call",
              "parts": [{ "type": "text", "text": "ghp_ is a prefix" }, { "type": "tool_call", "call_id": "1",
                "name": "bash", "args": args }] },
            { "item_id": "2", "role": "user", "channel": "hitl_response",
              "parts": [{ "type": "code", "text": format!("TOKEN={c}\n") }] },
        ],
    });
    let first = caller.post("/s/turns", &start);
    first.wrote(201);
    assert_masked(&first, 6);
    let repeated = caller.post("/s/turns", &start);
    assert_eq!(repeated.is(200)["replayed"], true);
    assert_eq!(repeated.body()["differs"], false);
    let id = turn_id(&first);
    let path = format!("/s/turns/{id}/items");
    let item = json!({ "items": [{ "item_id": "3", "role": "user", "channel": "hitl_response",
        "parts": [{ "type": "text", "text": b }] }] });
    let appended = caller.post(&path, &item);
    appended.wrote(201);
    assert_masked(&appended, 1);
    caller.post(&path, &item).is(200);
    let other = json!({ "items": [{ "item_id": "4", "role": "assistant", "channel": "tool_result",
        "parts": [{ "type": "text", "text": "clean" }] }] });
    let clean = caller.post(&path, &other);
    clean.wrote(201);
    assert_masked(&clean, 0);
    let items = caller.get("/s/items").body();
    let text = items.to_string();
    for mask in [
        "[masked:github_token] at postgres://app:[masked:url_password]@db/prod",
        "« [masked:github_token] »",
        "TOKEN=[masked:github_token]\\n",
        "ghp_ is a prefix",
    ] {
        assert!(text.contains(mask), "{mask}: {text}");
    }
    let call = &items["data"][2]["parts"][1]["args"];
    let call: Value = serde_json::from_str(call.as_str().unwrap()).unwrap();
    let expected = "curl -H \"x: [masked:github_token]\"\n[masked:github_token]";
    assert_eq!(call["command"], expected);
    let metrics = caller.send("GET", "/metrics", None);
    for line in [
        "credentials_total{shape=\"github_token\",outcome=\"masked\"} 6",
        "credentials_total{shape=\"url_password\",outcome=\"masked\"} 1",
    ] {
        assert!(metrics.text.contains(line), "{metrics:?}");
    }
    let answers = vec![
        first,
        repeated,
        appended,
        caller.get("/s/export"),
        caller.get("/s/items"),
        caller.get("/s/context?format=anthropic"),
    ];
    let log = server.log();
    server.stop();
    assert_absent(&world, &[&a, &b, &c, PASSWORD], &log, &answers);
    world.verify();
}

#[test]
fn credentials_are_refused_or_recorded_as_configured() {
    let world = World::new();
    let secret = token(7);
    let start =
        |request: &str, text: &str| json!({ "request_id": request, "question_neutral": text });
    let server = serve(&world, "refuse");
    let caller = Caller::anonymous(&server);
    let refused = caller.post("/s/turns", &start("a", &format!("my {secret}")));
    let problem = refused.fails(422, "credential_refused");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("question_neutral") && detail.contains("github_token"));
    caller.get("/s").fails(404, "session_not_found");
    caller.post("/s/turns", &start("a", "fine")).wrote(201);
    let metrics = caller.send("GET", "/metrics", None);
    assert!(
        metrics
            .text
            .contains("credentials_total{shape=\"github_token\",outcome=\"refused\"} 1")
    );
    let log = server.log();
    server.stop();
    assert_absent(&world, &[&secret], &log, &[refused]);
    let server = serve(&world, "off");
    let caller = Caller::anonymous(&server);
    let kept = caller.post("/s/turns", &start("b", &format!("my {secret}")));
    kept.wrote(201);
    assert_masked(&kept, 0);
    assert!(kept.text.contains(&secret));
    let wrong = world
        .command(&["serve"])
        .env("FILROUGE_CREDENTIALS", "hide")
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    world.verify();
}

/// Appends items with the canary in every member to an open turn, twice.
fn append_canaries(caller: &Caller, id: &str) -> Vec<Response> {
    let echo = format!("it says {CANARY}!");
    let items = json!({ "items": [
        { "item_id": "1", "role": "assistant", "channel": "tool_call", "metadata": { "m": [CANARY] }, "usage": { "u": CANARY },
          "agent": CANARY, "model": format!("m-{CANARY}"),
          "parts": [{ "type": "tool_call", "call_id": "1", "name": "x", "args": json!({ "auth": CANARY }).to_string() }] },
        { "item_id": "2", "role": "tool", "channel": "tool_result",
          "parts": [{ "type": "tool_result", "call_id": "1", "ok": false, "content": [{ "type": "text", "text": echo }] }] },
        { "item_id": "3", "role": "assistant", "channel": "partial", "parts": [{ "type": "text", "text": echo }] },
    ] });
    let path = format!("/s/turns/{id}/items");
    let first = caller.post(&path, &items);
    first.wrote(201);
    assert_masked(&first, 7);
    vec![first, caller.post(&path, &items)]
}

/// Sends invalid starts that contain the canary; returns the refusals.
fn start_invalid_turns(caller: &Caller) -> Vec<Response> {
    let quoted = json!(CANARY).to_string();
    [
        format!(r#"{{"request_id":"x","question_neutral":"?","runtime_context":{quoted}}}"#),
        format!(r#"{{"request_id":"x","question_neutral":"?","runtime_context":[{quoted}]}}"#),
        format!(r#"{{"request_id":"x","question_neutral":"?","runtime_context":{{"t":{quoted}"#),
        format!(r#"{{"request_id":"x","question_neutral":"?","runtime_context":{{"t":{quoted}}},"runtime_context":{{"t":{quoted}}}}}"#),
        format!(r#"{{"request_id":"x","question_neutral":7,"runtime_context":{{"t":{quoted}}}}}"#),
        format!(r#"{{"request_id":"x","runtime_context":{{"t":{quoted}}}}}"#),
        format!(r#"{{"request_id":"x","question_neutral":"?","runtime_context":{{"t":{quoted} {quoted}}}}}"#),
        format!(r#"{{"request_id":"x","question_neutral":"?","runtime_context":{{"t":{}{quoted}{}}}}}"#, "[".repeat(200), "]".repeat(200)),
        format!(r#"{{"request_id":"x","question_neutral":"?","runtime_context":{{"t":"{}"}}}}"#, CANARY.repeat(80_000)),
    ]
    .iter()
    .map(|body| {
        let response = caller.send("POST", "/api/v1/sessions/s/turns", Some(body));
        assert!((400..500).contains(&response.status), "{response:?}");
        response
    })
    .collect()
}

#[test]
fn runtime_context_is_kept_only_in_memory() {
    let world = World::new();
    let server = serve(&world, "off");
    let caller = Caller::anonymous(&server);
    let context = json!({ "locale": "fr-FR-visible", "headers": { "authorization": [format!("Bearer {CANARY}")] } });
    let start = |request: &str| {
        json!({ "request_id": request, "question_neutral": format!("why {CANARY}?"),
        "metadata": { "seen": CANARY }, "repository": format!("r/{CANARY}"), "runtime_context": context })
    };
    let mut answers = start_invalid_turns(&caller);
    for (request, end, body) in [
        (
            "fail",
            "fail",
            json!({ "error": { "code": CANARY, "message": format!("no {CANARY}") }, "partial_text": CANARY }),
        ),
        (
            "cancel",
            "cancel",
            json!({ "partial_text": format!("so far {CANARY}") }),
        ),
        (
            "done",
            "finalize",
            json!({ "answer_neutral": CANARY, "answer_translated": CANARY, "metadata": { "a": CANARY } }),
        ),
    ] {
        let started = caller.post("/s/turns", &start(request));
        started.wrote(201);
        assert_masked(&started, 3);
        let id = turn_id(&started);
        let path = format!("/s/turns/{id}/{end}");
        if request == "fail" {
            answers.extend(append_canaries(&caller, &id));
            assert_eq!(answers.last().unwrap().status, 200, "a repeated append");
        }
        let closed = caller.post(&path, &body);
        closed.wrote(200);
        assert!(closed.header("filrouge-masked").is_some());
        // A repeated request gets the first response, although the canary was not stored.
        let repeated = caller.post(&path, &body);
        assert_eq!(repeated.is(200)["replayed"], true);
        answers.extend([started, closed, repeated]);
    }
    let complete = json!({ "request_id": "complete", "question_neutral": "?", "answer_neutral": CANARY, "runtime_context": context,
        "items": [{ "role": "assistant", "channel": "thought", "parts": [{ "type": "text", "text": CANARY }] }] });
    answers.push(caller.post("/s/turns", &complete));
    for path in [
        "/s/items?limit=500",
        "/s/turns",
        "/s/export",
        "/s/export?format=md",
        "/s/export?format=html",
        "/s/context?format=openai-chat",
        "/s/checkpoints",
        "/s/stats",
        "/s",
    ] {
        answers.push(caller.get(path));
    }
    answers.push(caller.send("GET", "/api/v1/changes", None));
    answers.push(caller.send("GET", "/metrics", None));
    assert!(
        answers.iter().any(|a| a.text.contains("fr-FR-visible")),
        "allowed members of the runtime context are missing"
    );
    let dropped = "credentials_total{shape=\"runtime_context\",";
    assert!(answers.last().unwrap().text.contains(dropped));
    let log = server.log();
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "{log}");
    assert_absent(&world, &[CANARY], &log, &answers);
    server.stop();
    assert_absent(&world, &[CANARY], "", &[]);
    world.verify();
}

/// Metadata of every kind, labels and titles: in each, one secret member, or one text in the form of a credential.
#[test]
fn metadata_labels_and_titles_contain_no_credentials() {
    let world = World::new();
    let server = serve(&world, "mask");
    let caller = Caller::anonymous(&server);
    let shaped = token(3);
    let headers = json!({ "headers": { "Authorization": CANARY, "accept": "text/html" } });
    let session =
        json!({ "session_id": "s", "title": format!("with {shaped}"), "metadata": headers });
    let created = caller.send("POST", "/api/v1/sessions", Some(&session.to_string()));
    assert_eq!(created.wrote(201)["title"], "with [masked:github_token]");
    assert_masked(&created, 2);
    let context = json!({ "access_token": CANARY, "locale": "fr-FR" });
    let item = json!({ "role": "user", "channel": "hitl_response", "agent": shaped,
        "metadata": { "runtime_context": context, "cookie": PASSWORD, "input_tokens": 3 },
        "parts": [{ "type": "text", "text": format!("it is {CANARY}") }] });
    let start = json!({ "request_id": "r", "question_neutral": format!("why {CANARY}?"),
        "consultant": shaped, "metadata": { "note": shaped, "api_key": PASSWORD }, "items": [item] });
    let started = caller.post("/s/turns", &start);
    started.wrote(201);
    // Question, text and context of the item; cookie, agent; consultant, note and key of the turn.
    assert_masked(&started, 8);
    assert_eq!(caller.post("/s/turns", &start).is(200)["differs"], false);
    let turn = format!("/s/turns/{}", turn_id(&started));
    let appended = caller.post(&format!("{turn}/items"), &json!({ "items": [item] }));
    appended.wrote(201);
    assert_masked(&appended, 4);
    let end = json!({ "answer_neutral": "a", "metadata": { "db_password": PASSWORD } });
    let closed = caller.post(&format!("{turn}/finalize"), &end);
    closed.wrote(200);
    assert_masked(&closed, 1);
    let patch =
        json!({ "title": shaped, "state": shaped, "metadata": { "refresh_token": PASSWORD } });
    let patched = caller.send("PATCH", "/api/v1/sessions/s", Some(&patch.to_string()));
    patched.wrote(200);
    assert_masked(&patched, 3);
    let event = json!({ "key": "k", "kind": "seen", "detail": { "secret": PASSWORD } });
    let recorded = caller.post("/s/events", &event);
    recorded.wrote(201);
    assert_masked(&recorded, 1);
    let (items, export) = (caller.get("/s/items"), caller.get("/s/export"));
    let item = &items.body()["data"][1]["metadata"];
    assert_eq!(item["input_tokens"], 3);
    assert_eq!(item["runtime_context"]["locale"], "fr-FR");
    let session = caller.get("/s").body();
    assert_eq!(session["metadata"]["headers"]["accept"], "text/html");
    let log = server.log();
    server.stop();
    let answers = [
        created, started, appended, closed, patched, recorded, export,
    ];
    assert_absent(&world, &[CANARY, PASSWORD, &shaped], &log, &answers);
    world.verify();
}

#[test]
fn metadata_with_a_secret_member_is_refused_if_so_configured() {
    let world = World::new();
    let server = serve(&world, "refuse");
    let caller = Caller::anonymous(&server);
    let start =
        json!({ "request_id": "r", "question_neutral": "?", "metadata": { "password": PASSWORD } });
    let problem = caller
        .post("/s/turns", &start)
        .fails(422, "credential_refused");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("metadata") && detail.contains("secret_member"),
        "{detail}"
    );
    let title = json!({ "session_id": "t", "title": token(1) }).to_string();
    let refused = caller.send("POST", "/api/v1/sessions", Some(&title));
    refused.fails(422, "credential_refused");
    // The values of a `runtime_context` are masked under each policy.
    let start = json!({ "request_id": "r", "question_neutral": "?", "metadata": { "runtime_context": { "t": CANARY } } });
    let started = caller.post("/s/turns", &start);
    started.wrote(201);
    assert_masked(&started, 1);
    server.stop();
    world.assert_not_stored(CANARY);
    world.assert_not_stored(PASSWORD);
}
