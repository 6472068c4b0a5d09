//! The document at `/openapi.json`: it equals the committed file, responses match it, and no operation reveals another
//! user's sessions (promise P6).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::http::{Client, Response};
use crate::search_http::encoded;
use crate::world::World;

/// The served document: its text, and its JSON.
fn document(client: &Client) -> (String, Value) {
    let response = client.send_without_body("GET", "/openapi.json", "");
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("content-type"), Some("application/json"));
    (response.text.clone(), response.body())
}

#[test]
fn the_committed_document_is_current() {
    let world = World::new();
    let (served, _) = document(&world.serve().client());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let committed = std::fs::read_to_string(root.join("docs/openapi.json")).unwrap_or_default();
    if served != committed {
        let fresh = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
        std::fs::write(&fresh, served).unwrap();
        panic!(
            "docs/openapi.json is out of date: copy {} there",
            fresh.display()
        );
    }
}

/// One operation of the document.
struct Operation<'a> {
    id: &'a str,
    method: String,
    path: &'a str,
    spec: &'a Value,
}

fn operations(document: &Value) -> Vec<Operation<'_>> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, spec) in item.as_object().unwrap() {
            let id = spec["operationId"].as_str().unwrap();
            all.push(Operation {
                id,
                method: method.to_uppercase(),
                path,
                spec,
            });
        }
    }
    assert!(all.len() > 15, "{} operations", all.len());
    all
}

/// The session and the turn that a call names.
#[derive(Clone, Copy)]
struct Target<'a> {
    session: &'a str,
    turn: &'a str,
}

impl Operation<'_> {
    fn names_a_session(&self) -> bool {
        self.path.contains("{session_id}")
    }

    /// Calls the operation with its example body and its required parameters.
    fn call(&self, client: &Client, identity: Option<&str>, target: Target<'_>) -> Response {
        let mut path = self
            .path
            .replace("{session_id}", target.session)
            .replace("{turn_id}", target.turn)
            .replace("{tenant_id}", "default");
        let parameters = self.spec["parameters"].as_array();
        let query: Vec<String> = parameters
            .into_iter()
            .flatten()
            // A search needs exactly one of three parameters.
            .filter(|p| p["required"] == true || self.id == "search" && p["name"] == "q")
            .filter(|p| p["in"] == "query")
            .map(|p| {
                format!(
                    "{}={}",
                    p["name"].as_str().unwrap(),
                    p["example"]
                        .as_str()
                        .map_or_else(|| "1".to_owned(), encoded)
                )
            })
            .collect();
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let content = &self.spec["requestBody"]["content"]["application/json"];
        let examples = content["examples"].as_object();
        let first = examples.and_then(|all| all.values().next());
        let body = match (&content["example"], first) {
            (Value::Null, None) => String::new(),
            (Value::Null, Some(named)) => named["value"].to_string(),
            (example, _) => example.to_string(),
        };
        let content_type = if body.is_empty() {
            ""
        } else {
            "content-type: application/json\r\n"
        };
        let identity = identity.map(|i| format!("filrouge-identity: {i}\r\n"));
        let identity = identity.unwrap_or_default();
        let head = format!(
            "{} {path} HTTP/1.1\r\nhost: localhost\r\n{identity}{content_type}content-length: {}\r\n\
             connection: close\r\n\r\n",
            self.method,
            body.len()
        );
        client.send_bytes(format!("{head}{body}").as_bytes())
    }
}

/// The status, headers and body of a response, without the requested ids, the date and the request id.
fn comparable_parts(
    response: &Response,
    target: Target<'_>,
) -> (u16, Vec<(String, String)>, String) {
    let varying = ["date", "filrouge-request-id", "x-request-id"];
    let headers = response.headers.iter();
    let headers = headers
        .filter(|(name, _)| !varying.contains(&name.as_str()))
        .cloned()
        .collect();
    let text = response
        .text
        .replace(target.session, "SESSION")
        .replace(target.turn, "TURN");
    (response.status, headers, text)
}

/// The operations that reveal that a foreign id exists, with their error code (DESIGN §1 P6, §7).
const REVEALING: &[(&str, &str)] = &[
    // A start creates a session, which may not have a foreign id.
    ("startTurn", "session_conflict"),
    // Only a resume with `create`.
    ("resumeSession", "session_conflict"),
];

#[test]
fn foreign_ids_look_absent_on_every_operation() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    let (_, document) = document(&client);
    let question =
        json!({ "request_id": "r", "question_neutral": "secret", "answer_neutral": "secret" });
    let ada = client.for_identity("ada");
    // An existing session, and an erased one. Ids of one length, so that responses differ only in the id.
    for session in ["ada-owns-00", "ada-had-000"] {
        let turn = ada.post(&format!("/{session}/turns"), &question).wrote(201);
        let turn = turn["turn_id"].as_str().unwrap().to_owned();
        if session == "ada-had-000" {
            let erased = client.send_without_body(
                "DELETE",
                "/api/v1/sessions/ada-had-000",
                "filrouge-identity: ada\r\n",
            );
            assert_eq!(erased.status, 200, "{erased:?}");
        }
        let before = ada.get(&format!("/{session}")).text;
        assert_foreign_looks_absent(
            &client,
            &document,
            Target {
                session,
                turn: &turn,
            },
        );
        assert_eq!(ada.get(&format!("/{session}")).text, before);
        // Creating a session under an existing id is the one documented exception.
        let taken = client
            .for_identity("bob")
            .post("", &json!({ "session_id": session }));
        taken.fails(409, "session_conflict");
    }
    assert_lists_without_ada(&client);
    drop(server);
    world.verify();
}

