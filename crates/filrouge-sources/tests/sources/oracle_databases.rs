//! Compares genuine databases with what OpenCode exported from them, and one with the tree from which it was migrated.

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

fn assert_same_message(ours: &Message, theirs: &Value, output_includes_reasoning: bool) {
    let info = &theirs["info"];
    assert_eq!(info["id"], *ours.id);
    assert_eq!(info["role"], role(ours.role));
    assert_eq!(info["time"]["created"], ours.created);
    assert_eq!(info["time"]["completed"].as_i64(), ours.completed);
    assert_eq!(info["agent"].as_str(), ours.agent.as_deref());
    assert_eq!(info["cost"].as_f64(), ours.cost);
    assert_eq!(
        info["error"]["name"].as_str(),
        ours.error.as_ref().map(|e| &*e.name)
    );
    if let Some(own) = &ours.tokens {
        let tokens = &info["tokens"];
        let reasoning = if output_includes_reasoning {
            own.reasoning
        } else {
            0
        };
        assert_eq!(tokens["input"], own.input);
        assert_eq!(tokens["output"], own.output + reasoning);
        assert_eq!(tokens["reasoning"], own.reasoning);
        assert_eq!(tokens["cache"]["read"], own.cache_read);
        assert_eq!(tokens["cache"]["write"], own.cache_write);
    } else {
        assert!(info["tokens"].is_null());
    }
    let theirs = theirs["parts"].as_array().unwrap();
    assert_eq!(theirs.len(), ours.parts.len(), "{}", ours.id);
    for (own, their) in ours.parts.iter().zip(theirs) {
        assert_eq!(their["id"], *own.id);
        assert_eq!(their["type"], own.kind.name());
        match &own.kind {
            PartKind::Text { text, .. } | PartKind::Reasoning { text } => {
                assert_eq!(their["text"], **text);
            }
            PartKind::Tool(tool) => {
                assert_eq!(their["tool"], *tool.name);
                assert_eq!(their["callID"], *tool.call_id);
                assert_eq!(their["state"]["input"], json(&tool.input));
                assert_eq!(their["state"]["output"].as_str(), tool.output.as_deref());
                assert_eq!(their["state"]["error"].as_str(), tool.error.as_deref());
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
            let theirs = export["messages"].as_array().unwrap();
            assert_eq!(read.messages.len(), theirs.len());
            for (own, their) in read.messages.iter().zip(theirs) {
                assert_same_message(own, their, output_includes_reasoning);
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
            let theirs = json(&text);
            assert!(!theirs.as_array().unwrap().is_empty());
            for listed in theirs.as_array().unwrap() {
                let own = headers.iter().find(|h| listed["id"] == *h.id).unwrap();
                assert_eq!(listed["title"].as_str(), own.title.as_deref());
                assert_eq!(listed["created"], own.created);
                assert_eq!(listed["updated"], own.updated);
                assert_eq!(listed["projectId"].as_str(), own.project_id.as_deref());
                assert_eq!(listed["directory"].as_str(), own.directory.as_deref());
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
    let (ours, theirs) = (conversations(database.path()), conversations(tree.path()));
    assert_eq!((ours.len(), theirs.len()), (22, 22));
    for (id, their) in &theirs {
        let own: &Conversation = &ours[id];
        assert_eq!(own.messages.len(), their.messages.len(), "{id}");
        for (own, their) in own.messages.iter().zip(&their.messages) {
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
            assert_eq!(without_ids(own), without_ids(their), "{id}");
        }
        assert_eq!(own.boundaries, their.boundaries, "{id}");
        assert_eq!(own.reverted_at, their.reverted_at, "{id}");
        assert_eq!(own.token_rule, their.token_rule, "{id}");
    }
}

#[test]
fn the_migrated_database_and_its_tree_list_the_same_headers() {
    let (tree, database) = (
        copy_of("opencode-json-whole"),
        database_of("opencode-sqlite-migrated"),
    );
    let sources = opencode::open(database.path()).unwrap();
    let theirs = only_source(tree.path()).list().unwrap().headers.clone();
    let ours = of_generation(&sources, "sqlite")
        .list()
        .unwrap()
        .headers
        .clone();
    assert_eq!(theirs.len(), 22);
    for their in &theirs {
        let own = ours.iter().find(|own| own.id == their.id).unwrap();
        let expected = Header {
            generation: "sqlite",
            fingerprint: own.fingerprint,
            ..Header::clone(their)
        };
        assert_eq!(**own, expected);
    }
}

#[test]
fn the_migrated_database_and_its_tree_import_the_same_turns() {
    let (tree, database) = (
        copy_of("opencode-json-whole"),
        database_of("opencode-sqlite-migrated"),
    );
    let sources = opencode::open(database.path()).unwrap();
    let (ours, theirs) = (of_generation(&sources, "sqlite"), only_source(tree.path()));
    for header in &theirs.list().unwrap().headers {
        let own = ours.load(&header.id).unwrap();
        let their = theirs.load(&header.id).unwrap();
        assert_eq!(own.turns.len(), their.turns.len(), "{}", header.id);
        for (own, their) in own.turns.iter().zip(&their.turns) {
            assert_eq!(own.request_id, their.request_id);
            assert_eq!(own.outcome, their.outcome);
            let ids = |items: &[filrouge_types::ItemBody]| -> Vec<_> {
                items
                    .iter()
                    .map(|i| (i.item_id.clone(), i.channel.clone()))
                    .collect()
            };
            assert_eq!(ids(&own.question), ids(&their.question));
            assert_eq!(ids(&own.items), ids(&their.items));
        }
        // Only fields that the migration keeps are compared: it empties or rebuilds some, and to-do items lose their
        // ids.
        let notes = |text: &str| json(text)["opencode"].clone();
        let (own, their) = (notes(own.metadata.as_str()), notes(their.metadata.as_str()));
        assert_eq!(own["session"]["slug"], their["session"]["slug"]);
        assert_eq!(own["session"]["revert"], their["session"]["revert"]);
        assert_eq!(own["session"]["summary"], their["session"]["summary"]);
        let contents = |todo: &Value| -> Vec<Value> {
            let list = todo.as_array().cloned().unwrap_or_default();
            list.iter().map(|entry| entry["content"].clone()).collect()
        };
        assert_eq!(contents(&own["todo"]), contents(&their["todo"]));
    }
}

#[test]
fn differences_stored_next_to_a_database_are_kept() {
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
