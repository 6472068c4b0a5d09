//! Random edits of stored bytes and rows: each response equals that of the unchanged store, or reports the damage.
//!
//! `FILROUGE_TAMPER_BYTE_EDITS` and `FILROUGE_TAMPER_ROW_EDITS` are the numbers of edits of each store.
//! `FILROUGE_TAMPER_SEED` repeats a failure.

use std::collections::BTreeSet;
use std::fs;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::tables::{Edit, Tables};
use super::{Verdict, compare_with_undamaged};
use crate::caller::{Caller, key};
use crate::http::Response;
use crate::world::{Server, World, copy_tree, env_number};

/// The keys of the callers that read the store.
struct Reads {
    admin_key: String,
    service_key: String,
}

impl Reads {
    fn new(world: &World) -> Self {
        Self {
            admin_key: key(world, &["--role", "admin"]),
            service_key: key(world, &["--role", "service"]),
        }
    }

    fn caller(&self, server: &Server, identity: Option<&str>) -> Caller {
        match identity {
            Some(name) => Caller::with_credentials(server, &self.service_key).for_identity(name),
            None => Caller::with_credentials(server, &self.admin_key),
        }
    }

    /// All responses, always in the same order.
    fn responses(&self, server: &Server) -> Vec<(String, Response)> {
        let mut all = Vec::new();
        let mut read = |identity: Option<&str>, target: &str| {
            let caller = self.caller(server, identity);
            let name = format!("{target} as {identity:?}");
            all.push((name, caller.send("GET", target, None)));
        };
        for (owner, session) in SESSIONS {
            for path in [
                "",
                "/items?limit=500",
                "/items?limit=500&cursor=3",
                "/items?limit=500&order=desc&before=8",
                "/items?seqs=2,4-6",
                "/turns?limit=500",
                "/turns?request_id=r1",
                "/context",
                "/export?format=md",
                "/events",
                "/checkpoints",
            ] {
                read(Some(owner), &format!("/api/v1/sessions/{session}{path}"));
            }
            let with_redacted = "turns?limit=500&include_redacted=true";
            read(None, &format!("/api/v1/sessions/{session}/{with_redacted}"));
        }
        for identity in [None, Some("ann"), Some("bob")] {
            for target in [
                "/api/v1/sessions?limit=500",
                "/api/v1/sessions?limit=500&agent=planner",
                "/api/v1/changes?limit=500",
            ] {
                read(identity, target);
            }
        }
        for identity in ["ann", "bob"] {
            read(Some(identity), "/api/v1/search?q=heron");
        }
        read(None, "/api/v1/audit?limit=500");
        all
    }
}

const SESSIONS: [(&str, &str); 4] = [("ann", "a0"), ("ann", "a1"), ("bob", "b0"), ("bob", "b1")];

/// Records complete turns with a tool call each, an event and a checkpoint in every session.
fn record(reads: &Reads, server: &Server, round: usize) {
    for (owner, session) in SESSIONS.into_iter().chain([("ann", "gone")]) {
        let caller = reads.caller(server, Some(owner));
        if round == 0 {
            let body = json!({ "session_id": session, "title": format!("about {session}") });
            caller.post("", &body).is(201);
        }
        let call = json!({ "item_id": format!("c{round}"), "role": "assistant", "channel": "tool_call", "agent": "planner",
            "parts": [{ "type": "tool_call", "call_id": "1", "name": "look", "args": { "path": format!("{session}/{round}") } }] });
        let result = json!({ "item_id": format!("t{round}"), "role": "tool", "channel": "tool_result",
            "parts": [{ "type": "tool_result", "call_id": "1", "ok": true, "content": "a grey heron" }] });
        let turn = json!({ "request_id": format!("r{round}"), "question_neutral": format!("question {session} {round}"),
            "answer_neutral": "lorem ipsum ".repeat(40), "items": [call, result] });
        caller.post(&format!("/{session}/turns"), &turn).is(201);
        let event =
            json!({ "key": format!("e{round}"), "kind": "said", "at": "2026-03-05T10:00:00Z" });
        caller.post(&format!("/{session}/events"), &event).is(201);
        let checkpoint = json!({ "label": "STEP", "state": { "round": round } }).to_string();
        let target = format!("/api/v1/sessions/{session}/checkpoints");
        caller.send("PUT", &target, Some(&checkpoint)).is(201);
    }
}

