//! Hostile texts in the histories of other programs do not act in any output.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::elements::check_elements;
use crate::hostile::{acts_in_a_document, check_markdown};
use crate::hostile_corpus::corpus;
use crate::hostile_mcp::check_server;
use crate::hostile_terminal::check;
use crate::mcp_stdio::Agent;
use crate::source_cli::{command, home, json, ok};
use crate::world::World;

/// The members of the programs' records that hold what was said and done, and names of agents, models and tools.
const TEXTS: [&str; 14] = [
    "agent",
    "arguments",
    "command",
    "content",
    "description",
    "message",
    "model",
    "modelID",
    "name",
    "output",
    "text",
    "thinking",
    "title",
    "tool",
];

/// Replaces the texts in a record, each by the next text of the corpus.
fn replace(record: &mut Value, texts: &mut impl Iterator<Item = String>) {
    match record {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if TEXTS.contains(&name.as_str()) => {
                        *text = texts.next().unwrap();
                    }
                    value => replace(value, texts),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| replace(value, texts)),
        _ => {}
    }
}

/// Replaces the texts in all files of JSON and of JSON lines.
fn replace_in_files(folder: &Path, texts: &mut impl Iterator<Item = String>) {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            replace_in_files(&path, texts);
        } else if path
            .extension()
            .is_some_and(|e| e == "json" || e == "jsonl")
        {
            let records = fs::read_to_string(&path).unwrap();
            let records = serde_json::Deserializer::from_str(&records).into_iter::<Value>();
            let mut replaced = String::new();
            for record in records {
                let mut record = record.unwrap();
                replace(&mut record, texts);
                replaced += &format!("{record}\n");
            }
            fs::write(&path, replaced).unwrap();
        }
    }
}

/// A home with the history of each program, in which hostile texts replace what was recorded.
fn hostile_home() -> World {
    let world = home();
    let mut texts = corpus("texts").into_iter().cycle();
    for folder in ["data/opencode", ".claude", ".codex"] {
        replace_in_files(&world.path(folder), &mut texts);
    }
    world
}

#[test]
fn hostile_histories_do_not_act() {
    let world = hostile_home();
    for program in ["opencode", "claude-code", "codex"] {
        let source = ["--source", program];
        let query = |words: &[&str]| {
            let words = [words, &source].concat();
            check(command(&world, &words), &words);
        };
        query(&["sessions", "list"]);
        query(&["search", "alert"]);
        query(&["search", "alert", "--json"]);
        query(&["stats"]);
        let list = json(&world, &[&["sessions", "list"][..], &source].concat());
        let sessions = list["data"].as_array().unwrap();
        assert!(!sessions.is_empty(), "{program}: {list}");
        for session in sessions {
            let id = session["session_id"].as_str().unwrap();
            query(&["sessions", "show", id]);
            query(&["stats", id]);
            query(&["lineage", id]);
            query(&["export", id, "--json"]);
            let export = |format: &str| {
                let words = [&["export", id, "--format", format][..], &source].concat();
                let document = ok(&world, &words);
                assert!(!document.contains(acts_in_a_document), "{words:?}");
                document
            };
            check_markdown(&export("md"));
            check_elements(&export("html"));
        }
        let mut agent = Agent::start(command(&world, &["mcp", "--source", program]));
        agent.initialize("2025-11-25");
        let id = sessions[0]["session_id"].as_str().unwrap();
        check_server(id, &mut |method: &str, params: Value| {
            agent.request(method, params)
        });
    }
}
