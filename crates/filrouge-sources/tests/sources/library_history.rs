//! Tests of pages, compacted messages and documents, on genuine histories.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use filrouge_sources::library::compacted::{CompactedContext, compacted};
use filrouge_sources::library::export::{Form, export};
use filrouge_sources::library::history::{
    History, HistoryRequest, ShownMessage, ShownPart, history,
};
use filrouge_sources::{Library, SkipReason, opencode};
use serde_json::Value;

use crate::library_lineage::{names, opencode_library};
use crate::{copy, copy_of, fixture, json, put};

/// The fixtures that contain compactions, each with the fixture that names its sessions.
const FIXTURES: [(&str, &str); 4] = [
    ("opencode-json-whole", "opencode-json-whole"),
    ("opencode-sqlite", "opencode-sqlite"),
    ("opencode-sqlite-first", "opencode-sqlite-first"),
    ("opencode-sqlite-migrated", "opencode-json-whole"),
];

/// A request without masking.
fn unmasked(id: &str, cursor: Option<String>, max_chars: usize) -> HistoryRequest {
    HistoryRequest {
        cursor,
        max_chars,
        mask: false,
        ..HistoryRequest::new(id)
    }
}

fn all_pages(library: &Library, id: &str, max_chars: usize) -> Vec<History> {
    let mut pages = vec![history(library, &unmasked(id, None, max_chars)).unwrap()];
    while let Some(cursor) = pages.last().unwrap().next_cursor.clone() {
        pages.push(history(library, &unmasked(id, Some(cursor), max_chars)).unwrap());
    }
    pages
}

fn ids(messages: &[ShownMessage]) -> Vec<&str> {
    messages.iter().map(|m| m.id.as_str()).collect()
}

/// The messages of a session of the file storage, with their parts, read from the files.
fn on_disk(storage: &Path, session: &str) -> BTreeMap<String, BTreeMap<String, Value>> {
    let files = |folder: &Path| {
        let files = fs::read_dir(folder).into_iter().flatten();
        let mut by_id = BTreeMap::new();
        for file in files {
            let path = file.unwrap().path();
            let id = path.file_stem().unwrap().to_string_lossy().into_owned();
            by_id.insert(id, json(&fs::read_to_string(&path).unwrap()));
        }
        by_id
    };
    let messages = files(&storage.join("message").join(session)).into_keys();
    let parts = |id: String| {
        let parts = files(&storage.join("part").join(&id));
        (id, parts)
    };
    messages.map(parts).collect()
}

/// The texts of a part in its file, by field.
fn texts_on_disk(part: &Value) -> BTreeMap<&'static str, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let texts = match part["type"].as_str().unwrap() {
        "text" | "reasoning" => vec![("text", text(&part["text"]))],
        "tool" => {
            let state = &part["state"];
            vec![
                ("output", text(&state["output"])),
                ("error", text(&state["error"])),
                ("title", text(&state["title"])),
            ]
        }
        _ => Vec::new(),
    };
    let texts = texts.into_iter();
    texts
        .filter_map(|(name, text)| Some((name, text?)))
        .collect()
}

/// The texts of a part on a page, by field.
fn texts_shown(part: &ShownPart) -> BTreeMap<&'static str, String> {
    let mut texts = vec![("text", &part.text)];
    if part.kind == "tool" {
        texts = vec![
            ("output", &part.output),
            ("error", &part.error),
            ("title", &part.title),
        ];
    }
    let texts = texts.into_iter();
    texts
        .filter_map(|(name, text)| Some((name, text.clone()?)))
        .collect()
}

#[test]
fn all_pages_together_equal_the_files() {
    let (dir, library) = opencode_library("opencode-json-whole");
    let storage = dir.path().join("storage");
    let mut sessions = 0;
    for entry in &library.catalog().entries {
        let id = &*entry.header.id;
        let disk = on_disk(&storage, id);
        sessions += 1;
        for budget in [50, 1_000, usize::MAX] {
            let mut shown_messages: BTreeMap<String, BTreeMap<String, BTreeMap<&str, String>>> =
                BTreeMap::new();
            for page in all_pages(&library, id, budget) {
                assert_eq!(page.total_messages, disk.len());
                for message in page.messages {
                    let parts = shown_messages.entry(message.id).or_default();
                    for part in message.parts {
                        let texts = parts.entry(part.id.clone()).or_default();
                        for (field, text) in texts_shown(&part) {
                            texts.entry(field).or_default().push_str(&text);
                        }
                    }
                }
            }
            let expected = disk.iter().map(|(id, parts)| {
                // Steps and snapshots are for the program's own use.
                let is_step = |part: &Value| {
                    let steps = ["step-start", "step-finish", "snapshot"];
                    steps.contains(&part["type"].as_str().unwrap())
                };
                let parts = parts
                    .iter()
                    .filter(|(_, part)| !is_step(part))
                    .map(|(id, part)| (id.clone(), texts_on_disk(part)));
                (id.clone(), parts.collect())
            });
            assert_eq!(
                shown_messages,
                expected.collect(),
                "{id} in pages of {budget}"
            );
        }
    }
    assert_eq!(sessions, 22);
}

