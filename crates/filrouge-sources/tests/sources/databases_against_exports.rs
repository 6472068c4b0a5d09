//! Compares genuine databases with what OpenCode exported from them, and compares a migrated database with the folder
//! of JSON files from which it was migrated.

use std::fs;
use std::path::Path;

use filrouge_sources::{Conversation, Header, Message, PartKind, opencode};
use serde_json::Value;

use crate::databases::{conversations, database_of, of_generation, role};
use crate::{copy_of, fixture, json, only_source};

/// The conversations that OpenCode exported from a fixture.
fn exports(name: &str) -> Vec<Value> {
    let folder = fixture(name).join("oracle/export");
    let files = fs::read_dir(folder).unwrap();
    files
        .map(|f| json(&fs::read_to_string(f.unwrap().path()).unwrap()))
        .collect()
}

fn assert_same_message(message: &Message, exported: &Value, output_includes_reasoning: bool) {
    let info = &exported["info"];
    assert_eq!(info["id"], *message.id);
    assert_eq!(info["role"], role(message.role));
    assert_eq!(info["time"]["created"], message.created);
    assert_eq!(info["time"]["completed"].as_i64(), message.completed);
    assert_eq!(info["agent"].as_str(), message.agent.as_deref());
    assert_eq!(info["cost"].as_f64(), message.cost);
    assert_eq!(
        info["error"]["name"].as_str(),
        message.error.as_ref().map(|e| &*e.name)
    );
    if let Some(read) = &message.tokens {
        let tokens = &info["tokens"];
        let reasoning = if output_includes_reasoning {
            read.reasoning
        } else {
            0
        };
        assert_eq!(tokens["input"], read.input);
        assert_eq!(tokens["output"], read.output + reasoning);
        assert_eq!(tokens["reasoning"], read.reasoning);
        assert_eq!(tokens["cache"]["read"], read.cache_read);
        assert_eq!(tokens["cache"]["write"], read.cache_write);
    } else {
        assert!(info["tokens"].is_null());
    }
    let exported_parts = exported["parts"].as_array().unwrap();
    assert_eq!(exported_parts.len(), message.parts.len(), "{}", message.id);
    for (part, exported) in message.parts.iter().zip(exported_parts) {
        assert_eq!(exported["id"], *part.id);
        assert_eq!(exported["type"], part.kind.name());
        match &part.kind {
            PartKind::Text { text, .. } | PartKind::Reasoning { text } => {
                assert_eq!(exported["text"], **text);
            }
            PartKind::Tool(tool) => {
                assert_eq!(exported["tool"], *tool.name);
                assert_eq!(exported["callID"], *tool.call_id);
                assert_eq!(exported["state"]["input"], json(&tool.input));
                assert_eq!(exported["state"]["output"].as_str(), tool.output.as_deref());
                assert_eq!(exported["state"]["error"].as_str(), tool.error.as_deref());
            }
            _ => {}
        }
    }
}

#[test]
fn database_conversations_equal_opencodes_exports() {
    for (name, output_includes_reasoning) in
        [("opencode-sqlite", false), ("opencode-sqlite-first", true)]
    {
        let dir = database_of(name);
        let sources = opencode::open(dir.path()).unwrap();
        let exports = exports(name);
        assert_eq!(exports.len(), 4);
        for export in &exports {
            let id = export["info"]["id"].as_str().unwrap();
            let read = of_generation(&sources, "sqlite").read(id).unwrap();
            let exported_messages = export["messages"].as_array().unwrap();
            assert_eq!(read.messages.len(), exported_messages.len());
            for (message, exported) in read.messages.iter().zip(exported_messages) {
                assert_same_message(message, exported, output_includes_reasoning);
            }
        }
    }
}

#[test]
fn database_listings_equal_opencodes_lists() {
    for name in ["opencode-sqlite", "opencode-sqlite-first"] {
        let dir = database_of(name);
        let sources = opencode::open(dir.path()).unwrap();
        let headers: Vec<_> = sources
            .iter()
            .flat_map(|s| s.list().unwrap().headers.clone())
            .collect();
        for list in [
            "list-atelier-api.json",
            "list-brasero.json",
            "list-carnet.json",
        ] {
            let text = fs::read_to_string(fixture(name).join("oracle").join(list)).unwrap();
            let listing = json(&text);
            assert!(!listing.as_array().unwrap().is_empty());
            for listed in listing.as_array().unwrap() {
                let header = headers.iter().find(|h| listed["id"] == *h.id).unwrap();
                assert_eq!(listed["title"].as_str(), header.title.as_deref());
                assert_eq!(listed["created"], header.created);
                assert_eq!(listed["updated"], header.updated);
                assert_eq!(listed["projectId"].as_str(), header.project_id.as_deref());
                assert_eq!(listed["directory"].as_str(), header.directory.as_deref());
            }
        }
    }
}

