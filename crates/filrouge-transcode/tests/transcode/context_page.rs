//! Tests that the words and examples of docs/context.md equal those of the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use filrouge_transcode::Format;
use filrouge_types::Role;
use serde_json::{Value, json};

use crate::sessions::items::{item, thought};
use crate::test_session::{TestSession, query};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    fs::read_to_string(root().join("docs/context.md")).unwrap()
}

/// The words in the first column of the table under a heading.
fn documented_words(document: &str, heading: &str) -> BTreeSet<String> {
    let (_, section) = document.split_once(&format!("### {heading}\n")).unwrap();
    let section = section.split("\n##").next().unwrap();
    let first_word = |line: &str| {
        line.strip_prefix("| `")?
            .split_once('`')
            .map(|(word, _)| word.to_owned())
    };
    section.lines().filter_map(first_word).collect()
}

/// Adds all Rust files of a folder except the decoders' files.
fn source_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Words that decoders read do not occur in a context.
        if path.ends_with("src/stream") {
            continue;
        }
        if path.is_dir() {
            source_files(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// Every string of the product code, without tests, that is a single word.
fn code_words() -> BTreeSet<String> {
    let crates = root().join("crates");
    let mut files = Vec::new();
    source_files(&crates.join("filrouge-engine/src/restore"), &mut files);
    source_files(&crates.join("filrouge-transcode/src"), &mut files);
    files.retain(|file| !file.ends_with("src/stream.rs") && !file.ends_with("src/record.rs"));
    let mut words = BTreeSet::new();
    for file in files {
        let code = fs::read_to_string(&file).unwrap();
        let code = code.split("#[cfg(test)]").next().unwrap();
        let is_code = |l: &&str| {
            !["//", "#["]
                .iter()
                .any(|mark| l.trim_start().starts_with(mark))
        };
        let lines = code.lines().filter(is_code);
        for line in lines {
            // A string is between an odd and an even quote. Escaped quotes only add texts that are not words.
            let is_word =
                |w: &&str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            words.extend(
                line.split('"')
                    .skip(1)
                    .step_by(2)
                    .filter(is_word)
                    .map(str::to_owned),
            );
        }
    }
    words
}

/// Single words in the code that do not occur in reports: words of parts, providers and formats.
const OTHER: &str = "answer anthropic args assistant bedrock call_id claude code content covers data encrypted_content false file \
    file_data file_id filename first_seq format function_call function_call_output gemini google gpt http https id \
    image image_url input_text language last_seq last_turns link max_tokens media_type message mime mime_type name \
    ok openai pairs provider question reasoning redaction refusal role rs signature source summary system text \
    thinking title tool tool_call tool_call_id tool_call_partial tool_result tool_use_id turn_id turn_status type \
    url user value vertex";

#[test]
fn exactly_the_reasons_and_changes_of_the_code_are_documented() {
    let document = document();
    let documented: BTreeSet<String> = documented_words(&document, "Reasons")
        .union(&documented_words(&document, "Changes"))
        .cloned()
        .collect();
    let other: BTreeSet<String> = OTHER.split_whitespace().map(str::to_owned).collect();
    let words = code_words();
    let undocumented: Vec<_> = words
        .iter()
        .filter(|w| !documented.contains(*w) && !other.contains(*w))
        .collect();
    assert!(
        undocumented.is_empty(),
        "docs/context.md does not name {undocumented:?}"
    );
    let unknown: Vec<_> = documented
        .union(&other)
        .filter(|w| !words.contains(*w))
        .collect();
    assert!(unknown.is_empty(), "the code does not use {unknown:?}");
}

#[test]
fn every_mark_is_documented() {
    use filrouge_engine::restore::Mark;
    let document = document();
    for mark in [
        Mark::Interrupted,
        Mark::Cancelled,
        Mark::Failed,
        Mark::Unanswered,
        Mark::Redacted,
    ] {
        assert!(document.contains(&format!("| `{}` |", mark.text())));
    }
}

/// The session that the examples show.
fn example_session() -> TestSession {
    let test = TestSession::new();
    test.start("r1", "Is it warm?");
    let call = |id: &str, args: Value| {
        let part = json!({"type": "tool_call", "call_id": id, "name": "weather.now", "args": args});
        item(Role::Assistant, "tool_call", json!([part]))
    };
    let answer =
        json!([{"type": "tool_result", "call_id": "c1", "ok": true, "content": {"celsius": 12}}]);
    let items = vec![
        thought("Ask."),
        call("c1", json!({"city": "Łódź"})),
        item(Role::Tool, "tool_result", answer),
    ];
    test.append("r1", items);
    test.finalize("r1", "Not very.");
    test.start("r2", "And now?");
    test.append("r2", vec![call("c2", json!({}))]);
    test
}

#[test]
fn the_examples_equal_the_rendered_contexts() {
    let (document, test) = (document(), example_session());
    for format in Format::ALL {
        let context = serde_json::to_value(test.context(format, query(format))).unwrap();
        let (_, section) = document
            .split_once(&format!("### `{format}`\n"))
            .unwrap_or_else(|| {
                panic!("{format} is missing: {context:#}");
            });
        let (_, block) = section.split_once("```json\n").unwrap();
        let block = block.split("```").next().unwrap();
        let mut expected: Value = serde_json::from_str(block).unwrap();
        let mut actual = context.clone();
        if format == Format::Pairs {
            // The id depends on the store's key.
            for value in [&mut expected, &mut actual] {
                value["messages"][0]["turn_id"].take();
            }
        }
        assert_eq!(
            expected,
            actual,
            "{format}: {}",
            serde_json::to_string(&context).unwrap()
        );
    }
}
