//! Indexes of histories on the command line: created, used and updated, but never required.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::source_cli::{PLAN, home, json, ok, run};
use crate::world::World;

/// A home with a separate folder of indexes.
fn indexed() -> World {
    let world = home();
    let folder = world.path("indexes");
    let file = world.path("config/filrouge/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text = format!("[search]\nindex_dir = \"{}\"\n", folder.display());
    fs::write(file, text).unwrap();
    world
}

/// The files in the folder of indexes, sorted.
fn files(world: &World) -> Vec<PathBuf> {
    let Ok(children) = fs::read_dir(world.path("indexes")) else {
        return Vec::new();
    };
    let mut all: Vec<_> = children.map(|child| child.unwrap().path()).collect();
    all.sort();
    all
}

fn status(world: &World) -> Vec<Value> {
    let reported = json(world, &["index", "status"]);
    reported["indexes"].as_array().unwrap().clone()
}

fn count(row: &Value, name: &str) -> u64 {
    row[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {row}"))
}

/// The path of the first text part of the session [`PLAN`].
fn text_part(world: &World) -> PathBuf {
    let parts = world.path("data/opencode/storage/part");
    let mut all = Vec::new();
    for message in fs::read_dir(parts).unwrap() {
        for part in fs::read_dir(message.unwrap().path()).unwrap() {
            let path = part.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let part: Value = serde_json::from_str(&text).unwrap_or_default();
            if part["type"] == "text" && part["sessionID"] == PLAN {
                all.push(path);
            }
        }
    }
    all.sort();
    all.swap_remove(0)
}

#[test]
fn indexes_are_created_used_and_updated() {
    let world = indexed();
    let before = status(&world);
    assert_eq!(before.len(), 3);
    assert!(
        before
            .iter()
            .all(|row| row["documents"].is_null() && count(row, "fresh") == 0)
    );
    assert!(files(&world).is_empty(), "`index status` created an index");
    let scanned = json(&world, &["search", "lenses"]);
    let output = run(&world, &["search", "lenses"]);
    assert!(
        output.stderr.contains("filrouge index update"),
        "{output:?}"
    );

    let created = json(&world, &["index", "update"]);
    let created = created["indexes"].as_array().unwrap();
    assert!(
        created
            .iter()
            .all(|row| row["status"] == "updated" && count(row, "documents") > 0)
    );
    let mode = |path: &PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&world.path("indexes")), 0o700);
    assert!(
        files(&world).iter().all(|path| mode(path) == 0o600),
        "{:?}",
        files(&world)
    );
    for row in status(&world) {
        assert_eq!(count(&row, "pending"), 0, "{row}");
        assert!(count(&row, "bytes") > 0 && !row["as_of"].is_null(), "{row}");
    }
    let found = json(&world, &["search", "lenses"]);
    assert_eq!(found["data"], scanned["data"]);
    let output = run(&world, &["search", "lenses"]);
    assert!(
        !output.stderr.contains("filrouge index update"),
        "{output:?}"
    );

    // An update without changes reads no session.
    let again = json(&world, &["index", "update"]);
    let sessions_read = |reported: &Value| -> u64 {
        let rows = reported["indexes"].as_array().unwrap();
        rows.iter().map(|row| count(row, "sessions")).sum()
    };
    assert_eq!(sessions_read(&again), 0);
    let part = text_part(&world);
    let text = fs::read_to_string(&part).unwrap();
    let mut new: Value = serde_json::from_str(&text).unwrap();
    new["text"] = "quarzwort".into();
    fs::write(&part, new.to_string()).unwrap();
    // A search finds the changed text at once, and indexes it after printing the result.
    let found = json(&world, &["search", "quarzwort"]);
    assert_eq!(found["data"][0]["session_id"], PLAN);
    assert_eq!(sessions_read(&json(&world, &["index", "update"])), 0);
    assert_eq!(
        sessions_read(&json(&world, &["index", "rebuild", "--source", "opencode"])),
        14
    );
}

#[test]
fn an_index_is_never_required() {
    let world = indexed();
    ok(&world, &["index", "update", "--source", "codex"]);
    let found = json(&world, &["search", "--source", "codex", "the"]);
    let index = files(&world);
    let index = index
        .iter()
        .find(|path| path.extension().is_some_and(|e| e == "index"));
    let index = index.unwrap();
    let mut bytes = fs::read(index).unwrap();
    let half = bytes.len() / 2;
    bytes.iter_mut().skip(half).for_each(|byte| *byte ^= 0x5a);
    fs::write(index, bytes).unwrap();
    let again = json(&world, &["search", "--source", "codex", "the"]);
    assert_eq!(
        again["data"], found["data"],
        "a damaged index changed the result"
    );
    // A file of another program at the path of an index is not overwritten.
    for file in files(&world) {
        fs::remove_file(file).unwrap();
    }
    fs::write(index, "of another program").unwrap();
    let again = json(&world, &["search", "--source", "codex", "the"]);
    assert_eq!(
        again["data"], found["data"],
        "a foreign file changed the result"
    );
    assert_eq!(fs::read(index).unwrap(), b"of another program");
    assert_ne!(
        run(&world, &["index", "update", "--source", "codex"]).code,
        Some(0)
    );
}

#[test]
fn without_indexes_everything_is_scanned() {
    let world = indexed();
    let file = world.path("config/filrouge/config.toml");
    fs::write(file, "[search]\nindex = false\n").unwrap();
    assert_eq!(run(&world, &["index", "status"]).code, Some(2));
    assert_eq!(run(&world, &["index", "update"]).code, Some(2));
    let output = run(&world, &["search", "lenses"]);
    assert!(
        output.code == Some(0) && !output.stderr.contains("index update"),
        "{output:?}"
    );
    assert!(!world.path(".cache").exists() && files(&world).is_empty());
}
