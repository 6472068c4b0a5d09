//! `filrouge erase`: it needs a confirmation and prints a receipt for each session; a second run completes an
//! interrupted one.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::http::Client;
use crate::world::{World, durability};

fn record_turn(client: &Client, session: &str, words: &str) {
    let body = json!({ "request_id": "r", "question_neutral": words, "answer_neutral": words });
    client.post(&format!("/{session}/turns"), &body).wrote(201);
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// The ids of the sessions that still exist.
fn remaining(world: &World) -> BTreeSet<String> {
    let list = world.json(&["sessions", "list", "--limit", "500"]);
    let rows = list["data"].as_array().unwrap().iter();
    rows.map(|s| s["session_id"].as_str().unwrap().to_owned())
        .collect()
}

/// The ledger's part of a receipt in a [`World::new`].
pub(crate) fn ledger_receipt() -> Value {
    let mut receipt = json!({ "store": "ledger", "status": "erased" });
    // PostgreSQL.
    if durability() == "buffered" {
        receipt["remains"] = "in free space and the write-ahead log of PostgreSQL, until they are reused: docs/format.md#postgresql".into();
    }
    receipt
}

#[test]
fn one_session_is_erased_and_a_retry_gets_its_receipt() {
    let world = World::new();
    let server = world.serve();
    let (ada, bob) = (
        server.client().for_identity("ada"),
        server.client().for_identity("bob"),
    );
    record_turn(&ada, "s", "the-words-of-ada");
    record_turn(&bob, "t", "x");
    // The server keeps running while the command line erases.
    let shown = world.json(&["erase", "s", "--dry-run"]);
    assert_eq!(
        (&shown["sessions"], &shown["items"], &shown["turns"]),
        (&json!(1), &json!(2), &json!(1))
    );
    assert_eq!(
        world.json(&["erase", "--all-of-tenant", "--dry-run"])["sessions"],
        2
    );
    assert_eq!(remaining(&world).len(), 2);
    let receipts = lines(&world.ok(&["erase", "s", "--yes", "--json"]));
    assert_eq!(receipts.len(), 1);
    let receipt = &receipts[0];
    assert_eq!(
        (&receipt["session_id"], &receipt["items"], &receipt["turns"]),
        (&json!("s"), &json!(2), &json!(1))
    );
    assert!(receipt["erased_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(receipt["stores"], json!([ledger_receipt()]));
    let mut over_http = ada.delete("/s").is(200);
    let hot = over_http["stores"].as_array_mut().unwrap().pop();
    // Only the server can erase in its hot store; the command line has no access to that memory.
    assert_eq!(hot, Some(json!({ "store": "hot", "status": "erased" })));
    assert_eq!(&over_http, receipt, "HTTP returns the same receipt");
    assert_eq!(
        lines(&world.ok(&["erase", "--session", "s", "--yes", "--json"])),
        receipts,
        "a repeated erasure has the same answer"
    );
    let text = world.ok(&["erase", "--session", "s", "--yes"]);
    assert!(
        text.starts_with("erased: session s, 1 turns, 2 items, "),
        "{text}"
    );
    ada.get("/s").fails(410, "session_erased");
    ada.get("/s/lineage").fails(410, "session_erased");
    ada.get("/s/stats").fails(410, "session_erased");
    bob.get("/s").fails(404, "session_not_found");
    assert_eq!(remaining(&world), BTreeSet::from(["t".to_owned()]));
    server.stop();
    world.verify();
    for (arguments, code) in [
        (&["erase", "--session", "none", "--yes"][..], 1),
        (&["erase", "--session", "", "--yes"], 2),
        (&["erase", "--session", "t"], 2),
        (&["erase", "--identity", "bob"], 2),
        (&["erase", "--all-of-tenant", "--json"], 2),
        (&["erase", "--yes"], 2),
        (&["erase", "t"], 2),
        (&["erase", "t", "--dry-run", "--yes"], 2),
        (
            &["erase", "--session", "t", "--identity", "bob", "--yes"],
            2,
        ),
        (&["erase", "--session", "t", "--yes", "--unverified"], 2),
    ] {
        let command_output = world.run(arguments);
        assert_eq!(
            (command_output.code, command_output.stdout.as_str()),
            (Some(code), ""),
            "{arguments:?}: {command_output:?}"
        );
        assert_eq!(remaining(&world).len(), 1, "{arguments:?}");
    }
    let unconfirmed = world.run(&["erase", "--session", "t"]);
    assert!(
        unconfirmed.stderr.contains("t  1 turns, 2 items  x\n")
            && unconfirmed.stderr.contains("hint: give --yes"),
        "{unconfirmed:?}"
    );
}

#[test]
fn all_sessions_of_an_identity_or_a_tenant_are_erased() {
    let world = World::new();
    let (server, other) = (world.serve(), world.serve_with(&["--tenant", "other"]));
    for n in 0..7 {
        record_turn(
            &server.client().for_identity("ada"),
            &format!("ada-{n}"),
            "?",
        );
        record_turn(
            &other.client().for_identity("ada"),
            &format!("ada-{n}"),
            "?",
        );
    }
    record_turn(&server.client().for_identity("bob"), "bobs", "?");
    record_turn(&server.client(), "anonymous", "?");
    let receipts = lines(&world.ok(&["erase", "--identity", "ada", "--yes", "--json"]));
    let erased: BTreeSet<&str> = receipts
        .iter()
        .map(|r| r["session_id"].as_str().unwrap())
        .collect();
    assert_eq!((receipts.len(), erased.len()), (7, 7));
    assert!(erased.iter().all(|id| id.starts_with("ada-")), "{erased:?}");
    assert_eq!(remaining(&world).len(), 2);
    let again = world.run(&["erase", "--identity", "ada", "--yes", "--json"]);
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (Some(0), ""),
        "{again:?}"
    );
    assert_eq!(again.stderr, "there was nothing to erase\n");
    assert_eq!(
        lines(&world.ok(&["erase", "--all-of-tenant", "--yes", "--json"])).len(),
        2
    );
    assert_eq!(remaining(&world).len(), 0);
    assert_eq!(
        other.client().for_identity("ada").all("", 50).len(),
        7,
        "another tenant's sessions are kept"
    );
    server.stop();
    other.stop();
    world.verify();
}

#[test]
fn a_second_run_completes_a_killed_one() {
    let world = World::new();
    let server = world.serve();
    let ada = server.client().for_identity("ada");
    let all: BTreeSet<String> = (0..120).map(|n| format!("s{n}")).collect();
    for id in &all {
        record_turn(&ada, id, "?");
    }
    server.stop();
    let mut erased = BTreeSet::new();
    for receipts in [1, 9] {
        let mut child = world
            .command(&["erase", "--identity", "ada", "--yes", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in out.by_ref().take(receipts) {
            let receipt: Value = serde_json::from_str(&line.unwrap()).unwrap();
            assert!(
                erased.insert(receipt["session_id"].as_str().unwrap().to_owned()),
                "a second receipt for a session"
            );
        }
        child.kill().unwrap();
        child.wait().unwrap();
        world.verify();
        let left = remaining(&world);
        assert!(!left.is_empty(), "the erasure ended before the kill");
        assert!(
            left.is_disjoint(&erased),
            "a session with a receipt still exists"
        );
        erased = all.difference(&left).cloned().collect();
    }
    let rest = lines(&world.ok(&["erase", "--identity", "ada", "--yes", "--json"]));
    for receipt in &rest {
        assert!(
            erased.insert(receipt["session_id"].as_str().unwrap().to_owned()),
            "a second receipt for a session"
        );
    }
    assert_eq!(erased, all);
    assert_eq!(remaining(&world).len(), 0);
    world.verify();
}

#[test]
fn a_closed_pipe_does_not_stop_an_erasure() {
    let world = World::new();
    let server = world.serve();
    for n in 0..20 {
        record_turn(&server.client().for_identity("ada"), &format!("s{n}"), "?");
    }
    server.stop();
    let mut child = world
        .command(&["erase", "--all-of-tenant", "--yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(remaining(&world).len(), 0);
}
