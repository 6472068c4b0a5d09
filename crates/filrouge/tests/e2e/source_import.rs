//! Imports of the histories of every program, also from several generations of its storage at once.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::import::{import, journal};
use crate::world::{World, copy_tree, finish, fixture};

/// Imports a program's history; returns the summary.
fn import_from(world: &World, source: &str, path: &std::path::Path) -> Value {
    world.json(&["import", source, path.to_str().unwrap()])
}

/// A count of the summary.
fn count(summary: &Value, name: &str) -> u64 {
    summary[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {summary}"))
}

/// The number of skips with this reason.
fn count_skips(summary: &Value, reason: &str) -> usize {
    let skipped = summary["skipped"].as_array().unwrap().iter();
    skipped.filter(|skip| skip["reason"] == reason).count()
}

#[test]
fn each_program_is_imported_and_a_repeated_import_adds_nothing() {
    for (source, fixture_name, sessions) in [
        ("claude-code", "claude-code", 4),
        ("codex", "codex", 2),
        ("opencode", "opencode-sqlite", 25),
        ("opencode", "opencode-sqlite-first", 22),
    ] {
        let world = World::new();
        let folder = world.path("history");
        copy_tree(&fixture(fixture_name), &folder);
        let first = import_from(&world, source, &folder);
        assert_eq!(
            count(&first, "sessions_added"),
            sessions,
            "{fixture_name}: {first}"
        );
        assert!(
            count(&first, "turns_added") > 0 && count(&first, "items") > 0,
            "{first}"
        );
        assert_eq!(first["refused"].as_array().unwrap().len(), 0, "{first}");
        let before = journal(&world);
        let second = import_from(&world, source, &folder);
        assert_eq!(
            (
                count(&second, "sessions_added"),
                count(&second, "turns_added"),
                count(&second, "turns_replaced")
            ),
            (0, 0, 0),
            "{fixture_name}: {second}"
        );
        assert_eq!(count(&second, "turns_known"), count(&first, "turns_added"));
        assert_eq!(second["skipped"], first["skipped"], "{fixture_name}");
        assert_eq!(journal(&world), before, "{fixture_name}");
        let origin = &before[0]["session"]["metadata"]["origin"]["source"];
        assert_eq!(origin, source);
        world.verify();
    }
}

#[test]
fn each_session_is_imported_once_from_all_generations() {
    let world = World::new();
    let folder = world.path("opencode");
    copy_tree(&fixture("opencode-json"), &folder);
    copy_tree(&fixture("opencode-json-legacy"), &folder);
    let database = fixture("opencode-sqlite-migrated/opencode.db");
    fs::copy(database, folder.join("opencode.db")).unwrap();
    let summary = import(&world, &folder);
    // The database has all 14 sessions of the older files, and more. The legacy files have two sessions of their own.
    let shadowed = count_skips(&summary, "shadowed");
    let sessions = count(&summary, "sessions_added");
    assert_eq!((sessions, shadowed), (24, 14), "{summary}");
    let journal = journal(&world);
    let ids: std::collections::BTreeSet<_> = journal
        .iter()
        .map(|export| export["session"]["session_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), journal.len());
    let child = journal
        .iter()
        .find(|export| !export["session"]["parent_session_id"].is_null());
    let parent = child.unwrap()["session"]["parent_session_id"]
        .as_str()
        .unwrap();
    assert!(ids.contains(parent));
    world.verify();
}

#[test]
fn without_a_path_the_programs_default_folder_is_imported() {
    let world = World::new();
    let run = |arguments: &[&str]| {
        let mut command = world.command(arguments);
        for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_DB"] {
            command.env_remove(name);
        }
        finish(command, &format!("{arguments:?}"))
    };
    for source in ["opencode", "claude-code", "codex"] {
        let output = run(&["import", source]);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains("hint: give "), "{output:?}");
    }
    assert!(world.is_empty(), "a missing history created a store");
    copy_tree(&fixture("opencode-json"), &world.path("data/opencode"));
    copy_tree(&fixture("codex"), &world.path(".codex"));
    for source in ["opencode", "codex"] {
        assert_eq!(run(&["import", source]).code, Some(0), "{source}");
    }
    assert_eq!(journal(&world).len(), 16);
    let bundle = run(&["import", "bundle"]);
    assert_eq!(bundle.code, Some(2), "{bundle:?}");
    let key = run(&["import", "codex", "--public-key", "00"]);
    assert_eq!(key.code, Some(2), "{key:?}");
}

#[test]
fn a_killed_import_is_completed_by_the_next() {
    let world = World::new();
    let folder = world.path("history");
    copy_tree(&fixture("opencode-sqlite"), &folder);
    let arguments = ["import", "opencode", folder.to_str().unwrap()];
    let mut child = world
        .command(&arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while world.is_empty() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let rest = import(&world, &folder);
    assert_eq!(count(&rest, "turns_replaced"), 0, "{rest}");
    let uninterrupted = World::new();
    let all = import(&uninterrupted, &folder);
    assert_eq!(
        count(&rest, "turns_added") + count(&rest, "turns_known"),
        count(&all, "turns_added")
    );
    let contents = |world: &World| {
        let sessions = journal(world).into_iter().map(|export| {
            let items = export["items"].as_array().unwrap().iter();
            let items: Vec<_> = items
                .map(|item| [item["item_id"].clone(), item["parts"].clone()])
                .collect();
            (export["session"]["session_id"].clone(), items)
        });
        sessions.collect::<Vec<_>>()
    };
    assert_eq!(contents(&world), contents(&uninterrupted));
}
