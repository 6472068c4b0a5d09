//! `filrouge migrate`: the store's schema, the pending steps, and running them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::world::{World, finish};

/// Runs a script of SQL statements on a SQLite file, without filrouge.
fn sql(path: &Path, script: &str) {
    let run = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])";
    let mut python = Command::new("python3");
    let python = python.args(["-c", run]).arg(path).arg(script);
    let status = python.status().unwrap();
    assert!(status.success(), "{script}: python3 ended with {status}");
}

/// Creates a world whose SQLite store contains one turn.
fn world_with_a_turn() -> World {
    let world = World::on_sqlite();
    let server = world.serve();
    let body = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
    server.client().post("/s/turns", &body).wrote(201);
    server.stop();
    world
}

/// The state of each migration that `migrate status` lists.
fn states(status: &Value) -> Vec<&str> {
    let migrations = status["migrations"].as_array().unwrap();
    migrations
        .iter()
        .map(|m| m["state"].as_str().unwrap())
        .collect()
}

#[test]
fn a_current_store_has_no_pending_steps() {
    let world = world_with_a_turn();
    let before = fs::read(world.store()).unwrap();
    let status = world.json(&["migrate", "status"]);
    assert_eq!(
        (&status["schema"], &status["known"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(states(&status), ["applied"]);
    assert_eq!(
        world.ok(&["migrate", "status"]),
        "schema 1; this filrouge writes 1\n0001  ledger     applied\n"
    );
    for command in [&["migrate", "up"][..], &["migrate", "--dry-run"]] {
        assert_eq!(world.ok(command), "up to date: schema 1\n");
    }
    let result = world.json(&["migrate", "up"]);
    assert_eq!(result, json!({ "from": 1, "to": 1, "applied": [] }));
    assert!(
        fs::read(world.store()).unwrap() == before,
        "a command changed a current store"
    );
}

/// No version reads or converts format 1, which was never released.
#[test]
fn a_store_of_format_1_is_refused() {
    let world = world_with_a_turn();
    // The application id of format 1: "fil1" in ASCII.
    sql(&world.store(), "PRAGMA application_id = 1718185009");
    let before = fs::read(world.store()).unwrap();
    for command in [
        &["migrate", "status"][..],
        &["migrate", "up"],
        &["sessions", "list"],
        &["verify"],
    ] {
        let output = world.run(command);
        assert!(
            output.code != Some(0) && output.stdout.is_empty(),
            "{output:?}"
        );
        assert!(
            output.stderr.contains("the store has format 1"),
            "{command:?}: {output:?}"
        );
    }
    assert!(
        fs::read(world.store()).unwrap() == before,
        "a command changed the store"
    );
}

#[test]
fn stores_that_cannot_be_migrated_are_refused() {
    let world = World::on_sqlite();
    let refused = |arguments: &[&str], code: i32, error: &str| {
        let output = world.run(&[&["migrate"], arguments].concat());
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(code), ""),
            "{output:?}"
        );
        assert!(output.stderr.contains(error), "{arguments:?}: {output:?}");
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
        "a refused command created a file"
    );
    refused(&["up", "--store", "memory:"], 2, "in memory");
    refused(&["up", "--unverified"], 2, "--unverified");
    refused(&[], 2, "Usage:");
    // Another program's database, and a store with a newer schema: its application id is "fil2", that of format 2.
    let foreign = world.path("foreign.db");
    sql(&foreign, "CREATE TABLE a (b)");
    let newer = world.path("newer.db");
    sql(
        &newer,
        "CREATE TABLE a (b); PRAGMA application_id = 1718185010; PRAGMA user_version = 99",
    );
    for command in [&["status"][..], &["up"], &["--dry-run"]] {
        for (path, error) in [(&foreign, "another program"), (&newer, "has schema 99")] {
            let before = fs::read(path).unwrap();
            let store = crate::copy::url(path);
            refused(&[command, &["--store", &store]].concat(), 2, error);
            assert_eq!(fs::read(path).unwrap(), before);
        }
    }
    assert!(!world.keyring().exists());
    // An empty file becomes an empty store.
    let empty = world.path("empty.db");
    fs::write(&empty, "").unwrap();
    let store = crate::copy::url(&empty);
    let status = world.json(&["migrate", "status", "--store", &store]);
    assert_eq!(states(&status), ["pending"]);
    assert_eq!(fs::metadata(&empty).unwrap().len(), 0);
    let plan = world.ok(&["migrate", "--dry-run", "--store", &store]);
    assert!(plan.starts_with("-- 0001 ledger\n"), "{plan}");
    assert!(plan.contains("CREATE TABLE commit_log"), "{plan}");
    let applied = world.ok(&["migrate", "up", "--store", &store]);
    assert_eq!(applied, "applied 0001 ledger\n");
    world.ok(&["sessions", "list", "--store", &store]);
}

#[test]
fn only_a_postgresql_store_can_be_distributed() {
    let world = world_with_a_turn();
    let copy = crate::copy::url(&world.path("copy.db"));
    let source = crate::copy::url(&world.store());
    for arguments in [
        &["migrate", "up"][..],
        &["sessions", "list"],
        &["migrate", "up", "--store", "memory:"],
        &["copy", "--from", source.as_str(), "--to", copy.as_str()],
    ] {
        let mut command = world.command(arguments);
        command.env("FILROUGE_DISTRIBUTE", "citus");
        let output = finish(command, "filrouge");
        let is_in_memory = arguments.contains(&"memory:");
        let error = if is_in_memory {
            "in memory"
        } else {
            "only a PostgreSQL store"
        };
        assert_eq!(output.code, Some(2), "{arguments:?}: {output:?}");
        assert!(output.stderr.contains(error), "{arguments:?}: {output:?}");
    }
    assert!(!world.path("copy.db").exists());
    let mut unknown = world.command(&["sessions", "list"]);
    unknown.env("FILROUGE_DISTRIBUTE", "yes");
    let output = finish(unknown, "filrouge");
    assert!(
        output.stderr.contains("neither off nor citus"),
        "{output:?}"
    );
}