/// Redacts two turns, erases a session, and records an open turn.
fn redact_and_erase(reads: &Reads, server: &Server) {
    for (owner, session) in [("ann", "a0"), ("bob", "b0")] {
        let caller = reads.caller(server, Some(owner));
        let turns = caller.get(&format!("/{session}/turns?limit=500")).is(200);
        let id = turns["data"][0]["turn_id"].as_str().unwrap().to_owned();
        let path = format!("/{session}/turns/{id}/redact");
        caller
            .post(&path, &json!({ "reason": "requested" }))
            .is(200);
    }
    let ann = reads.caller(server, Some("ann"));
    let erased = ann.send("DELETE", "/api/v1/sessions/gone", None);
    assert_eq!(erased.status, 200, "{erased:?}");
    let open = json!({ "request_id": "open", "question_neutral": "?" });
    ann.post("/a1/turns", &open).is(201);
}

/// Whether a response may differ without reporting the damage. SECURITY.md, "What is not covered", lists the causes.
fn may_differ(table: &str, name: &str, before: &Response, now: &Response) -> bool {
    match table {
        // A deleted row hides an agent, and its session from lists by this agent.
        "session_agent" => {
            name.starts_with("/api/v1/sessions?limit") && shows_no_other_agents(before, now)
        }
        // Pages without the newest events are well-formed; `verify` counts the events.
        "event" => name.contains("/events") && has_no_other_rows(before, now),
        // Lists by last activity find a session by its head; the next comparison of all heads finds the damage.
        "head" => {
            let finds = name.starts_with("/api/v1/sessions?limit") || name.contains("/search");
            finds && has_no_other_rows(before, now)
        }
        // A turn with another id is not found by its request.
        "turn" if name.contains("request_id=") => has_no_other_rows(before, now),
        // An unreadable checkpoint is skipped for an older one.
        "checkpoint" => name.contains("/checkpoints") && has_no_other_rows(before, now),
        // API keys are a note. Without it no key is valid.
        "note" => now.status == 401 || now.status == 503,
        // A search omits what no verified record confirms.
        _ => name.contains("/search") && has_no_other_rows(before, now),
    }
}

/// Whether each session of a page was there before, with each of its agents.
fn shows_no_other_agents(before: &Response, now: &Response) -> bool {
    let agents = |response: &Response| -> BTreeSet<String> {
        let page = response.body();
        let sessions = page["data"].as_array().into_iter().flatten();
        let agents = sessions.flat_map(|session| {
            let agents = session["agents"].as_array().into_iter().flatten();
            agents.map(move |agent| format!("{} {agent}", session["session_id"]))
        });
        agents.collect()
    };
    has_no_other_rows(before, now) && agents(now).is_subset(&agents(before))
}

/// Whether each row of a page was there before, or is marked as unreadable.
fn has_no_other_rows(before: &Response, now: &Response) -> bool {
    let rows = |response: &Response| -> Option<Vec<String>> {
        let body: Value = serde_json::from_str(&response.text).ok()?;
        let rows = body["data"].as_array()?.iter();
        let rows = rows.filter(|row| row["unreadable"] != true);
        Some(
            rows.map(|row| {
                row["session_id"]
                    .as_str()
                    .map_or_else(|| row.to_string(), Into::into)
            })
            .collect(),
        )
    };
    match (rows(before), rows(now)) {
        (Some(before), Some(now)) => now.iter().all(|row| before.contains(row)),
        _ => false,
    }
}

