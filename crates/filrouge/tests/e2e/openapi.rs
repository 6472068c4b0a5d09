//! The document at `/openapi.json`: it is the committed one, answers are as it says, and whoever walks all of it with
//! somebody else's ids learns nothing (promise P6).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::http::{Client, Reply};
use crate::search_http::encoded;
use crate::world::World;

fn document(client: &Client) -> (String, Value) {
    let reply = client.bare("GET", "/openapi.json", "");
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    (reply.text.clone(), reply.body())
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
    told: &'a Value,
}

fn operations(document: &Value) -> Vec<Operation<'_>> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, told) in item.as_object().unwrap() {
            let id = told["operationId"].as_str().unwrap();
            all.push(Operation {
                id,
                method: method.to_uppercase(),
                path,
                told,
            });
        }
    }
    assert!(all.len() > 15);
    all
}

/// Whom an operation is called for.
#[derive(Clone, Copy)]
struct Target<'a> {
    session: &'a str,
    turn: &'a str,
}

impl Operation<'_> {
    fn names_a_session(&self) -> bool {
        self.path.contains("{session_id}")
    }

    /// Calls it with the example of its body and the parameters it must have.
    fn call(&self, client: &Client, identity: Option<&str>, at: Target<'_>) -> Reply {
        let mut target = self
            .path
            .replace("{session_id}", at.session)
            .replace("{turn_id}", at.turn)
            .replace("{tenant_id}", "default");
        let parameters = self.told["parameters"].as_array();
        let query: Vec<String> = parameters
            .into_iter()
            .flatten()
            // What a search looks for is one of three.
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
            target = format!("{target}?{}", query.join("&"));
        }
        let told = &self.told["requestBody"]["content"]["application/json"];
        let several = told["examples"].as_object();
        let first = several.and_then(|all| all.values().next());
        let body = match (&told["example"], first) {
            (Value::Null, None) => String::new(),
            (Value::Null, Some(named)) => named["value"].to_string(),
            (example, _) => example.to_string(),
        };
        let kind = if body.is_empty() {
            ""
        } else {
            "content-type: application/json\r\n"
        };
        let identity = identity.map(|i| format!("filrouge-identity: {i}\r\n"));
        let identity = identity.unwrap_or_default();
        let head = format!(
            "{} {target} HTTP/1.1\r\nhost: localhost\r\n{identity}{kind}content-length: {}\r\n\
             connection: close\r\n\r\n",
            self.method,
            body.len()
        );
        client.raw(format!("{head}{body}").as_bytes())
    }
}

/// An answer without the ids that were asked for, the date and the request's own name.
fn shape(reply: &Reply, at: Target<'_>) -> (u16, Vec<(String, String)>, String) {
    let own = ["date", "filrouge-request-id", "x-request-id"];
    let headers = reply.headers.iter();
    let headers = headers
        .filter(|(name, _)| !own.contains(&name.as_str()))
        .cloned()
        .collect();
    let text = reply
        .text
        .replace(at.session, "SESSION")
        .replace(at.turn, "TURN");
    (reply.status, headers, text)
}

/// Calls that say that an id is taken, and what they say of one that is free (DESIGN §1 P6, §7).
const TELLS: &[(&str, &str)] = &[
    // Creating under an id that is somebody else's.
    ("startTurn", "session_conflict"),
    // With `create`.
    ("resumeSession", "session_conflict"),
];

#[test]
fn somebody_elses_ids_look_absent_on_every_operation() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    let (_, document) = document(&client);
    let question =
        json!({ "request_id": "r", "question_neutral": "secret", "answer_neutral": "secret" });
    let ada = client.of("ada");
    // One that is there, and one that was.
    for session in ["ada-owns-00", "ada-had-000"] {
        let turn = ada.post(&format!("/{session}/turns"), &question).wrote(201);
        let turn = turn["turn_id"].as_str().unwrap().to_owned();
        if session == "ada-had-000" {
            let erased = client.bare(
                "DELETE",
                "/api/v1/sessions/ada-had-000",
                "filrouge-identity: ada\r\n",
            );
            assert_eq!(erased.status, 200, "{erased:?}");
        }
        let before = ada.get(&format!("/{session}")).text;
        walk(
            &client,
            &document,
            Target {
                session,
                turn: &turn,
            },
        );
        assert_eq!(ada.get(&format!("/{session}")).text, before);
        // The id in a body: the one documented exception.
        let taken = client.of("bob").post("", &json!({ "session_id": session }));
        taken.fails(409, "session_conflict");
    }
    world_without_ada(&client);
    drop(server);
    world.verify();
}

/// How many statements the store was asked.
fn statements(client: &Client) -> u64 {
    let metrics = client.bare("GET", "/metrics", "").text;
    let line = metrics
        .lines()
        .find_map(|l| l.strip_prefix("filrouge_store_statements_total "));
    line.expect("the counter").parse().unwrap()
}

