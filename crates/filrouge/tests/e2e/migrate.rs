//! `filrouge migrate`: the store's schema, the pending steps, and running them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::world::World;

/// Changes a store without filrouge.
fn sql(path: &Path, script: &str) {
    let run = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])";
    let mut python = Command::new("python3");
    let python = python.args(["-c", run]).arg(path).arg(script);
    assert!(python.status().unwrap().success());
}

fn filled() -> World {
    let world = World::on_sqlite();
    let server = world.serve();
    let body = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
    server.client().post("/s/turns", &body).wrote(201);
    server.stop();
    world
}

fn states(reported: &Value) -> Vec<&str> {
    let migrations = reported["migrations"].as_array().unwrap();
    migrations
        .iter()
        .map(|m| m["state"].as_str().unwrap())
        .collect()
}

#[test]
fn a_current_store_has_no_pending_steps() {
    let world = filled();
    let before = fs::read(world.store()).unwrap();
    let reported = world.json(&["migrate", "status"]);
    assert_eq!(
        (&reported["schema"], &reported["known"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(states(&reported), ["applied"]);
    assert_eq!(
        world.ok(&["migrate", "status"]),
        "schema 1; this filrouge writes 1\n0001  ledger     applied\n"
    );
    for asked in [&["migrate", "up"][..], &["migrate", "--dry-run"]] {
        assert_eq!(world.ok(asked), "up to date: schema 1\n");
    }
    let reported = world.json(&["migrate", "up"]);
    assert_eq!(reported, json!({ "from": 1, "to": 1, "applied": [] }));
    assert!(
        fs::read(world.store()).unwrap() == before,
        "a current store is not changed"
    );
}

/// Format 1 was not released: no version reads or converts it.
#[test]
fn a_store_of_format_1_is_refused() {
    let world = filled();
    sql(&world.store(), "PRAGMA application_id = 1718185009");
    let before = fs::read(world.store()).unwrap();
    for command in [
        &["migrate", "status"][..],
        &["migrate", "up"],
        &["sessions", "list"],
        &["verify"],
    ] {
        let done = world.run(command);
        assert!(done.code != Some(0) && done.stdout.is_empty(), "{done:?}");
        assert!(
            done.stderr.contains("the store has format 1"),
            "{command:?}: {done:?}"
        );
    }
    assert!(fs::read(world.store()).unwrap() == before);
}

#[test]
fn stores_that_cannot_be_migrated_are_refused() {
    let world = World::on_sqlite();
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let done = world.run(&[&["migrate"], arguments].concat());
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(code), ""),
            "{done:?}"
        );
        assert!(done.stderr.contains(words), "{arguments:?}: {done:?}");
    };
    for command in [
        &["status"][..],
        &["up"],
        &["--dry-run"],
        &["up", "--dry-run"],
    ] {
        refused(command, 1, "there is no store at");
        refused(&[command, &["--store", "memory:"]].concat(), 2, "in memory");
    }
    assert!(
        !world.store().exists() && !world.keyring().exists(),
        "nothing is created"
    );
    refused(&["up", "--store", "memory:"], 2, "in memory");
    refused(&["up", "--unverified"], 2, "--unverified");
    refused(&[], 2, "Usage:");
    // Files of other programs, and one with a newer schema.
    let foreign = world.path("foreign.db");
    sql(&foreign, "CREATE TABLE a (b)");
    let newer = world.path("newer.db");
    sql(
        &newer,
        "CREATE TABLE a (b); PRAGMA application_id = 1718185010; PRAGMA user_version = 99",
    );
    for command in [&["status"][..], &["up"], &["--dry-run"]] {
        for (path, words) in [(&foreign, "another program"), (&newer, "has schema 99")] {
            let before = fs::read(path).unwrap();
            let store = crate::copy::url(path);
            refused(&[command, &["--store", &store]].concat(), 2, words);
            assert_eq!(fs::read(path).unwrap(), before);
        }
    }
    assert!(!world.keyring().exists());
    // An empty file becomes an empty store.
    let empty = world.path("empty.db");
    fs::write(&empty, "").unwrap();
    let store = crate::copy::url(&empty);
    let reported = world.json(&["migrate", "status", "--store", &store]);
    assert_eq!(states(&reported), ["pending"]);
    assert_eq!(fs::metadata(&empty).unwrap().len(), 0);
    let plan = world.ok(&["migrate", "--dry-run", "--store", &store]);
    assert!(plan.starts_with("-- 0001 ledger\n"), "{plan}");
    assert!(plan.contains("CREATE TABLE commit_log"), "{plan}");
    let applied = world.ok(&["migrate", "up", "--store", &store]);
    assert_eq!(applied, "applied 0001 ledger\n");
    world.ok(&["sessions", "list", "--store", &store]);
}
