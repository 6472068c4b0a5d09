//! Tests of conversations that OpenCode recorded, restored after every item.

use std::collections::BTreeSet;
use std::path::Path;

use filrouge_engine::restore::RestoreQuery;
use filrouge_engine::{CreateSession, ImportedTurn};
use filrouge_sources::{ForeignTurn, LoadedSession, opencode};
use filrouge_transcode::{Context, Format};
use filrouge_types::{Channel, Item, ItemBody, JsonText, SessionId};
use serde_json::Value;

use crate::sessions::check::{assert_accepted, kept_seqs};
use crate::test_session::{TestSession, query, turn_start};

fn sessions(name: &str) -> Vec<LoadedSession> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let mut loaded = Vec::new();
    for source in opencode::open(&root.join(name)).unwrap() {
        let listing = source.list().unwrap();
        loaded.extend(listing.headers.iter().map(|h| source.load(&h.id).unwrap()));
    }
    loaded
}

fn all_sessions() -> Vec<LoadedSession> {
    let names = ["opencode-json", "opencode-json-legacy"];
    names.into_iter().flat_map(sessions).collect()
}

fn items(turn: &ForeignTurn) -> Vec<ItemBody> {
    turn.question.iter().chain(&turn.items).cloned().collect()
}

/// Records a turn as an import does.
fn record(test: &TestSession, turn: &ForeignTurn) {
    let imported = ImportedTurn {
        request_id: turn.request_id.clone(),
        items: items(turn),
        status: turn.outcome,
        metadata: Some(turn.metadata.clone()),
    };
    let recorded = test
        .engine
        .turns
        .record(&test.caller, &test.session, imported);
    test.runtime.block_on(recorded).unwrap();
}

/// An empty session with the id of a loaded one.
fn empty_copy(session: &LoadedSession) -> TestSession {
    let mut test = TestSession::new();
    test.session = SessionId::new(&*session.session.id).unwrap();
    let created = CreateSession {
        session_id: Some(test.session.clone()),
        ..CreateSession::default()
    };
    test.runtime
        .block_on(test.engine.sessions.create(&test.caller, created))
        .unwrap();
    test
}

/// Renders contexts of a session in every format and several windows, and checks that providers accept them. Returns
/// their number.
fn check_contexts(test: &TestSession) -> usize {
    let last_seq = test.items().len() as u64;
    let mut count = 0;
    for format in Format::ALL {
        let base = query(format);
        let windows = [
            base,
            RestoreQuery {
                last_turns: Some(1),
                ..base
            },
            RestoreQuery {
                last_turns: Some(2),
                max_tokens: Some(4000),
                ..base
            },
            RestoreQuery {
                max_tokens: Some(300),
                ..base
            },
        ];
        for window in windows {
            let context = test.context(format, window);
            assert_accepted(format, &context);
            kept_seqs(&context.report, last_seq);
            count += 1;
        }
    }
    count
}

/// The session up to the first `count` items of its turn `last`. That turn stays open.
fn prefix(session: &LoadedSession, last: usize, count: usize) -> TestSession {
    let test = empty_copy(session);
    session.turns[..last]
        .iter()
        .for_each(|turn| record(&test, turn));
    let turn = &session.turns[last];
    // A start writes a question, too.
    let request = turn.request_id.as_str();
    let mut start = turn_start(request, "?");
    start.items = items(turn)[..count].to_vec();
    test.try_start(start).unwrap();
    test
}

#[test]
fn providers_accept_every_prefix_of_genuine_sessions() {
    let (mut contexts, mut prefixes) = (0, 0);
    for session in all_sessions() {
        for (last, turn) in session.turns.iter().enumerate() {
            for items in 0..=items(turn).len() {
                contexts += check_contexts(&prefix(&session, last, items));
                prefixes += 1;
            }
        }
    }
    assert!(
        prefixes > 50 && contexts == prefixes * 20,
        "{prefixes} prefixes, {contexts} contexts"
    );
}

#[test]
fn providers_accept_complete_genuine_sessions() {
    for session in all_sessions() {
        let test = empty_copy(&session);
        for turn in &session.turns {
            record(&test, turn);
            check_contexts(&test);
        }
        test.assert_intact();
    }
}

/// Appends all strings in a value to `out`, one per line.
fn append_strings(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|v| append_strings(v, out)),
        Value::Object(members) => members.values().for_each(|v| append_strings(v, out)),
        _ => {}
    }
}

/// The texts of an item that a model must receive: messages and results of tools.
fn texts(item: &Item) -> Vec<String> {
    let parts: Vec<Value> = serde_json::from_str(item.body.parts.as_str()).unwrap();
    let text_of = |part: &Value| match part["type"].as_str() {
        Some("text") => part["text"].as_str().map(str::to_owned),
        Some("tool_result") => part["content"].as_str().map(str::to_owned),
        _ => None,
    };
    let texts = parts.iter().filter_map(text_of);
    texts
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect()
}

/// Checks that the messages contain the texts of all items that the report does not drop. Returns the numbers of texts
/// and of tool results.
fn check_texts_arrive(items: &[Item], context: &Context, messages: &Value) -> (usize, usize) {
    let mut sent_texts = String::new();
    append_strings(messages, &mut sent_texts);
    let dropped: BTreeSet<u64> = context.report.dropped.iter().map(|d| d.seq).collect();
    let (mut message_texts, mut results) = (0, 0);
    for item in items.iter().filter(|i| !dropped.contains(&i.seq)) {
        for text in texts(item) {
            let text = JsonText::from_plain(&text).to_plain();
            assert!(
                sent_texts.contains(&text),
                "seq {} is missing: {text}",
                item.seq
            );
            match item.body.channel {
                Channel::ToolResult => results += 1,
                Channel::Thought => {}
                _ => message_texts += 1,
            }
        }
    }
    (message_texts, results)
}

#[test]
fn texts_and_tool_answers_reach_the_model() {
    let (mut message_texts, mut results) = (0, 0);
    for session in all_sessions() {
        let test = empty_copy(&session);
        session.turns.iter().for_each(|turn| record(&test, turn));
        let items: Vec<Item> = test
            .items()
            .into_iter()
            .filter(|i| i.body.channel != Channel::Thought)
            .collect();
        for format in Format::ALL.into_iter().filter(|f| *f != Format::Pairs) {
            let context = test.context(format, query(format));
            let messages = assert_accepted(format, &context);
            let counts = check_texts_arrive(&items, &context, &messages);
            (message_texts, results) = (message_texts + counts.0, results + counts.1);
            let reasons: BTreeSet<&str> = context.report.dropped.iter().map(|d| d.reason).collect();
            let allowed = [
                "bookkeeping",
                "empty",
                "error",
                "unknown_part",
                "summary_not_needed",
                "unanswered_call",
                "reasoning_of_other_provider",
                "reasoning_not_in_format",
                "reasoning_unsigned",
                "reasoning_alone",
                "superseded",
            ];
            assert!(reasons.iter().all(|r| allowed.contains(r)), "{reasons:?}");
        }
    }
    assert!(
        message_texts > 100 && results > 40,
        "{message_texts} texts, {results} results"
    );
}
