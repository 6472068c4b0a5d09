//! `filrouge migrate`: what the store has, what would be done, and doing it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::world::World;

/// Whatever changes a store outside filrouge.
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

/// As a filrouge without drafts has left it.
fn older() -> World {
    let world = filled();
    sql(
        &world.store(),
        "DROP TABLE checkpoint; DROP INDEX event_at; ALTER TABLE event DROP COLUMN at;
         DROP TABLE draft; DROP TABLE draft_chunk; PRAGMA user_version = 3; VACUUM;",
    );
    world
}

fn states(told: &Value) -> Vec<&str> {
    let migrations = told["migrations"].as_array().unwrap();
    migrations
        .iter()
        .map(|m| m["state"].as_str().unwrap())
        .collect()
}

#[test]
fn an_older_store() {
    let world = older();
    let before = fs::read(world.store()).unwrap();
    let told = world.json(&["migrate", "status"]);
    assert_eq!((&told["schema"], &told["known"]), (&json!(3), &json!(5)));
    let expected = ["applied", "applied", "applied", "pending", "pending"];
    assert_eq!(states(&told), expected);
    let text = world.ok(&["migrate", "status"]);
    assert!(
        text.contains(
            "0003  sessions   applied\n0004  drafts     pending\n0005  leases     pending\n"
        ),
        "{text}"
    );
    for dry in [
        &["migrate", "--dry-run"][..],
        &["migrate", "up", "--dry-run"],
    ] {
        let text = world.ok(dry);
        assert!(text.starts_with("-- 0004 drafts\n"), "{text}");
        assert!(text.contains("CREATE TABLE draft_chunk"), "{text}");
        let told = world.json(dry);
        assert_eq!((&told["from"], &told["to"]), (&json!(3), &json!(5)));
        let pending = told["pending"].as_array().unwrap();
        assert_eq!(pending.len(), 2);
        assert_eq!(pending[0]["name"], "drafts");
        assert!(pending[0]["sql"].as_str().unwrap().contains("CREATE TABLE"));
    }
    let copy = world.copy(&[]);
    assert_eq!(copy.code, Some(2), "{copy:?}");
    assert!(copy.stderr.contains("filrouge migrate up"), "{copy:?}");
    assert!(
        fs::read(world.store()).unwrap() == before,
        "nothing is changed by looking"
    );

    assert_eq!(
        world.ok(&["migrate", "up"]),
        "applied 0004 drafts\napplied 0005 leases\n"
    );
    assert_eq!(world.ok(&["migrate", "up"]), "up to date: schema 5\n");
    assert_eq!(
        world.ok(&["migrate", "--dry-run"]),
        "up to date: schema 5\n"
    );
    let told = world.json(&["migrate", "up"]);
    assert_eq!(told, json!({ "from": 5, "to": 5, "applied": [] }));
    assert_eq!(states(&world.json(&["migrate", "status"])), ["applied"; 5]);
    world.verify();
    assert_eq!(world.copy(&[]).code, Some(0));
}

/// A server does it by itself.
#[test]
fn a_server_migrates_when_it_starts() {
    let world = older();
    world.serve().stop();
    assert_eq!(world.json(&["migrate", "status"])["schema"], 5);
    world.verify();
}

#[test]
fn stores_that_cannot_be_migrated() {
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
        "nothing is made"
    );
    refused(&["up", "--store", "memory:"], 2, "in memory");
    refused(&["up", "--unverified"], 2, "--unverified");
    refused(&[], 2, "Usage:");
    // Files that are not filrouge's, and one that is of the future.
    let foreign = world.path("foreign.db");
    sql(&foreign, "CREATE TABLE a (b)");
    let newer = world.path("newer.db");
    sql(
        &newer,
        "CREATE TABLE a (b); PRAGMA application_id = 1718185009; PRAGMA user_version = 99",
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
    let told = world.json(&["migrate", "status", "--store", &store]);
    assert_eq!(states(&told), ["pending"; 5]);
    assert_eq!(fs::metadata(&empty).unwrap().len(), 0);
    let told = world.ok(&["migrate", "up", "--store", &store]);
    assert_eq!(told.lines().count(), 5, "{told}");
    world.ok(&["sessions", "list", "--store", &store]);
}
