//! Conversations recorded by OpenCode, restored after every item.

use std::collections::BTreeSet;
use std::path::Path;

use filrouge_engine::restore::RestoreQuery;
use filrouge_engine::{CreateSession, ImportedTurn};
use filrouge_sources::{ForeignTurn, LoadedSession, opencode};
use filrouge_transcode::{Context, Format};
use filrouge_types::{Channel, Item, ItemBody, JsonText, SessionId};
use serde_json::Value;

use crate::journal::{TestSession, asking, query};
use crate::journals::check::{accepted, kept};

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
fn record(j: &TestSession, turn: &ForeignTurn) {
    let imported = ImportedTurn {
        request_id: turn.request_id.clone(),
        items: items(turn),
        status: turn.outcome,
        metadata: Some(turn.metadata.clone()),
    };
    let recorded = j.engine.turns.record(&j.caller, &j.session, imported);
    j.runtime.block_on(recorded).unwrap();
}

fn journal(session: &LoadedSession) -> TestSession {
    let mut j = TestSession::new();
    j.session = SessionId::new(&*session.session.id).unwrap();
    let created = CreateSession {
        session_id: Some(j.session.clone()),
        ..CreateSession::default()
    };
    j.runtime
        .block_on(j.engine.sessions.create(&j.caller, created))
        .unwrap();
    j
}

/// Renders contexts of a session in every format and several windows, and checks that providers accept all of them.
fn check_contexts(j: &TestSession) -> usize {
    let last_seq = j.items().len() as u64;
    let mut check_contexts = 0;
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
        for asked in windows {
            let context = j.context(format, asked);
            accepted(format, &context);
            kept(&context.report, last_seq);
            check_contexts += 1;
        }
    }
    check_contexts
}

/// A session up to the first `cut` items of its turn `last`, which stays open.
fn cut(session: &LoadedSession, last: usize, cut: usize) -> TestSession {
    let j = journal(session);
    session.turns[..last]
        .iter()
        .for_each(|turn| record(&j, turn));
    let turn = &session.turns[last];
    // A start writes its own question; a blank one shows nothing.
    let request = turn.request_id.as_str();
    let mut start = asking(request, "");
    start.items = items(turn)[..cut].to_vec();
    j.try_start(start).unwrap();
    j
}

#[test]
fn providers_accept_every_prefix_of_genuine_sessions() {
    let (mut contexts, mut cuts) = (0, 0);
    for session in all_sessions() {
        for (last, turn) in session.turns.iter().enumerate() {
            for items in 0..=items(turn).len() {
                contexts += check_contexts(&cut(&session, last, items));
                cuts += 1;
            }
        }
    }
    assert!(
        cuts > 50 && contexts == cuts * 20,
        "{cuts} cuts, {contexts} contexts"
    );
}

#[test]
fn providers_accept_complete_genuine_sessions() {
    for session in all_sessions() {
        let j = journal(&session);
        for turn in &session.turns {
            record(&j, turn);
            check_contexts(&j);
        }
        j.intact();
    }
}

/// All strings in a value, as text.
fn strings(value: &Value, found: &mut String) {
    match value {
        Value::String(text) => {
            found.push_str(text);
            found.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|v| strings(v, found)),
        Value::Object(members) => members.values().for_each(|v| strings(v, found)),
        _ => {}
    }
}

/// The texts of an item that a model must receive: what was said, and what tools answered.
fn texts(item: &Item) -> Vec<String> {
    let parts: Vec<Value> = serde_json::from_str(item.body.parts.as_str()).unwrap();
    let of = |part: &Value| match part["type"].as_str() {
        Some("text") => part["text"].as_str().map(str::to_owned),
        Some("tool_result") => part["content"].as_str().map(str::to_owned),
        _ => None,
    };
    let found = parts.iter().filter_map(of);
    found
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect()
}

fn arrived(items: &[Item], context: &Context, messages: &Value) -> (usize, usize) {
    let mut found = String::new();
    strings(messages, &mut found);
    let dropped: BTreeSet<u64> = context.report.dropped.iter().map(|d| d.seq).collect();
    let (mut said, mut answers) = (0, 0);
    for item in items.iter().filter(|i| !dropped.contains(&i.seq)) {
        for text in texts(item) {
            let text = JsonText::from_plain(&text).to_plain();
            assert!(found.contains(&text), "seq {} is missing: {text}", item.seq);
            match item.body.channel {
                Channel::ToolResult => answers += 1,
                Channel::Thought => {}
                _ => said += 1,
            }
        }
    }
    (said, answers)
}

#[test]
fn texts_and_tool_answers_reach_the_model() {
    let (mut said, mut answers) = (0, 0);
    for session in all_sessions() {
        let j = journal(&session);
        session.turns.iter().for_each(|turn| record(&j, turn));
        let items: Vec<Item> = j
            .items()
            .into_iter()
            .filter(|i| i.body.channel != Channel::Thought)
            .collect();
        for format in Format::ALL.into_iter().filter(|f| *f != Format::Pairs) {
            let context = j.context(format, query(format));
            let messages = accepted(format, &context);
            let counted = arrived(&items, &context, &messages);
            (said, answers) = (said + counted.0, answers + counted.1);
            let reasons: BTreeSet<&str> = context.report.dropped.iter().map(|d| d.reason).collect();
            let known = [
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
            assert!(reasons.iter().all(|r| known.contains(r)), "{reasons:?}");
        }
    }
    assert!(
        said > 100 && answers > 40,
        "{said} texts, {answers} answers"
    );
}
