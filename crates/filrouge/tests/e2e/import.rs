//! Imports of OpenCode's histories: first, repeated, and killed midway.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::{World, fixture};

/// The exports of all sessions in the store, without values that differ between imports.
pub(crate) fn journal(world: &World) -> Vec<Value> {
    let list = world.json(&["sessions", "list", "--limit", "500"]);
    let mut exports: Vec<Value> = Vec::new();
    for session in list["data"].as_array().unwrap() {
        let id = session["session_id"].as_str().unwrap();
        let mut export: Value = serde_json::from_str(&world.ok(&["export", id])).unwrap();
        normalize(&mut export);
        exports.push(export);
    }
    exports.sort_by_key(|e| e["session"]["session_id"].as_str().unwrap().to_owned());
    exports
}

/// Removes from an export what differs between imports: times of turns and items, salts, and what is computed from them.
fn normalize(value: &mut Value) {
    // Only whether a time is set can be compared.
    let normalize_times = |record: &mut Value| {
        for field in ["created_at", "updated_at", "finalized_at"] {
            if let Some(time) = record.get_mut(field) {
                *time = Value::from(time.is_null());
            }
        }
    };
    for signed in ["head", "signature"] {
        value.as_object_mut().unwrap().remove(signed);
    }
    for item in value["items"].as_array_mut().unwrap() {
        let item = item.as_object_mut().unwrap();
        for chained in ["salt", "link"] {
            item.remove(chained);
        }
        for event in item["events"].as_array_mut().unwrap() {
            for change in event.as_object_mut().unwrap().values_mut() {
                change.as_object_mut().unwrap().remove("fingerprint");
            }
        }
    }
    value["turns"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(normalize_times);
    value["items"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(normalize_times);
}

/// Imports a folder of OpenCode; returns the summary.
pub(crate) fn import(world: &World, folder: &std::path::Path) -> Value {
    world.json(&["import", "opencode", folder.to_str().unwrap()])
}

fn count(summary: &Value, name: &str) -> u64 {
    summary[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {summary}"))
}

#[test]
fn genuine_histories_are_imported() {
    let world = World::new();
    let json = import(&world, &fixture("opencode-json"));
    assert_eq!(
        (count(&json, "sessions"), count(&json, "sessions_added")),
        (14, 14),
        "{json}"
    );
    assert_eq!(
        (count(&json, "turns_known"), count(&json, "turns_replaced")),
        (0, 0)
    );
    assert_eq!(json["skipped"], json!([]), "{json}");
    let legacy = import(&world, &fixture("opencode-json-legacy"));
    assert_eq!(
        (count(&legacy, "sessions"), count(&legacy, "sessions_added")),
        (2, 2),
        "{legacy}"
    );
    world.verify();

    let journal = journal(&world);
    assert_eq!(journal.len(), 16);
    let sum = |list: &str| {
        journal
            .iter()
            .map(|e| e[list].as_array().unwrap().len() as u64)
            .sum::<u64>()
    };
    assert_eq!(
        sum("items"),
        count(&json, "items") + count(&legacy, "items")
    );
    assert_eq!(
        sum("turns"),
        count(&json, "turns_added") + count(&legacy, "turns_added")
    );
    let session = |id: &str| {
        journal
            .iter()
            .find(|e| e["session"]["session_id"].as_str().unwrap().starts_with(id))
            .unwrap()
    };
    assert_eq!(
        session("ses_41fc9d944ffe")["items"]
            .as_array()
            .unwrap()
            .len(),
        0,
        "a session that was opened and never used"
    );
    let parent = session("ses_44e90f601ffe");
    let origin = &parent["session"]["metadata"]["origin"];
    for (time, original) in [("created_at", "created"), ("updated_at", "updated")] {
        assert!(origin[original].is_string(), "{origin}");
        assert_eq!(parent["session"][time], origin[original], "{time}");
    }
    assert!(
        parent["session"]["title"]
            .as_str()
            .unwrap()
            .contains("rate limiter")
    );
    assert_eq!(
        session("ses_44e90f368ffe")["session"]["parent_session_id"],
        parent["session"]["session_id"]
    );
    assert_eq!(session("ses_3e791c788ffe")["turns"][1]["status"], "failed");
    assert_eq!(
        session("ses_3e791c821ffe")["turns"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()["status"],
        "interrupted"
    );
    assert!(
        session("ses_3a355860affe")["session"]["title"]
            .as_str()
            .unwrap()
            .contains("relue")
    );
    let items = journal.iter().flat_map(|e| e["items"].as_array().unwrap());
    assert!(
        items
            .clone()
            .all(|i| i["occurred_at"].is_string() && i["item_id"].is_string())
    );
}

/// Checks the texts of user and assistant messages, including reasoning, and those of an answer that broke off.
#[test]
fn every_text_of_the_source_is_in_the_ledger() {
    fn collect(folder: &std::path::Path, texts: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, texts);
            } else if path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("prt_")
            {
                let part: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
                if let ("text" | "reasoning", Some(text)) =
                    (part["type"].as_str().unwrap(), part["text"].as_str())
                {
                    texts.push(text.to_owned());
                }
            }
        }
    }
    for (name, minimum) in [("opencode-json", 40), ("opencode-json-legacy", 4)] {
        let world = World::new();
        import(&world, &fixture(name));
        let mut texts = Vec::new();
        collect(&fixture(name), &mut texts);
        assert!(texts.len() >= minimum, "{name}: {}", texts.len());
        let items: Vec<Value> = journal(&world)
            .into_iter()
            .map(|e| e["items"].clone())
            .collect();
        let stored: Vec<&str> = items
            .iter()
            .flat_map(|list| list.as_array().unwrap())
            .flat_map(|item| item["parts"].as_array().unwrap())
            .filter_map(|part| part["text"].as_str())
            .collect();
        for text in texts.iter().filter(|t| !t.is_empty()) {
            assert!(stored.contains(&text.as_str()), "{name}: {text:?}");
        }
    }
}

#[test]
fn a_second_import_changes_nothing() {
    for name in ["opencode-json", "opencode-json-legacy"] {
        let world = World::new();
        let first = import(&world, &fixture(name));
        let before = journal(&world);
        let position = world.json(&["anchor", "show"])["newest_commit"].clone();
        let second = import(&world, &fixture(name));
        for counter in ["sessions_added", "turns_added", "turns_replaced", "items"] {
            assert_eq!(count(&second, counter), 0, "{name}: {counter}: {second}");
        }
        assert_eq!(second["turns_known"], first["turns_added"]);
        assert_eq!(second["skipped"], first["skipped"]);
        assert_eq!(journal(&world), before, "{name}");
        assert_eq!(
            world.json(&["anchor", "show"])["newest_commit"],
            position,
            "{name}: the second import added a commit"
        );
        world.verify();
        let folder = fixture(name);
        let text = world.ok(&["import", "opencode", folder.to_str().unwrap()]);
        assert!(
            text.contains("0 new") && text.contains("0 items written"),
            "{text}"
        );
    }
}

#[test]
fn a_killed_import_is_finished_by_the_next_run() {
    let undisturbed = World::new();
    let folder = fixture("opencode-json");
    let begin = Instant::now();
    import(&undisturbed, &folder);
    let duration = begin.elapsed();
    let expected = journal(&undisturbed);
    let mut killed_midway = 0;
    for part in 1..=12 {
        let world = World::new();
        // Up to three consecutive kills, each a little later than the one before.
        for kill in 0..=(part % 3) {
            let arguments = ["import", "opencode", folder.to_str().unwrap()];
            let mut child = world
                .command(&arguments)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(
                duration.mul_f64(f64::from(part + kill) / 14.0) + Duration::from_millis(1),
            );
            child.kill().unwrap();
            let killed = child.wait().unwrap().code().is_none();
            let begun = !world.is_empty();
            killed_midway += u32::from(killed && begun);
            if world.keyring().exists() && begun {
                world.verify();
            }
        }
        import(&world, &folder);
        assert_eq!(
            journal(&world),
            with_turn_ids_of(&world, &expected),
            "killed after {part}/14"
        );
        world.verify();
    }
    assert!(
        killed_midway > 3,
        "only {killed_midway} kills hit a running import"
    );
}

/// Replaces turn ids, which depend on a world's key, by those that the same requests have in `world`.
fn with_turn_ids_of(world: &World, expected: &[Value]) -> Vec<Value> {
    let mut text = serde_json::to_string(expected).unwrap();
    for (own, other) in journal(world).iter().zip(expected) {
        for (own, other) in own["turns"]
            .as_array()
            .unwrap()
            .iter()
            .zip(other["turns"].as_array().unwrap())
        {
            assert_eq!(own["request_id"], other["request_id"]);
            text = text.replace(
                other["turn_id"].as_str().unwrap(),
                own["turn_id"].as_str().unwrap(),
            );
        }
    }
    serde_json::from_str(&text).unwrap()
}
