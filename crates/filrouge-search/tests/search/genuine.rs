//! Searches in genuine histories find all text that can be read, and no other text.

use std::collections::BTreeSet;

use filrouge_search::{Results, SearchRequest};
use filrouge_sources::{Library, Message, PartKind, Role, claude_code, codex, opencode};
use filrouge_store::text_index::fold;
use serde_json::Value;

use super::*;

/// Opens the history with this name.
fn open(name: &str, path: &Path) -> Library {
    let sources = match name {
        "claude-code" => claude_code::open(path),
        "codex" => codex::open(path),
        _ => opencode::open(path),
    };
    Library::new(sources.unwrap(), 64 << 20)
}

fn request(query: &str) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        limit: 500,
        ..SearchRequest::default()
    }
}

fn results(library: &Library, query: &str) -> Results {
    search(library, &request(query)).unwrap()
}

/// All texts of a message. Texts of JSON are also returned with their escapes resolved.
fn texts(message: &Message) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for part in &message.parts {
        match &part.kind {
            PartKind::Text { text, .. } | PartKind::Reasoning { text } => {
                all.push(text.to_string());
            }
            PartKind::Tool(tool) => {
                let some = [&tool.output, &tool.error, &tool.title];
                all.extend(some.into_iter().flatten().map(ToString::to_string));
                all.extend(tool.files.iter().map(ToString::to_string));
                all.extend([tool.name.to_string(), tool.input.to_string()]);
                strings(
                    serde_json::from_str(&tool.input).unwrap_or_default(),
                    &mut all,
                );
            }
            PartKind::File { name, url, .. } => {
                all.extend([name, url].into_iter().flatten().map(ToString::to_string));
            }
            PartKind::Patch { files } => all.extend(files.iter().map(ToString::to_string)),
            PartKind::Compaction { summary, .. } => {
                all.extend(summary.as_ref().map(ToString::to_string));
            }
            PartKind::Other { name, json }
                if !["step-start", "step-finish", "snapshot"].contains(&&**name) =>
            {
                all.push(json.to_string());
                strings(serde_json::from_str(json).unwrap_or_default(), &mut all);
            }
            PartKind::Other { .. } => {}
        }
    }
    if let Some(error) = &message.error {
        all.extend([error.name.to_string(), error.message.to_string()]);
    }
    all
}

/// Adds all strings of a JSON value.
fn strings(value: Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) => all.push(text),
        Value::Array(values) => values.into_iter().for_each(|v| strings(v, all)),
        Value::Object(fields) => fields.into_iter().for_each(|(_, v)| strings(v, all)),
        _ => {}
    }
}

/// The place and the folded texts of every readable title and message.
fn folded_texts(library: &Library) -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    for entry in &library.catalog().entries {
        let (header, conversation) = (&entry.header, library.conversation(entry).unwrap());
        let title = header.title.iter().map(|t| fold(t).into_owned()).collect();
        all.push((header.id.to_string(), title));
        for message in &conversation.messages {
            let texts = texts(message);
            let texts = texts.iter().map(|t| fold(t).into_owned()).collect();
            all.push((format!("{}:{}", header.id, message.id), texts));
        }
    }
    all
}

/// The middle word of each text, where words consist of letters and digits.
fn words(all: &[(String, Vec<String>)]) -> BTreeSet<String> {
    let texts = all.iter().flat_map(|(_, texts)| texts);
    let words = texts.filter_map(|text| {
        let words: Vec<&str> = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|w| w.len() > 2)
            .collect();
        words.get(words.len() / 2).map(|word| (*word).to_owned())
    });
    words.collect()
}

#[test]
fn all_readable_text_is_found() {
    for name in [
        "opencode-json-whole",
        "opencode-json-legacy-whole",
        "opencode-sqlite",
        "opencode-sqlite-first",
        "opencode-sqlite-wal",
        "claude-code",
        "codex",
    ] {
        let dir = copy_of(name);
        let library = open(name, dir.path());
        let all = folded_texts(&library);
        let words = words(&all);
        assert!(words.len() > 3, "{name}: {words:?}");
        for word in words.iter().step_by(words.len() / 60 + 1) {
            let expected = all
                .iter()
                .filter(|(_, texts)| texts.iter().any(|t| t.contains(word.as_str())));
            let expected: BTreeSet<&str> = expected.map(|(place, _)| place.as_str()).collect();
            let results = search(
                &library,
                &SearchRequest {
                    excerpts: 1000,
                    ..request(word)
                },
            )
            .unwrap();
            let places = results
                .sessions
                .iter()
                .flat_map(|hit| &hit.excerpts)
                .map(|e| e.place.as_str());
            assert_eq!(places.collect::<BTreeSet<_>>(), expected, "{name}: {word}");
            assert_eq!(results.total_matches, expected.len(), "{name}: {word}");
        }
    }
}

