//! Compares genuine trees with an independent count and with what OpenCode exported from them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use filrouge_sources::{Conversation, Message, Part, PartKind, Role};
use serde_json::Value;

use crate::{fixture, json, only_source};

/// The contents of all JSON files below a folder.
fn read_values(dir: &Path) -> Vec<Value> {
    let mut values = Vec::new();
    for child in fs::read_dir(dir).unwrap() {
        let path = child.unwrap().path();
        if path.is_dir() {
            values.extend(read_values(&path));
        } else if path.extension().is_some_and(|e| e == "json") {
            values.push(json(&fs::read_to_string(path).unwrap()));
        }
    }
    values
}

/// The number of occurrences of each word.
fn counts(words: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_insert(0) += 1;
    }
    counts
}

fn role(message: &Message) -> &'static str {
    match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
    }
}

fn conversations(name: &str) -> Vec<Conversation> {
    let source = only_source(&fixture(name));
    let headers = source.list().unwrap().headers.clone();
    let read = |h: &std::sync::Arc<filrouge_sources::Header>| source.read(&h.id).unwrap();
    headers.iter().map(read).collect()
}

#[test]
fn counts_equal_an_independent_count() {
    for (name, tree) in [
        ("opencode-json-whole", "storage"),
        ("opencode-json-legacy-whole", "project"),
    ] {
        let read = conversations(name);
        assert!(
            read.iter()
                .all(|conversation| conversation.skipped.is_empty())
        );
        let word = |value: &Value| value.as_str().unwrap().to_owned();

        let files = read_values(&fixture(name).join(tree));
        let messages = files.iter().filter(|f| f.get("role").is_some());
        let expected = counts(messages.map(|m| word(&m["role"])));
        let messages_read = read.iter().flat_map(|conversation| &conversation.messages);
        assert_eq!(counts(messages_read.map(|m| role(m).to_owned())), expected);

        let parts = files.iter().filter(|f| f.get("messageID").is_some());
        let expected = counts(parts.map(|p| word(&p["type"])));
        let messages_read = read.iter().flat_map(|conversation| &conversation.messages);
        let parts_read = messages_read.flat_map(|m| &m.parts);
        assert_eq!(
            counts(parts_read.map(|p| p.kind.name().to_owned())),
            expected
        );
        assert!(expected.values().sum::<usize>() > 30, "{expected:?}");
    }
}

/// Compares the texts of a part with those in the export's JSON.
fn assert_same_part(read: &Part, exported: &Value) {
    assert_eq!(&*read.id, exported["id"].as_str().unwrap());
    assert_eq!(read.kind.name(), exported["type"].as_str().unwrap());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match &read.kind {
        PartKind::Text {
            text: read_text,
            synthetic,
        } => {
            assert_eq!(Some(read_text.to_string()), text(&exported["text"]));
            assert_eq!(*synthetic, exported["synthetic"] == true);
        }
        PartKind::Reasoning { text: read_text } => {
            assert_eq!(Some(read_text.to_string()), text(&exported["text"]));
        }
        PartKind::Tool(tool) => {
            let state = &exported["state"];
            let own = |text: &Option<Box<str>>| text.as_ref().map(ToString::to_string);
            assert_eq!(Some(tool.name.to_string()), text(&exported["tool"]));
            assert_eq!(Some(tool.call_id.to_string()), text(&exported["callID"]));
            assert_eq!(json(&tool.input), state["input"]);
            assert_eq!(own(&tool.output), text(&state["output"]));
            assert_eq!(own(&tool.error), text(&state["error"]));
            assert_eq!(own(&tool.child), text(&state["metadata"]["sessionId"]));
            assert_eq!(read.start, state["time"]["start"].as_i64());
            assert_eq!(read.end, state["time"]["end"].as_i64());
        }
        PartKind::Other { json: written, .. } => assert_eq!(json(written), *exported),
        _ => {}
    }
}

