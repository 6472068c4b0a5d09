//! `filrouge erase`: needs a confirmation, prints a receipt for each session, and a second run completes an interrupted
//! one.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::http::Client;
use crate::world::World;

fn turn(client: &Client, session: &str, words: &str) {
    let body = json!({ "request_id": "r", "question_neutral": words, "answer_neutral": words });
    client.post(&format!("/{session}/turns"), &body).wrote(201);
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

fn left(world: &World) -> BTreeSet<String> {
    let list = world.json(&["sessions", "list", "--limit", "500"]);
    let rows = list["data"].as_array().unwrap().iter();
    rows.map(|s| s["session_id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn one_session_is_erased_and_a_retry_gets_its_receipt() {
    let world = World::new();
    let server = world.serve();
    let (ada, bob) = (server.client().of("ada"), server.client().of("bob"));
    turn(&ada, "s", "the-words-of-ada");
    turn(&bob, "t", "x");
    // The server keeps running while the command line erases.
    let receipt = lines(&world.ok(&["erase", "--session", "s", "--yes", "--json"]));
    assert_eq!(receipt.len(), 1);
    let reported = &receipt[0];
    assert_eq!(
        (
            &reported["session_id"],
            &reported["items"],
            &reported["turns"]
        ),
        (&json!("s"), &json!(2), &json!(1))
    );
    assert!(reported["erased_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(
        reported["stores"],
        json!([{ "store": "ledger", "status": "erased" }])
    );
    let mut by_http = ada.delete("/s").is(200);
    let hot = by_http["stores"].as_array_mut().unwrap().pop();
    // The command line cannot reach the server's memory.
    assert_eq!(hot, Some(json!({ "store": "hot", "status": "erased" })));
    assert_eq!(&by_http, reported, "the same receipt over HTTP");
    assert_eq!(
        lines(&world.ok(&["erase", "--session", "s", "--yes", "--json"])),
        receipt,
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
    assert_eq!(left(&world), BTreeSet::from(["t".to_owned()]));
    server.stop();
    world.verify();
    for (arguments, code) in [
        (&["erase", "--session", "none", "--yes"][..], 1),
        (&["erase", "--session", "", "--yes"], 2),
        (&["erase", "--session", "t"], 2),
        (&["erase", "--identity", "bob"], 2),
        (&["erase", "--all-of-tenant", "--json"], 2),
        (&["erase", "--yes"], 2),
        (
            &["erase", "--session", "t", "--identity", "bob", "--yes"],
            2,
        ),
        (&["erase", "--session", "t", "--yes", "--unverified"], 2),
    ] {
        let done = world.run(arguments);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(code), ""),
            "{arguments:?}: {done:?}"
        );
        assert_eq!(left(&world).len(), 1, "{arguments:?}");
    }
    let asked = world.run(&["erase", "--session", "t"]);
    assert!(asked.stderr.contains("hint: give --yes"), "{asked:?}");
}

#[test]
fn an_identitys_and_a_tenants_sessions_are_erased() {
    let world = World::new();
    let (server, other) = (world.serve(), world.serve_with(&["--tenant", "other"]));
    for n in 0..7 {
        turn(&server.client().of("ada"), &format!("ada-{n}"), "?");
        turn(&other.client().of("ada"), &format!("ada-{n}"), "?");
    }
    turn(&server.client().of("bob"), "bobs", "?");
    turn(&server.client(), "nobodys", "?");
    let receipts = lines(&world.ok(&["erase", "--identity", "ada", "--yes", "--json"]));
    let erased: BTreeSet<&str> = receipts
        .iter()
        .map(|r| r["session_id"].as_str().unwrap())
        .collect();
    assert_eq!((receipts.len(), erased.len()), (7, 7));
    assert!(erased.iter().all(|id| id.starts_with("ada-")), "{erased:?}");
    assert_eq!(left(&world).len(), 2);
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
    assert_eq!(left(&world).len(), 0);
    assert_eq!(
        other.client().of("ada").all("", 50).len(),
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
    let ada = server.client().of("ada");
    let all: BTreeSet<String> = (0..120).map(|n| format!("s{n}")).collect();
    for id in &all {
        turn(&ada, id, "?");
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
                "twice"
            );
        }
        child.kill().unwrap();
        child.wait().unwrap();
        world.verify();
        let left = left(&world);
        assert!(!left.is_empty(), "the erasure was killed midway");
        assert!(
            left.is_disjoint(&erased),
            "sessions with a receipt are erased"
        );
        erased = all.difference(&left).cloned().collect();
    }
    let rest = lines(&world.ok(&["erase", "--identity", "ada", "--yes", "--json"]));
    for receipt in &rest {
        assert!(
            erased.insert(receipt["session_id"].as_str().unwrap().to_owned()),
            "twice"
        );
    }
    assert_eq!(erased, all);
    assert_eq!(left(&world).len(), 0);
    world.verify();
}

#[test]
fn a_closed_pipe_does_not_stop_an_erasure() {
    let world = World::new();
    let server = world.serve();
    for n in 0..20 {
        turn(&server.client().of("ada"), &format!("s{n}"), "?");
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
    assert_eq!(left(&world).len(), 0);
}