#[test]
fn compactions_drop_the_messages_before_them() {
    let cases = [("small", 3, Some(true)), ("long", 6, Some(false))];
    for (fixture, names_fixture) in FIXTURES {
        let (_dir, library) = opencode_library(fixture);
        let id = names(names_fixture);
        for (name, count, automatic) in cases {
            let id = id(name);
            if library.catalog().get(&id).is_err() {
                assert_eq!(
                    (name, names_fixture),
                    ("long", "opencode-json-whole"),
                    "only this session is missing from the fixture"
                );
                continue;
            }
            let full = history(&library, &unmasked(&id, None, usize::MAX)).unwrap();
            let dropped = compacted(&library, &unmasked(&id, None, usize::MAX)).unwrap();
            assert_eq!(
                ids(&dropped.messages),
                ids(&full.messages[..count]),
                "{fixture} {name}"
            );
            assert_eq!((dropped.total_messages, dropped.pruned_outputs), (count, 0));
            let [compaction] = dropped.compactions.as_slice() else {
                panic!("{:?}", dropped.compactions);
            };
            assert_eq!(
                (compaction.messages, compaction.automatic),
                (count, automatic)
            );
            assert!(
                compaction.summary.as_ref().unwrap().starts_with("## Goal"),
                "{compaction:?}"
            );
            let marks: Vec<bool> = full.messages.iter().map(|m| m.compacted).collect();
            assert_eq!(marks.iter().filter(|m| **m).count(), count);
            assert!(full.messages[count].boundary);
            assert_small_pages_equal(&library, &id, &dropped);
        }
    }
}