/// The number of statements that the store has executed.
fn statements(client: &Client) -> u64 {
    let metrics = client.send_without_body("GET", "/metrics", "").text;
    let line = metrics
        .lines()
        .find_map(|l| l.strip_prefix("filrouge_store_statements_total "));
    line.expect("the counter").parse().unwrap()
}

/// Makes a call that is refused; returns its response and the number of statements that it executed.
///
/// The number is the minimum of several tries, because the server's own statements count too.
fn call_and_count(client: &Client, call: impl Fn() -> Response) -> (Response, u64) {
    let tries = (0..4).map(|_| {
        let before = statements(client);
        let response = call();
        (response, statements(client) - before)
    });
    tries.min_by_key(|(_, cost)| *cost).unwrap()
}

/// Calls every operation as bob, with ids of ada and with ids that never existed; responses and costs must be equal.
fn assert_foreign_looks_absent(client: &Client, document: &Value, foreign: Target<'_>) {
    let mut called = 0;
    for operation in operations(document).iter().filter(|o| o.names_a_session()) {
        // A call may create the session that it names, so each call gets an unused id, as long as ada's.
        let session = format!("no-{}-{called:03}", &foreign.session[4..7]);
        let session = format!("{session:-<11}");
        let absent = Target {
            session: &session,
            turn: "5f0c2b8e-5a61-8d7e-9b1c-2d4e6f708192",
        };
        let (response, cost) =
            call_and_count(client, || operation.call(client, Some("bob"), foreign));
        assert!(
            !response.text.contains("secret"),
            "{}: {response:?}",
            operation.id
        );
        match REVEALING.iter().find(|(id, _)| *id == operation.id) {
            Some((_, code)) => {
                response.fails(409, code);
            }
            None => {
                let (absent_response, absent_cost) =
                    call_and_count(client, || operation.call(client, Some("bob"), absent));
                assert_eq!(cost, absent_cost, "statements of {}", operation.id);
                assert_eq!(
                    comparable_parts(&response, foreign),
                    comparable_parts(&absent_response, absent),
                    "{}",
                    operation.id
                );
            }
        }
        called += 1;
    }
    assert!(called > 12, "{called} operations");
}

/// Checks that no list shows bob anything of ada.
fn assert_lists_without_ada(client: &Client) {
    for list in [
        "?limit=500",
        "?identity_id=ada",
        "?q=o",
        "?agent=desk",
        "?parent_session_id=ada-owns-00",
    ] {
        let page = client.for_identity("bob").get_body(list);
        let seen = page["data"].as_array().unwrap().iter();
        for session in seen {
            assert_eq!(session["identity_id"], "bob", "{list}");
        }
    }
}

/// The schema that a `$ref` names.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap(),
        None => schema,
    }
}

/// Checks that `answer`, which is at `path` of an operation's response, has the required members of the schema, and no
/// member that the schema does not name.
fn assert_same_members(document: &Value, schema: &Value, answer: &Value, path: &str) {
    let schema = resolved(document, schema);
    let (Some(known), Some(members)) = (schema["properties"].as_object(), answer.as_object())
    else {
        return;
    };
    let names = |of: &serde_json::Map<String, Value>| of.keys().cloned().collect::<BTreeSet<_>>();
    let required = schema["required"].as_array().into_iter().flatten();
    let required = required
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    assert!(names(members).is_subset(&names(known)), "{path}");
    assert!(names(members).is_superset(&required), "{path}");
    for (name, member) in members {
        match member.as_array() {
            Some(elements) => elements.iter().filter(|_| name != "parts").for_each(|e| {
                assert_same_members(
                    document,
                    &known[name]["items"],
                    e,
                    &format!("{path}.{name}"),
                );
            }),
            None => {
                assert_same_members(document, &known[name], member, &format!("{path}.{name}"));
            }
        }
    }
}

#[test]
fn responses_have_the_members_that_the_document_names() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let (_, document) = document(&client);
    let question = json!({ "request_id": "r", "question_neutral": "When are you open?", "answer_neutral": "!" });
    let ada = client.for_identity("ada");
    let turn = ada.post("/s/turns", &question).wrote(201);
    let checkpoint = json!({"label": "WAIT_CONFIRM", "state": {}});
    ada.put("/s/checkpoints", &checkpoint).wrote(201);
    let target = Target {
        session: "s",
        turn: turn["turn_id"].as_str().unwrap(),
    };
    let mut checked = 0;
    for operation in operations(&document).iter().filter(|o| o.method == "GET") {
        let content = &operation.spec["responses"]["200"]["content"]["application/json"];
        if !content.is_object() {
            continue;
        }
        // Operations about an entire tenant are not for end users.
        let tenant_wide = ["listAudit", "getTechnicalStatus", "getKeyFigures"];
        let identity = Some("ada").filter(|_| !tenant_wide.contains(&operation.id));
        let response = operation.call(&client, identity, target);
        assert_eq!(response.status, 200, "{}: {response:?}", operation.id);
        assert_same_members(
            &document,
            &content["schema"],
            &response.body(),
            operation.id,
        );
        checked += 1;
    }
    assert!(checked >= 10, "{checked} answers");
}

#[test]
fn an_invalid_query_is_refused_with_a_hint() {
    let world = World::new();
    let server = world.serve();
    for (query, hint) in [
        ("?offset=1", "project_id, identity_id, parent_session_id"),
        ("?limit=1&limit=2", "each at most once"),
        ("?cursor=%2B1", "pass a next_cursor unchanged"),
        ("?status=done", "known: active, paused, closed"),
        ("?since=2026-11-21T09:30:00+01:00", "write + as %2B"),
        ("/s?verbose=1", "takes no parameters"),
    ] {
        let problem = server.client().get(query).fails(422, "invalid");
        assert!(
            problem["hint"].as_str().unwrap().contains(hint),
            "{query}: {problem}"
        );
    }
}
