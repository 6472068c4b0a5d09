//! docs/context.md agrees with the code: its words and its examples.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use filrouge_transcode::Format;
use filrouge_types::Role;
use serde_json::{Value, json};

use crate::journal::{TestSession, query};
use crate::journals::items::{item, thought};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    fs::read_to_string(root().join("docs/context.md")).unwrap()
}

/// The words in the first column of the table under a heading.
fn reported(document: &str, heading: &str) -> BTreeSet<String> {
    let (_, section) = document.split_once(&format!("### {heading}\n")).unwrap();
    let section = section.split("\n##").next().unwrap();
    let first = |line: &str| {
        line.strip_prefix("| `")?
            .split_once('`')
            .map(|(word, _)| word.to_owned())
    };
    section.lines().filter_map(first).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // The words that decoders read do not occur in a context.
        if path.ends_with("src/stream") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Every string of the code that is a single word, without those of tests.
fn words() -> BTreeSet<String> {
    let crates = root().join("crates");
    let mut files = Vec::new();
    sources(&crates.join("filrouge-engine/src/restore"), &mut files);
    sources(&crates.join("filrouge-transcode/src"), &mut files);
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
            // A string is between an odd and an even quote; a string with an escaped quote only adds texts that are no words.
            let word =
                |w: &&str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            words.extend(
                line.split('"')
                    .skip(1)
                    .step_by(2)
                    .filter(word)
                    .map(str::to_owned),
            );
        }
    }
    words
}

/// Strings of the code that are words of parts, providers and formats, and that reports do not use.
const OTHER: &str = "anthropic args assistant bedrock call_id claude code content covers data encrypted_content false \
    file file_data file_id filename first_seq format function_call function_call_output gemini google gpt http https id \
    image image_url input_text language last_seq link media_type message mime mime_type name ok openai pairs \
    provider reasoning redaction refusal rs signature source summary system text thinking title tool \
    tool_call tool_call_partial tool_result turn_status type url user vertex";

#[test]
fn exactly_the_reasons_and_changes_of_the_code_are_documented() {
    let document = document();
    let reported: BTreeSet<String> = reported(&document, "Reasons")
        .union(&reported(&document, "Changes"))
        .cloned()
        .collect();
    let other: BTreeSet<String> = OTHER.split_whitespace().map(str::to_owned).collect();
    let words = words();
    let undocumented: Vec<_> = words
        .iter()
        .filter(|w| !reported.contains(*w) && !other.contains(*w))
        .collect();
    assert!(
        undocumented.is_empty(),
        "docs/context.md does not name {undocumented:?}"
    );
    let unknown: Vec<_> = reported
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
    ] {
        assert!(document.contains(&format!("| `{}` |", mark.text())));
    }
}

/// The ledger that the examples describe.
fn journal() -> TestSession {
    let j = TestSession::new();
    j.start("r1", "Is it warm?");
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
    j.append("r1", items);
    j.finalize("r1", "Not very.");
    j.start("r2", "And now?");
    j.append("r2", vec![call("c2", json!({}))]);
    j
}

#[test]
fn the_examples_are_real() {
    let (document, j) = (document(), journal());
    for format in Format::ALL {
        let context = serde_json::to_value(j.context(format, query(format))).unwrap();
        let (_, section) = document
            .split_once(&format!("### `{format}`\n"))
            .unwrap_or_else(|| {
                panic!("{format} is missing: {context:#}");
            });
        let (_, block) = section.split_once("```json\n").unwrap();
        let block = block.split("```").next().unwrap();
        let mut written: Value = serde_json::from_str(block).unwrap();
        let mut made = context.clone();
        if format == Format::Pairs {
            // The id depends on the store's key.
            for value in [&mut written, &mut made] {
                value["messages"][0]["turn_id"].take();
            }
        }
        assert_eq!(
            written,
            made,
            "{format}: {}",
            serde_json::to_string(&context).unwrap()
        );
    }
}