#[test]
fn the_migrated_database_and_its_tree_have_the_same_conversations() {
    let (tree, database) = (
        copy_of("opencode-json-whole"),
        database_of("opencode-sqlite-migrated"),
    );
    let (from_database, from_tree) = (conversations(database.path()), conversations(tree.path()));
    assert_eq!((from_database.len(), from_tree.len()), (22, 22));
    for (id, in_tree) in &from_tree {
        let in_database: &Conversation = &from_database[id];
        assert_eq!(in_database.messages.len(), in_tree.messages.len(), "{id}");
        for (in_database, in_tree) in in_database.messages.iter().zip(&in_tree.messages) {
            let without_ids = |message: &Message| {
                let mut message = message.clone();
                // OpenCode's migration removes the ids from the JSON.
                for part in &mut message.parts {
                    if let PartKind::Other { json: text, .. } = &mut part.kind {
                        let mut value = json(text);
                        for key in ["id", "sessionID", "messageID"] {
                            value.as_object_mut().unwrap().remove(key);
                        }
                        *text = value.to_string().into();
                    }
                    if let PartKind::Tool(tool) = &mut part.kind {
                        tool.input = json(&tool.input).to_string().into();
                    }
                }
                message
            };
            assert_eq!(without_ids(in_database), without_ids(in_tree), "{id}");
        }
        assert_eq!(in_database.boundaries, in_tree.boundaries, "{id}");
        assert_eq!(in_database.reverted_at, in_tree.reverted_at, "{id}");
        assert_eq!(in_database.token_rule, in_tree.token_rule, "{id}");
    }
}

#[test]
fn the_migrated_database_and_its_tree_list_the_same_headers() {
    let (tree, database) = (
        copy_of("opencode-json-whole"),
        database_of("opencode-sqlite-migrated"),
    );
    let sources = opencode::open(database.path()).unwrap();
    let from_tree = only_source(tree.path()).list().unwrap().headers.clone();
    let from_database = of_generation(&sources, "sqlite")
        .list()
        .unwrap()
        .headers
        .clone();
    assert_eq!(from_tree.len(), 22);
    for in_tree in &from_tree {
        let in_database = from_database
            .iter()
            .find(|in_database| in_database.id == in_tree.id)
            .unwrap();
        let expected = Header {
            generation: "sqlite",
            fingerprint: in_database.fingerprint,
            ..Header::clone(in_tree)
        };
        assert_eq!(**in_database, expected);
    }
}

#[test]
fn the_migrated_database_and_its_tree_import_the_same_turns() {
    let (tree, database) = (
        copy_of("opencode-json-whole"),
        database_of("opencode-sqlite-migrated"),
    );
    let sources = opencode::open(database.path()).unwrap();
    let (from_database, from_tree) = (of_generation(&sources, "sqlite"), only_source(tree.path()));
    for header in &from_tree.list().unwrap().headers {
        let in_database = from_database.load(&header.id).unwrap();
        let in_tree = from_tree.load(&header.id).unwrap();
        assert_eq!(
            in_database.turns.len(),
            in_tree.turns.len(),
            "{}",
            header.id
        );
        for (in_database, in_tree) in in_database.turns.iter().zip(&in_tree.turns) {
            assert_eq!(in_database.request_id, in_tree.request_id);
            assert_eq!(in_database.outcome, in_tree.outcome);
            let ids = |items: &[filrouge_types::ItemBody]| -> Vec<_> {
                items
                    .iter()
                    .map(|i| (i.item_id.clone(), i.channel.clone()))
                    .collect()
            };
            assert_eq!(ids(&in_database.question), ids(&in_tree.question));
            assert_eq!(ids(&in_database.items), ids(&in_tree.items));
        }
        // Only fields that the migration keeps are compared: it empties or rebuilds some, and to-do items lose their
        // ids.
        let foreign_fields = |text: &str| json(text)["opencode"].clone();
        let (in_database, in_tree) = (
            foreign_fields(in_database.metadata.as_str()),
            foreign_fields(in_tree.metadata.as_str()),
        );
        assert_eq!(in_database["session"]["slug"], in_tree["session"]["slug"]);
        assert_eq!(
            in_database["session"]["revert"],
            in_tree["session"]["revert"]
        );
        assert_eq!(
            in_database["session"]["summary"],
            in_tree["session"]["summary"]
        );
        let contents = |todo: &Value| -> Vec<Value> {
            let list = todo.as_array().cloned().unwrap_or_default();
            list.iter().map(|entry| entry["content"].clone()).collect()
        };
        assert_eq!(contents(&in_database["todo"]), contents(&in_tree["todo"]));
    }
}

#[test]
fn session_diffs_stored_next_to_a_database_are_kept() {
    let dir = copy_of("opencode-sqlite-first");
    let sources = opencode::open(&dir.path().join("opencode.db")).unwrap();
    let source = of_generation(&sources, "sqlite");
    let diffs: usize = source
        .list()
        .unwrap()
        .headers
        .iter()
        .map(|h| source.load(&h.id).unwrap())
        .filter(|session| json(session.metadata.as_str())["opencode"]["session_diff"].is_array())
        .count();
    let files = fs::read_dir(dir.path().join("storage/session_diff")).unwrap();
    let is_listed = |path: &Path| {
        let id = path.file_stem().unwrap().to_str().unwrap().to_owned();
        source.list().unwrap().headers.iter().any(|h| *h.id == *id)
    };
    let expected = files
        .filter(|f| is_listed(&f.as_ref().unwrap().path()))
        .count();
    assert!(expected > 0);
    assert_eq!(diffs, expected);
}