#[test]
fn text_of_each_storage_form_is_found() {
    let dir = copy_of("opencode-sqlite");
    let library = open("opencode-sqlite", dir.path());
    let found = results(&library, "\"asked twice about the key\"");
    assert!(found.total_matches > 0);
    assert!(
        found
            .sessions
            .iter()
            .all(|hit| hit.session.generation == "session_message")
    );
    let dir = copy_of("opencode-json-legacy-whole");
    let library = open("opencode-json-legacy-whole", dir.path());
    assert!(results(&library, "ask_user").total_matches > 0);
    assert_eq!(
        results(&library, "ask_user").total_matches,
        results(&library, "/ASK_user/i").total_matches
    );
}

#[test]
fn results_of_complementary_filters_add_up() {
    let dir = copy_of("opencode-json-whole");
    let library = open("opencode-json-whole", dir.path());
    let matches_of_role = |role| {
        let role = Some(role);
        search(
            &library,
            &SearchRequest {
                role,
                ..request("the")
            },
        )
        .unwrap()
        .total_matches
    };
    let titles = results(&library, "the");
    let titles = titles.sessions.iter().filter(|hit| {
        let title = hit.session.title.as_deref().unwrap_or_default();
        title.to_lowercase().contains("the")
    });
    let (user, agent, title) = (
        matches_of_role(Role::User),
        matches_of_role(Role::Assistant),
        titles.count(),
    );
    assert!(user > 0 && agent > 0);
    assert_eq!(user + agent + title, results(&library, "the").total_matches);
    let all = search(
        &library,
        &SearchRequest {
            tool: Some("bash".to_owned()),
            ..request("")
        },
    )
    .unwrap();
    let catalog = library.catalog();
    let calls = catalog.entries.iter().map(|entry| {
        let conversation = library.conversation(entry).unwrap();
        let has_bash_call = |m: &&Message| {
            m.parts
                .iter()
                .any(|p| matches!(&p.kind, PartKind::Tool(t) if &*t.name == "bash"))
        };
        conversation.messages.iter().filter(has_bash_call).count()
    });
    assert_eq!(all.total_matches, calls.sum::<usize>());
    assert!(
        all.sessions
            .iter()
            .flat_map(|h| &h.excerpts)
            .all(|e| e.tool.as_deref() == Some("bash"))
    );
    let (without_key, with_key) = (
        results(&library, "the -key").total_matches,
        results(&library, "the key").total_matches,
    );
    assert!(without_key > 0 && with_key > 0);
    assert_eq!(
        without_key + with_key,
        results(&library, "the").total_matches
    );
}

#[test]
fn expressions_match_lines_and_words_of_any_alphabet() {
    let dir = copy_of("opencode-sqlite");
    let library = open("opencode-sqlite", dir.path());
    let all = folded_texts(&library);
    let has_such_line = |text: &String| text.lines().any(|line| line.starts_with("error"));
    let expected = all
        .iter()
        .filter(|(_, texts)| texts.iter().any(has_such_line))
        .count();
    assert_eq!(results(&library, "/^error/i").total_matches, expected);
    let across_lines = results(&library, r"/\w+\n\s*\w+/");
    assert!(
        across_lines
            .sessions
            .iter()
            .flat_map(|h| &h.excerpts)
            .any(|e| e.field == "tool_output")
    );
    let non_ascii = all
        .iter()
        .flat_map(|(_, texts)| texts)
        .flat_map(|t| t.split_whitespace());
    let non_ascii: BTreeSet<&str> = non_ascii
        .filter(|w| !w.is_ascii() && !w.starts_with(['"', '-', '/']))
        .collect();
    assert!(non_ascii.len() > 3, "{non_ascii:?}");
    for word in non_ascii.into_iter().take(40) {
        let expected = all
            .iter()
            .filter(|(_, texts)| texts.iter().any(|t| t.contains(word)))
            .count();
        assert!(results(&library, word).total_matches >= expected, "{word}");
    }
}

#[test]
fn messages_that_cannot_be_read_are_not_counted() {
    let dir = copy_of("opencode-sqlite-first");
    let path = dir.path().join("opencode.db");
    let library = open("opencode", dir.path());
    let before = results(&library, "the").total_matches;
    // Deletes a message and leaves its parts.
    let script = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); \
        m=c.execute(\"select message_id from part where data like '%\\\"text\\\"%the %' limit 1\").fetchone()[0]; \
        c.execute('pragma foreign_keys=off'); c.execute('delete from message where id=?', (m,)); c.commit()";
    let status = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .status();
    assert!(status.unwrap().success());
    let library = open("opencode", dir.path());
    assert_eq!(results(&library, "the").total_matches, before - 1);
}
