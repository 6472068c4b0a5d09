//! The ancestors and descendants of a session, and their combined statistics.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::http::Client;
use crate::import::import;
use crate::world::{World, copy_tree, fixture};

fn create_session(client: &Client, id: &str, parent: Option<&str>) {
    let body =
        json!({ "session_id": id, "parent_session_id": parent, "title": format!("the {id}") });
    client.post("", &body).wrote(201);
}

/// The session ids of relatives, which are objects with or without a member `session`.
fn ids(relatives: &Value) -> Vec<&str> {
    let all = relatives.as_array().unwrap().iter();
    all.map(|r| {
        r["session"]
            .as_object()
            .map_or(&r["session_id"], |s| &s["session_id"])
            .as_str()
            .unwrap()
    })
    .collect()
}

#[test]
fn lineage_lists_ancestors_siblings_and_descendants() {
    let world = World::new();
    let server = world.serve();
    let ada = server.client().for_identity("ada");
    for (id, parent) in [
        ("root", None),
        ("a", Some("root")),
        ("b", Some("root")),
        ("a1", Some("a")),
        ("a2", Some("a")),
    ] {
        create_session(&ada, id, parent);
    }
    let root = ada.get_body("/root/lineage");
    assert_eq!(ids(&root["descendants"]), ["a", "b", "a1", "a2"]);
    let depths: Vec<&Value> = root["descendants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| &d["depth"])
        .collect();
    assert_eq!(depths, [1, 1, 2, 2]);
    let a1 = ada.get_body("/a1/lineage");
    assert_eq!(
        (ids(&a1["parents"]), ids(&a1["siblings"])),
        (vec!["a", "root"], vec!["a2"])
    );
    assert_eq!(a1["parents"][0]["title"], "the a");
    for (member, value) in [
        ("forks", json!([])),
        ("gaps", json!([])),
        ("cycle", json!(false)),
        ("truncated", json!(false)),
    ] {
        assert_eq!(a1[member], value, "{member}");
    }
    ada.get("/none/lineage").fails(404, "session_not_found");
    ada.get("/a/lineage?deep=1").fails(422, "invalid");

    assert_eq!(
        world.json(&["lineage", "a1"]),
        a1,
        "the command line prints another lineage"
    );
    let text = world.ok(&["lineage", "a"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "  root  the root",
            "  * a",
            "      a1  the a1",
            "      a2  the a2",
            "siblings:",
            "  b  the b"
        ]
    );
    assert_eq!(world.run(&["lineage", "none"]).code, Some(1));
    assert_eq!(world.run(&["lineage", ""]).code, Some(2));

    // A cycle, and a parent that does not exist.
    create_session(&ada, "x", Some("y"));
    let x = ada.get_body("/x/lineage");
    assert_eq!((&x["gaps"], &x["cycle"]), (&json!(["y"]), &json!(false)));
    create_session(&ada, "y", Some("x"));
    let x = ada.get_body("/x/lineage");
    assert_eq!(
        (
            &x["gaps"],
            &x["cycle"],
            ids(&x["parents"]),
            ids(&x["descendants"])
        ),
        (&json!([]), &json!(true), vec!["y"], vec!["y"])
    );
    let reported = world.run(&["lineage", "x"]);
    assert!(
        reported.code == Some(0) && reported.stderr == "the parents form a cycle\n",
        "{reported:?}"
    );
    server.stop();
    world.verify();
}

#[test]
fn foreign_relatives_look_absent() {
    let world = World::new();
    let server = world.serve();
    let (ada, bob) = (
        server.client().for_identity("ada"),
        server.client().for_identity("bob"),
    );
    create_session(&ada, "adas-parent", None);
    create_session(&bob, "child-1", Some("adas-parent"));
    create_session(&bob, "child-2", Some("never-was-p"));
    create_session(&ada, "adas-sibling", Some("never-was-p"));
    create_session(&ada, "adas-child", Some("child-2"));
    let question =
        json!({ "request_id": "r", "question_neutral": "secret", "answer_neutral": "secret" });
    ada.post("/adas-child/turns", &question).wrote(201);
    for call in ["lineage", "stats"] {
        let foreign = bob.get(&format!("/child-1/{call}"));
        let absent = bob.get(&format!("/child-2/{call}"));
        let normalized = |text: &str| {
            let text = text.replace("child-1", "CHILD").replace("child-2", "CHILD");
            text.replace("adas-parent", "PARENT")
                .replace("never-was-p", "PARENT")
        };
        assert_eq!(
            (foreign.status, normalized(&foreign.text)),
            (200, normalized(&absent.text)),
            "{call}"
        );
        assert!(!absent.text.contains("adas-"), "{call}: {absent:?}");
        let foreign = bob.get(&format!("/adas-parent/{call}"));
        let absent = bob.get(&format!("/never-was-p/{call}"));
        assert_eq!(normalized(&foreign.text), normalized(&absent.text));
        absent.fails(404, "session_not_found");
    }
    assert_eq!(
        ids(&ada.get_body("/adas-parent/lineage")["descendants"]),
        Vec::<&str>::new()
    );
    let all = world.json(&["lineage", "child-2"]);
    assert_eq!(
        (ids(&all["descendants"]), ids(&all["siblings"])),
        (vec!["adas-child"], vec!["adas-sibling"])
    );
    assert_eq!(
        world.json(&["stats", "child-2"])["with_descendants"]["turns"],
        1
    );
    server.stop();
}

/// The sum of all kinds of tokens.
fn total_tokens(statistics: &Value) -> u64 {
    let counts = statistics["tokens"].as_object().unwrap();
    assert_eq!(counts.len(), 5);
    counts.values().map(|n| n.as_u64().unwrap()).sum()
}

/// The sum of the totals that OpenCode stores with the messages of a session.
fn stored_tokens(world: &World, id: &str) -> u64 {
    let shown = world.json(&["sessions", "show", id]);
    let items = shown["items"].as_array().unwrap().iter();
    items
        .filter_map(|i| i["usage"]["tokens"]["total"].as_u64())
        .sum()
}

#[test]
fn statistics_of_an_imported_history_equal_its_own_totals() {
    let world = World::new();
    import(&world, &fixture("opencode-json"));
    let list = world.json(&["sessions", "list", "--limit", "500"]);
    let (mut tokens, mut reasoning, mut families) = (0, 0, 0);
    for session in list["data"].as_array().unwrap() {
        let id = session["session_id"].as_str().unwrap();
        let all = world.json(&["stats", id]);
        let own = &all["own"];
        assert_eq!(own["items"], session["last_seq"], "{id}");
        assert_eq!(own["turns"], session["turn_count"], "{id}");
        assert_eq!(
            (total_tokens(own), &own["usage_unknown"]),
            (stored_tokens(&world, id), &json!(0)),
            "{id}"
        );
        tokens += total_tokens(own);
        reasoning += own["tokens"]["reasoning"].as_u64().unwrap();
        let lineage = world.json(&["lineage", id]);
        let descendants = ids(&lineage["descendants"]);
        let sum = |member: &str| -> u64 {
            let own_value = |id: &str| world.json(&["stats", id])["own"][member].as_u64().unwrap();
            descendants.iter().map(|d| own_value(d)).sum::<u64>() + own[member].as_u64().unwrap()
        };
        families += usize::from(!descendants.is_empty());
        let family = &all["with_descendants"];
        assert_eq!(family["sessions"], descendants.len() as u64 + 1, "{id}");
        for member in ["items", "turns", "tool_calls", "tool_errors", "messages"] {
            assert_eq!(family[member], sum(member), "{id}: {member}");
        }
        assert_eq!(
            &all["without_copied"], family,
            "{id}: this history has no copies"
        );
    }
    assert!(
        tokens > 10_000 && reasoning > 0 && families > 0,
        "{tokens} tokens, {reasoning} for reasoning, {families} families"
    );
    let first = list["data"][0]["session_id"].as_str().unwrap();
    let text = world.ok(&["stats", first]);
    assert!(
        text.contains("WITHOUT COPIED") && text.contains("tokens in") && text.contains("agents: "),
        "{text}"
    );
    assert_eq!(world.run(&["stats", "none"]).code, Some(1));
}

/// Copies a JSON file under new message and part ids, and applies `change`.
fn copy_json(from: &Path, to: &Path, change: &dyn Fn(&mut Value)) {
    let text = fs::read_to_string(from).unwrap();
    let text = text.replace("msg_", "msg_f").replace("prt_", "prt_f");
    let mut value: Value = serde_json::from_str(&text).unwrap();
    change(&mut value);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(to, value.to_string()).unwrap();
}

/// The names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Forks a session as OpenCode 1.x does: a new session, all messages and parts under new ids with their old times.
fn fork(storage: &Path, project: &str, old: &str, new: &str, created: u64) {
    let session = storage.join("session").join(project);
    copy_json(
        &session.join(format!("{old}.json")),
        &session.join(format!("{new}.json")),
        &|s| {
            s["id"] = json!(new);
            s["time"] = json!({ "created": created, "updated": created });
        },
    );
    let messages = storage.join("message");
    for message in names(&messages.join(old)) {
        let renamed = message.replace("msg_", "msg_f");
        copy_json(
            &messages.join(old).join(&message),
            &messages.join(new).join(&renamed),
            &|m| m["sessionID"] = json!(new),
        );
        let parts = storage.join("part").join(message.trim_end_matches(".json"));
        for part in names(&parts) {
            let to = storage.join("part").join(renamed.trim_end_matches(".json"));
            copy_json(
                &parts.join(&part),
                &to.join(part.replace("prt_", "prt_f")),
                &|p| p["sessionID"] = json!(new),
            );
        }
    }
}

#[test]
fn copied_messages_of_a_fork_are_distinguished() {
    let world = World::new();
    let folder = world.path("history");
    copy_tree(&fixture("opencode-json"), &folder);
    let storage = folder.join("storage");
    let sessions = storage.join("session");
    // The session with the most messages.
    let (project, old) = names(&sessions)
        .into_iter()
        .flat_map(|p| {
            names(&sessions.join(&p))
                .into_iter()
                .map(move |s| (p.clone(), s))
        })
        .map(|(p, s)| (p, s.trim_end_matches(".json").to_owned()))
        .max_by_key(|(_, s)| count_files(&storage.join("message").join(s)))
        .unwrap();
    fork(&storage, &project, &old, "ses_forked", 1_900_000_000_000);
    import(&world, &folder);
    let original = world.json(&["stats", &old]);
    let forked = world.json(&["stats", "ses_forked"]);
    for member in [
        "turns",
        "items",
        "messages",
        "tool_calls",
        "tokens",
        "turns_by_status",
    ] {
        assert_eq!(forked["own"][member], original["own"][member], "{member}");
    }
    assert!(total_tokens(&original["own"]) > 1000);
    let copied = &forked["without_copied"];
    assert_eq!(
        (total_tokens(copied), &copied["items"], &copied["turns"]),
        (0, &json!(0), &json!(0))
    );
    assert_eq!(original["without_copied"], original["with_descendants"]);
}

/// The number of files in a folder, which may be absent.
fn count_files(folder: &Path) -> usize {
    if folder.exists() {
        names(folder).len()
    } else {
        0
    }
}