/// A response without what differs between two reads of the same store: of search results, only the sessions are
/// compared, because scores depend on the other results.
fn stable(name: &str, response: &Response) -> Response {
    let mut response = response.clone();
    if name.contains("/search") && response.status == 200 {
        let found = response.body()["data"].clone();
        let sessions: BTreeSet<_> = found
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["session_id"].to_string())
            .collect();
        response.text = json!({ "data": sessions.into_iter().map(|s| json!({ "session_id": s })).collect::<Vec<_>>() }).to_string();
    }
    response
}

/// Longer than the test may take: the end of a turn that is left open would differ from what was read before.
const TURN_TIMEOUT_S: &str = "864000";

/// Edits a store that is closed or in use, reads everything, and restores the store, again and again.
fn test_random_edits(world: &World, tables: &mut Tables<'_>) {
    let seed = env_number("FILROUGE_TAMPER_SEED", 26);
    eprintln!("FILROUGE_TAMPER_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let reads = Reads::new(world);
    let server = world.serve();
    record(&reads, &server, 0);
    record(&reads, &server, 1);
    server.stop();
    tables.keep_older_rows();
    let server = world.serve();
    record(&reads, &server, 2);
    redact_and_erase(&reads, &server);
    server.stop();
    let server = world.serve();
    let before = reads.responses(&server);
    for (name, response) in &before {
        assert_eq!(response.status, 200, "GET {name}: {response:?}");
    }
    server.stop();
    tables.keep_rows();
    copy_tree(&world.path("state"), &world.path("good-state"));
    let byte_edits = env_number("FILROUGE_TAMPER_BYTE_EDITS", 12);
    let row_edits = env_number("FILROUGE_TAMPER_ROW_EDITS", 8);
    let mut detected = 0;
    for round in 0..byte_edits + row_edits {
        let kinds: &[Edit] = if round < byte_edits {
            &[Edit::Byte]
        } else {
            &[Edit::Older, Edit::OtherRow, Edit::Delete, Edit::Double]
        };
        let kind = *kinds.choose(&mut rng).unwrap();
        let is_running = rng.random_bool(0.5);
        let running = is_running.then(|| world.serve());
        let (table, what) = tables.edit(kind, &mut rng);
        let what = format!("seed {seed}, round {round}, running: {is_running}: {what}");
        let server = match running.map_or_else(|| world.try_serve(), Ok) {
            Ok(server) => server,
            Err(log) => {
                let codes = ["error[integrity_error]", "error[key_missing]"];
                assert!(codes.iter().any(|code| log.contains(code)), "{what}: {log}");
                detected += 1;
                restore(world, tables);
                continue;
            }
        };
        let mut differs = false;
        for ((name, undamaged), (_, now)) in before.iter().zip(reads.responses(&server)) {
            let (undamaged, now) = (stable(name, undamaged), stable(name, &now));
            let verdict = compare_with_undamaged(&now, &undamaged);
            differs |= verdict != Verdict::Correct;
            assert!(
                verdict != Verdict::Wrong || may_differ(table, name, &undamaged, &now),
                "{what}: GET {name} returns {now:?}, before {undamaged:?}"
            );
        }
        detected += u64::from(differs);
        server.stop();
        restore(world, tables);
    }
    eprintln!(
        "{detected} of {} edits changed a response",
        byte_edits + row_edits
    );
    assert!(detected > 0, "no edit was detected: seed {seed}");
    world.verify();
}

fn restore(world: &World, tables: &Tables<'_>) {
    fs::remove_dir_all(world.path("state")).unwrap();
    copy_tree(&world.path("good-state"), &world.path("state"));
    tables.restore();
}

#[test]
fn random_edits_of_a_file_never_yield_wrong_responses() {
    let mut world = World::on_sqlite();
    world.set("FILROUGE_TURN_TIMEOUT_S", TURN_TIMEOUT_S);
    test_random_edits(&world, &mut Tables::of_file(&world));
}

#[test]
fn random_edits_of_a_database_never_yield_wrong_responses() {
    let mut world = World::on_postgres();
    world.set("FILROUGE_TURN_TIMEOUT_S", TURN_TIMEOUT_S);
    test_random_edits(&world, &mut Tables::of_database(&world));
}