/// Asserts that small pages together have the texts of the complete context.
fn assert_small_pages_equal(library: &Library, id: &str, full: &CompactedContext) {
    let (mut cursor, mut joined) = (None, String::new());
    let texts = |messages: &[ShownMessage]| -> String {
        let parts = messages.iter().flat_map(|m| &m.parts);
        parts
            .flat_map(|p| [&p.text, &p.title, &p.input, &p.error, &p.output])
            .flatten()
            .map(String::as_str)
            .collect()
    };
    for _ in 0..10_000 {
        let page = compacted(library, &unmasked(id, cursor, 30)).unwrap();
        joined.push_str(&texts(&page.messages));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(joined, texts(&full.messages));
}

#[test]
fn a_pruned_output_is_returned() {
    let dir = copy_of("opencode-json-whole");
    let id = names("opencode-json-whole")("parser");
    let storage = dir.path().join("storage");
    let parts = on_disk(&storage, &id);
    let is_completed = |part: &Value| part["state"]["status"] == "completed";
    let all_parts = parts
        .iter()
        .flat_map(|(m, parts)| parts.iter().map(move |p| (m, p)));
    let (message, (part, value)) = all_parts
        .clone()
        .find(|(_, (_, p))| is_completed(p))
        .unwrap();
    let mut pruned = value.clone();
    pruned["state"]["time"]["compacted"] = 1_700_000_000_000_i64.into();
    put(
        &storage,
        &format!("part/{message}/{part}.json"),
        &pruned.to_string(),
    );
    let library = Library::new(opencode::open(dir.path()).unwrap(), 1 << 20);
    let dropped = compacted(&library, &unmasked(&id, None, 0)).unwrap();
    assert_eq!((dropped.pruned_outputs, dropped.compactions.len()), (1, 0));
    assert_eq!(ids(&dropped.messages), [message.as_str()]);
    let [shown] = dropped.messages[0].parts.as_slice() else {
        panic!("{:?}", dropped.messages);
    };
    assert_eq!(shown.id, *part);
    assert_eq!(shown.pruned, Some(1_700_000_000_000));
    assert_eq!(shown.output.as_deref(), value["state"]["output"].as_str());
}

#[test]
fn keys_in_an_output_are_masked() {
    for (fixture, names_fixture) in FIXTURES {
        let (_dir, library) = opencode_library(fixture);
        let id = names(names_fixture)("secret");
        let plain = history(&library, &unmasked(&id, None, 0)).unwrap();
        let masked = history(&library, &HistoryRequest::new(&id)).unwrap();
        let (plain, shown) = (json_of(&plain.messages), json_of(&masked.messages));
        assert!(
            plain.contains("AKIAIOSFODNN7EXAMPLE") && !plain.contains("[masked:"),
            "{plain}"
        );
        assert!(
            !shown.contains("AKIAIOSFODNN7EXAMPLE") && shown.contains("[masked:"),
            "{shown}"
        );
        let has_notice = masked
            .notices
            .iter()
            .any(|n| n.starts_with("masked credentials on this page: "));
        assert!(has_notice, "{:?}", masked.notices);
        for form in [Form::Markdown, Form::Html, Form::Json] {
            let mut out = Vec::new();
            export(&library, &id, form, true, &mut out).unwrap();
            assert!(
                !String::from_utf8(out)
                    .unwrap()
                    .contains("AKIAIOSFODNN7EXAMPLE")
            );
        }
    }
}

fn json_of(messages: &[ShownMessage]) -> String {
    serde_json::to_string(messages).unwrap()
}

#[test]
fn a_session_in_two_storages_is_listed_once() {
    let dir = copy_of("opencode-json-whole");
    let files = opencode::open(dir.path()).unwrap();
    let files = Library::new(files, 1 << 20).catalog().entries.len();
    copy(&fixture("opencode-sqlite-migrated"), dir.path());
    let library = Library::new(opencode::open(dir.path()).unwrap(), 1 << 20);
    let catalog = library.catalog();
    let in_files = catalog
        .entries
        .iter()
        .filter(|e| e.header.generation == "storage")
        .count();
    assert!(files > 0 && in_files == 0, "{in_files} of {files}");
    assert_eq!(catalog.shadowed.len(), files);
    let id = names("opencode-json-whole")("small");
    let first = history(&library, &unmasked(&id, None, 0)).unwrap();
    assert_eq!(first.session.generation, "sqlite");
    assert_eq!(first.total_messages, 7);
}

#[test]
fn a_message_written_after_a_query_is_returned_by_the_next_query() {
    let (dir, library) = opencode_library("opencode-json-whole");
    let id = names("opencode-json-whole")("small");
    let before = history(&library, &unmasked(&id, None, 0)).unwrap();
    assert_eq!((before.total_messages, before.next_cursor), (7, None));
    let storage = dir.path().join("storage");
    let created = 1_800_000_000_000_i64;
    let message = format!(
        r#"{{"id":"msg_new","sessionID":"{id}","role":"user","time":{{"created":{created}}}}}"#
    );
    let part = format!(
        r#"{{"id":"prt_new","sessionID":"{id}","messageID":"msg_new","type":"text","text":"one more"}}"#
    );
    put(&storage, "part/msg_new/prt_new.json", &part);
    put(&storage, &format!("message/{id}/msg_new.json"), &message);
    let newest = HistoryRequest {
        newest_first: true,
        limit: 1,
        ..unmasked(&id, None, 0)
    };
    let after = history(&library, &newest).unwrap();
    assert_eq!(after.total_messages, 8);
    assert_eq!(after.messages[0].parts[0].text.as_deref(), Some("one more"));
}

#[test]
fn a_torn_part_is_counted_and_reported() {
    let (dir, library) = opencode_library("opencode-json-whole");
    let id = names("opencode-json-whole")("small");
    let storage = dir.path().join("storage");
    let parts = on_disk(&storage, &id);
    let (message, parts) = parts.iter().next().unwrap();
    let part = parts.keys().next().unwrap();
    put(
        &storage,
        &format!("part/{message}/{part}.json"),
        r#"{"id":"#,
    );
    let shown = history(&library, &unmasked(&id, None, 0)).unwrap();
    assert_eq!(shown.total_messages, 7);
    let notice = shown
        .notices
        .iter()
        .find(|n| n.contains(SkipReason::Torn.as_str()))
        .unwrap();
    assert!(
        notice.starts_with("left out as torn: 1 (") && notice.contains(part.as_str()),
        "{notice}"
    );
}

#[test]
fn every_session_is_a_document_in_every_form() {
    for storage in [
        "opencode-json-whole",
        "opencode-json-legacy-whole",
        "opencode-sqlite",
        "opencode-sqlite-wal",
    ] {
        let (_dir, library) = opencode_library(storage);
        let catalog = library.catalog();
        assert!(!catalog.entries.is_empty());
        for entry in &catalog.entries {
            let id = &*entry.header.id;
            let written = |form| {
                let mut out = Vec::new();
                export(&library, id, form, false, &mut out).unwrap();
                String::from_utf8(out).unwrap()
            };
            let full = history(&library, &unmasked(id, None, usize::MAX)).unwrap();
            let exported = json(&written(Form::Json));
            let messages = exported["messages"].as_array().unwrap();
            assert_eq!(messages.len(), full.total_messages, "{id}");
            let (markdown, html) = (written(Form::Markdown), written(Form::Html));
            assert!(markdown.starts_with("# ") && html.ends_with("</html>\n"));
            for message in &full.messages {
                assert!(messages.iter().any(|m| m["id"] == message.id.as_str()));
                for text in message.parts.iter().filter_map(|p| p.text.as_deref()) {
                    let words = text.split(|c: char| !c.is_alphanumeric());
                    for word in words.filter(|w| !w.is_empty()) {
                        assert!(
                            markdown.contains(word) && html.contains(word),
                            "{word} of {id}"
                        );
                    }
                }
            }
        }
    }
}
