//! Tests of Codex's history: genuine files, and changed copies of them.

mod damage;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_sources::{
    Conversation, Header, PartKind, Role, SkipReason, Source, SourceError, Tokens, Tool,
    ToolStatus, codex,
};
use filrouge_types::Channel;
use serde_json::{Value, json};

use crate::{copy_of, fixture};

// The sessions of the fixture, named after their subjects.
const ORCHARD: &str = "01a1ffd5-4095-77c1-8cfe-49d0d2a644dc";
const WINTER: &str = "01a1ffd5-4329-7213-9cb0-48d6eca34f99";

fn open(path: &Path) -> Arc<dyn Source> {
    codex::open(path).unwrap().remove(0)
}

fn header(source: &dyn Source, id: &str) -> Arc<Header> {
    let headers = source.list().unwrap().headers.clone();
    headers
        .into_iter()
        .find(|header| &*header.id == id)
        .unwrap()
}

/// The file of a session.
fn file(root: &Path, id: &str) -> PathBuf {
    root.join(format!(
        "sessions/2026/11/21/rollout-2026-11-21T20-38-48-{id}.jsonl"
    ))
}

/// The records of a file, read independently of the source.
fn records(id: &str) -> Vec<Value> {
    let text = fs::read_to_string(file(&fixture("codex"), id)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Writes a file of these records.
fn write_records(path: &Path, records: &[Value]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

fn tools(conversation: &Conversation) -> Vec<&Tool> {
    let parts = conversation.messages.iter().flat_map(|m| &m.parts);
    parts
        .filter_map(|part| match &part.kind {
            PartKind::Tool(tool) => Some(&**tool),
            _ => None,
        })
        .collect()
}

/// The texts that the user typed or the agent wrote.
fn typed_and_answered(conversation: &Conversation) -> Vec<(Role, &str)> {
    let parts = conversation
        .messages
        .iter()
        .flat_map(|m| m.parts.iter().map(|p| (m.role, p)));
    parts
        .filter_map(|(role, part)| match &part.kind {
            PartKind::Text {
                text,
                synthetic: false,
            } => Some((role, &**text)),
            _ => None,
        })
        .collect()
}

/// The tokens of all messages.
fn token_sum(conversation: &Conversation) -> Tokens {
    let mut sum = Tokens::default();
    for tokens in conversation.messages.iter().filter_map(|m| m.tokens) {
        sum.add(&tokens);
    }
    sum
}

#[test]
fn every_item_is_read_once() {
    let dir = copy_of("codex");
    let source = open(dir.path());
    for id in [ORCHARD, WINTER] {
        let read = source.read(id).unwrap();
        let mut expected: BTreeMap<String, usize> = BTreeMap::new();
        let mut written_texts = Vec::new();
        let mut usage = (0, 0, 0);
        for record in records(id) {
            let payload = &record["payload"];
            if record["type"] == "token_usage_record" {
                let count = |key: &str| payload["usage"][key].as_u64().unwrap();
                usage.0 += count("input_tokens");
                usage.1 += count("cached_input_tokens");
                usage.2 += count("output_tokens");
            }
            if record["type"] != "response_item" {
                continue;
            }
            let kind = payload["type"].as_str().unwrap();
            let kind = match kind {
                "message" => format!("{kind}/{}", payload["role"].as_str().unwrap()),
                kind if kind.ends_with("_output") => "output".to_owned(),
                kind if kind.ends_with("_call") => "call".to_owned(),
                kind => kind.to_owned(),
            };
            *expected.entry(kind).or_default() += 1;
            for piece in payload["content"].as_array().into_iter().flatten() {
                written_texts.push(piece["text"].as_str().unwrap().to_owned());
            }
        }
        let mut actual: BTreeMap<String, usize> = BTreeMap::new();
        let mut read_texts = Vec::new();
        for message in &read.messages {
            match message.role {
                Role::User => *actual.entry("message/user".into()).or_default() += 1,
                Role::System => *actual.entry("message/developer".into()).or_default() += 1,
                Role::Assistant => {}
            }
            for part in &message.parts {
                match &part.kind {
                    PartKind::Text { text, .. } => {
                        read_texts.push(text.to_string());
                        if message.role == Role::Assistant {
                            *actual.entry("message/assistant".into()).or_default() += 1;
                        }
                    }
                    PartKind::Tool(tool) => {
                        *actual.entry("call".into()).or_default() += 1;
                        let ended = tool.output.is_some() || tool.error.is_some();
                        *actual.entry("output".into()).or_default() += usize::from(ended);
                    }
                    PartKind::Reasoning { .. } => {
                        *actual.entry("reasoning".into()).or_default() += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(actual, expected, "{id}");
        written_texts.sort();
        read_texts.sort();
        assert_eq!(read_texts, written_texts, "{id}");
        let tokens = token_sum(&read);
        let read_usage = (
            tokens.input + tokens.cache_read,
            tokens.cache_read,
            tokens.output + tokens.reasoning,
        );
        assert_eq!(read_usage, usage, "{id}");
        assert_eq!(read.skipped, [], "{id}");
        assert!(
            read.messages
                .iter()
                .all(|m| !m.copied && m.completed.is_some())
        );
    }
}

#[test]
fn the_conversation_is_read_completely() {
    let dir = copy_of("codex");
    let source = open(dir.path());
    let read = source.read(ORCHARD).unwrap();
    assert_eq!(
        typed_and_answered(&read),
        [
            (Role::User, "Graft the pear branch on the right row"),
            (
                Role::Assistant,
                "Row 3 is an apple row; the graft belongs to row 2."
            ),
            (
                Role::Assistant,
                "Done: the pear graft is on row 2 and `orchard.py` prints `ok`."
            ),
            (Role::User, "And the quince, where does it go?"),
            (
                Role::Assistant,
                "The quince stays in row 4, it flowers later."
            ),
        ]
    );
    let calls: Vec<_> = tools(&read).iter().map(|t| (&*t.name, t.status)).collect();
    assert_eq!(
        calls,
        [
            ("exec_command", ToolStatus::Completed),
            ("update_plan", ToolStatus::Error),
            ("apply_patch", ToolStatus::Error),
            ("exec_command", ToolStatus::Completed),
        ]
    );
    assert_eq!(
        &*tools(&read)[0].input,
        r#"{"cmd": "cat orchard.py", "workdir": "/tmp/demo/verger"}"#
    );
    assert_eq!(
        tools(&read)[1].error.as_deref(),
        Some("unsupported call: update_plan")
    );
    // There is one message per response, and its tokens are counted once.
    let answers: Vec<_> = read
        .messages
        .iter()
        .filter(|m| m.role == Role::Assistant)
        .collect();
    assert_eq!(answers.len(), 6);
    let first = Tokens {
        input: 2000,
        output: 30,
        reasoning: 30,
        cache_read: 0,
        cache_write: 0,
    };
    assert_eq!(answers[0].tokens, Some(first));
    assert_eq!(answers[0].parts.len(), 2);
    assert_eq!(
        (answers[0].model.as_deref(), answers[5].finish.as_deref()),
        (Some("gpt-5.4"), Some("stop"))
    );

    let winter = source.read(WINTER).unwrap();
    let failed = tools(&winter)[0];
    assert_eq!(failed.status, ToolStatus::Error);
    assert!(
        failed
            .error
            .as_deref()
            .unwrap()
            .contains("exited with code 7")
    );
    assert!(typed_and_answered(&winter).contains(&(
        Role::Assistant,
        "La commande a échoué (code 7) ; rien à tailler avant mars."
    )));
}

#[test]
fn headers_come_from_the_index_and_the_files() {
    let dir = copy_of("codex");
    let source = open(dir.path());
    let listing = source.list().unwrap();
    let ids: Vec<&str> = listing.headers.iter().map(|h| &*h.id).collect();
    assert_eq!((ids, listing.skipped.len()), (vec![ORCHARD, WINTER], 0));
    let orchard = header(&*source, ORCHARD);
    assert_eq!(
        orchard.title.as_deref(),
        Some("Graft the pear branch on the right row")
    );
    assert_eq!(orchard.directory.as_deref(), Some("/tmp/demo/verger"));
    assert_eq!(orchard.version.as_deref(), Some("0.169.0"));
    assert_eq!(
        (orchard.created, orchard.updated),
        (1_795_293_528_228, 1_795_293_528_757)
    );
    // Without an index, or with a broken one, the first prompt is the title. A broken index is reported.
    fs::write(dir.path().join("state_6.sqlite"), "no database").unwrap();
    let listing = source.list().unwrap();
    assert_eq!(
        listing.headers[1].title.as_deref(),
        Some("Que faire du verger en hiver ?")
    );
    assert_eq!(listing.skipped[0].reason, SkipReason::Unreadable);
    let rollout = open(&file(dir.path(), WINTER));
    assert_eq!(
        rollout.list().unwrap().headers[0].title.as_deref(),
        Some("Que faire du verger en hiver ?")
    );
    assert_eq!(
        open(&dir.path().join("sessions"))
            .list()
            .unwrap()
            .headers
            .len(),
        2
    );
    let missing = codex::open(&dir.path().join("nowhere")).err().unwrap();
    assert!(matches!(missing, SourceError::NotFound { .. }));
    assert!(codex::PROGRAM.hint_for(&missing).contains("~/.codex"));
    let unrecognized = codex::open(&fixture("claude-code")).err().unwrap();
    assert!(matches!(unrecognized, SourceError::Unrecognized { .. }));
    assert!(codex::PROGRAM.hint_for(&unrecognized).contains("~/.codex"));
}

#[test]
fn a_session_becomes_turns() {
    let dir = copy_of("codex");
    let source = open(dir.path());
    let loaded = source.load(ORCHARD).unwrap();
    assert_eq!(loaded, source.load(ORCHARD).unwrap());
    let answers: Vec<_> = loaded
        .turns
        .iter()
        .map(|t| t.answer().unwrap().parts.as_str().to_owned())
        .collect();
    assert_eq!(answers.len(), 2);
    assert!(answers[1].contains("The quince stays in row 4"));
    let items: Vec<_> = loaded
        .turns
        .iter()
        .flat_map(|t| t.question.iter().chain(&t.items))
        .collect();
    let count = |channel: Channel| items.iter().filter(|i| i.channel == channel).count();
    assert_eq!(
        (
            count(Channel::Question),
            count(Channel::ToolCall),
            count(Channel::ToolResult),
            count(Channel::Thought)
        ),
        (2, 4, 4, 1)
    );
    // The program injected two texts of the developer and one of the user.
    assert_eq!(count(Channel::SystemNote), 3);
    assert_eq!(items.iter().filter(|i| i.usage.is_some()).count(), 6);
    let ids: BTreeSet<_> = items.iter().map(|i| i.item_id.clone().unwrap()).collect();
    assert_eq!(ids.len(), items.len());
}