/// A call that is refused, and how many statements it takes: the fewest of several, for the server's own work comes
/// in between.
fn counted(client: &Client, call: impl Fn() -> Reply) -> (Reply, u64) {
    let tries = (0..4).map(|_| {
        let before = statements(client);
        let reply = call();
        (reply, statements(client) - before)
    });
    tries.min_by_key(|(_, cost)| *cost).unwrap()
}

/// Calls every operation as bob, with ids of ada's and with ids that never were.
fn walk(client: &Client, document: &Value, foreign: Target<'_>) {
    let mut walked = 0;
    for operation in operations(document).iter().filter(|o| o.names_a_session()) {
        // A call may make the session it names: each has an id of its own that never was.
        let session = format!("no-{}-{walked:03}", &foreign.session[4..7]);
        let session = format!("{session:-<11}");
        let absent = Target {
            session: &session,
            turn: "5f0c2b8e-5a61-8d7e-9b1c-2d4e6f708192",
        };
        let (reply, cost) = counted(client, || operation.call(client, Some("bob"), foreign));
        assert!(
            !reply.text.contains("secret"),
            "{}: {reply:?}",
            operation.id
        );
        match TELLS.iter().find(|(id, _)| *id == operation.id) {
            Some((_, code)) => {
                reply.fails(409, code);
            }
            None => {
                let (never, cost_of_none) =
                    counted(client, || operation.call(client, Some("bob"), absent));
                assert_eq!(cost, cost_of_none, "statements of {}", operation.id);
                assert_eq!(
                    shape(&reply, foreign),
                    shape(&never, absent),
                    "{}",
                    operation.id
                );
            }
        }
        walked += 1;
    }
    assert!(walked > 12, "{walked} operations");
}

/// No list shows bob what is ada's.
fn world_without_ada(client: &Client) {
    for list in [
        "?limit=500",
        "?identity_id=ada",
        "?q=o",
        "?agent=desk",
        "?parent_session_id=ada-owns-00",
    ] {
        let page = client.of("bob").see(list);
        let seen = page["data"].as_array().unwrap().iter();
        for session in seen {
            assert_eq!(session["identity_id"], "bob", "{list}");
        }
    }
}

/// The schema that `$ref` leads to.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap(),
        None => schema,
    }
}

/// `answer` has the members that the schema names, all of them, and no others.
fn same_members(document: &Value, schema: &Value, answer: &Value, at: &str) {
    let schema = resolved(document, schema);
    let (Some(known), Some(members)) = (schema["properties"].as_object(), answer.as_object())
    else {
        return;
    };
    let names = |of: &serde_json::Map<String, Value>| of.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(members), names(known), "{at}");
    for (name, member) in members {
        match member.as_array() {
            Some(elements) => elements.iter().filter(|_| name != "parts").for_each(|e| {
                same_members(document, &known[name]["items"], e, &format!("{at}.{name}"));
            }),
            None => same_members(document, &known[name], member, &format!("{at}.{name}")),
        }
    }
}

#[test]
fn answers_have_the_members_that_the_document_names() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let (_, document) = document(&client);
    let question = json!({ "request_id": "r", "question_neutral": "When are you open?", "answer_neutral": "!" });
    let ada = client.of("ada");
    let turn = ada.post("/s/turns", &question).wrote(201);
    let checkpoint = json!({"label": "WAIT_CONFIRM", "state": {}});
    ada.put("/s/checkpoints", &checkpoint).wrote(201);
    let at = Target {
        session: "s",
        turn: turn["turn_id"].as_str().unwrap(),
    };
    let mut seen = 0;
    for operation in operations(&document).iter().filter(|o| o.method == "GET") {
        let told = &operation.told["responses"]["200"]["content"]["application/json"];
        if !told.is_object() {
            continue;
        }
        // What is about a whole tenant is not for end users.
        let of_tenant = ["listAudit", "getTechnicalStatus", "getKeyFigures"];
        let identity = Some("ada").filter(|_| !of_tenant.contains(&operation.id));
        let reply = operation.call(&client, identity, at);
        assert_eq!(reply.status, 200, "{}: {reply:?}", operation.id);
        same_members(&document, &told["schema"], &reply.body(), operation.id);
        seen += 1;
    }
    assert!(seen >= 10, "{seen} answers");
}

#[test]
fn a_query_that_is_not_understood_is_told_what_is_known() {
    let world = World::new();
    let server = world.serve();
    for (query, hint) in [
        ("?offset=1", "project_id, identity_id, parent_session_id"),
        ("?limit=1&limit=2", "each at most once"),
        ("?cursor=%2B1", "known parameters"),
        ("?status=done", "known: active, paused, closed"),
        ("?since=2026-11-21T09:30:00+01:00", "write + as %2B"),
        ("/s?verbose=1", "takes no parameters"),
    ] {
        let told = server.client().get(query).fails(422, "invalid");
        assert!(
            told["hint"].as_str().unwrap().contains(hint),
            "{query}: {told}"
        );
    }
}