fn assert_same_message(read: &Message, exported: &Value) {
    let info = &exported["info"];
    assert_eq!(&*read.id, info["id"].as_str().unwrap());
    assert_eq!(role(read), info["role"]);
    assert_eq!(Some(read.created), info["time"]["created"].as_i64());
    assert_eq!(read.completed, info["time"]["completed"].as_i64());
    assert_eq!(read.agent.as_deref(), info["agent"].as_str());
    assert_eq!(read.finish.as_deref(), info["finish"].as_str());
    assert_eq!(read.cost, info["cost"].as_f64());
    assert_eq!(read.summary, info["summary"] == true);
    assert_eq!(
        read.error.as_ref().map(|e| &*e.name),
        info["error"]["name"].as_str()
    );
    let tokens = &info["tokens"];
    assert_eq!(read.tokens.is_some(), tokens.is_object());
    if let Some(own) = &read.tokens {
        let number = |value: &Value| value.as_u64().unwrap();
        assert_eq!(own.input, number(&tokens["input"]));
        // Version 1.1 includes reasoning in output.
        assert_eq!(own.output + own.reasoning, number(&tokens["output"]));
        assert_eq!(own.reasoning, number(&tokens["reasoning"]));
        assert_eq!(own.cache_read, number(&tokens["cache"]["read"]));
        assert_eq!(own.cache_write, number(&tokens["cache"]["write"]));
    }
    let parts = exported["parts"].as_array().unwrap();
    assert_eq!(read.parts.len(), parts.len(), "{}", read.id);
    for (part, exported_part) in read.parts.iter().zip(parts) {
        assert_same_part(part, exported_part);
    }
}

#[test]
fn conversations_equal_opencodes_exports() {
    let source = only_source(&fixture("opencode-json-whole"));
    let mut compared = 0;
    for export in read_values(&fixture("opencode-json-whole/oracle/export")) {
        let id = export["info"]["id"].as_str().unwrap();
        let read = source.read(id).unwrap();
        compared += 1;
        let exported = export["messages"].as_array().unwrap();
        assert_eq!(read.messages.len(), exported.len(), "{id}");
        for (message, exported_message) in read.messages.iter().zip(exported) {
            assert_same_message(message, exported_message);
        }
    }
    assert_eq!(compared, 4);
}

#[test]
fn listings_equal_opencodes_lists() {
    let headers = only_source(&fixture("opencode-json-whole"))
        .list()
        .unwrap()
        .headers
        .clone();
    let mut compared = 0;
    for name in ["atelier-api", "brasero", "carnet"] {
        let list = fixture("opencode-json-whole/oracle").join(format!("list-{name}.json"));
        for exported in json(&fs::read_to_string(list).unwrap()).as_array().unwrap() {
            let own = headers
                .iter()
                .find(|h| &*h.id == exported["id"].as_str().unwrap())
                .unwrap();
            compared += 1;
            assert_eq!(own.title.as_deref(), exported["title"].as_str());
            assert_eq!(Some(own.updated), exported["updated"].as_i64());
            assert_eq!(Some(own.created), exported["created"].as_i64());
            assert_eq!(own.project_id.as_deref(), exported["projectId"].as_str());
            assert_eq!(own.directory.as_deref(), exported["directory"].as_str());
            // OpenCode lists only sessions that no other session started.
            assert_eq!(own.parent_id, None);
        }
    }
    let roots = headers.iter().filter(|h| h.parent_id.is_none());
    let global = headers
        .iter()
        .filter(|h| h.project_id.as_deref() == Some("global"));
    assert_eq!(compared, roots.count() - global.count());
}

#[test]
fn a_header_has_the_agent_and_folders_of_the_loaded_session() {
    for name in ["opencode-json-whole", "opencode-json-legacy-whole"] {
        let source = only_source(&fixture(name));
        for header in &source.list().unwrap().headers {
            let loaded = source.load(&header.id).unwrap().session;
            assert_eq!(header.agent, loaded.agent);
            assert_eq!(header.directory, loaded.directory);
            assert_eq!(header.worktree, loaded.worktree);
        }
    }
}
