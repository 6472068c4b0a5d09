//! Tests of Claude Code's history: genuine files, and changed copies of them.

mod damage;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_sources::{
    Conversation, Header, Message, PartKind, Role, Source, SourceError, Tool, ToolStatus,
    claude_code,
};
use serde_json::{Value, json};

use crate::{copy_of, fixture};

// The sessions of the fixture, named after their subjects. `AGENT` is a subagent of `LENS`.
const LAMP: &str = "0527dd4d-9666-43fc-bb09-8acbf3d0d778";
const LENS: &str = "1f9f6b92-f7fe-4d48-a077-9082ea2f9a8f";
const BRUME: &str = "7f4a5bc0-077f-4b98-855f-a5e93f88d08d";
const AGENT: &str = "agent-ab318ca278d38232f";

fn open(path: &Path) -> Arc<dyn Source> {
    claude_code::open(path).unwrap().remove(0)
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
    let project = root.join("projects/-tmp-demo-phare");
    match id {
        AGENT => project
            .join(LENS)
            .join("subagents")
            .join(format!("{AGENT}.jsonl")),
        id => project.join(format!("{id}.jsonl")),
    }
}

/// The records of a file, read independently of the source.
fn records(id: &str) -> Vec<Value> {
    let text = fs::read_to_string(file(&fixture("claude-code"), id)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
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

fn texts(conversation: &Conversation) -> Vec<&str> {
    let parts = conversation.messages.iter().flat_map(|m| &m.parts);
    parts
        .filter_map(|part| match &part.kind {
            PartKind::Text { text, .. } => Some(&**text),
            PartKind::Compaction { summary, .. } => summary.as_deref(),
            _ => None,
        })
        .collect()
}

#[test]
fn every_record_is_read_once() {
    let source = open(&fixture("claude-code"));
    for id in [LAMP, LENS, BRUME, AGENT] {
        let read = source.read(id).unwrap();
        let records = records(id);
        let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
        let mut response_ids = BTreeSet::new();
        let mut written_texts = Vec::new();
        let mut usage = BTreeMap::new();
        for record in &records {
            let content = &record["message"]["content"];
            let blocks = content
                .as_array()
                .cloned()
                .unwrap_or_else(|| vec![json!({"type": "text", "text": content})]);
            match record["type"].as_str().unwrap() {
                "user" => {
                    let results = blocks.iter().filter(|b| b["type"] == "tool_result").count();
                    *expected.entry("results").or_default() += results;
                    *expected.entry("user").or_default() += usize::from(results == 0);
                }
                "assistant" => {
                    response_ids.insert(record["message"]["id"].as_str().unwrap());
                    usage.insert(
                        record["message"]["id"].as_str().unwrap(),
                        &record["message"]["usage"],
                    );
                }
                _ => continue,
            }
            for block in &blocks {
                match block["type"].as_str().unwrap() {
                    "text" => written_texts.push(block["text"].as_str().unwrap().to_owned()),
                    "tool_use" => *expected.entry("tools").or_default() += 1,
                    "thinking" => *expected.entry("reasoning").or_default() += 1,
                    _ => {}
                }
            }
        }
        expected.insert("assistant", response_ids.len());
        let mut actual: BTreeMap<&str, usize> = BTreeMap::new();
        for message in &read.messages {
            let role = if message.role == Role::User {
                "user"
            } else {
                "assistant"
            };
            *actual.entry(role).or_default() += 1;
            for part in &message.parts {
                match &part.kind {
                    PartKind::Tool(tool) => {
                        *actual.entry("tools").or_default() += 1;
                        let ended = tool.output.is_some() || tool.error.is_some();
                        *actual.entry("results").or_default() += usize::from(ended);
                    }
                    PartKind::Reasoning { .. } => *actual.entry("reasoning").or_default() += 1,
                    _ => {}
                }
            }
        }
        expected.retain(|_, count| *count > 0);
        actual.retain(|_, count| *count > 0);
        assert_eq!(actual, expected, "{id}");
        let mut read_texts: Vec<_> = texts(&read).into_iter().map(str::to_owned).collect();
        read_texts.sort();
        written_texts.sort();
        assert_eq!(read_texts, written_texts, "{id}");
        let sum = |key: &str| {
            usage
                .values()
                .map(|u| u[key].as_u64().unwrap())
                .sum::<u64>()
        };
        let tokens = read.messages.iter().filter_map(|m| m.tokens);
        let tokens = tokens.fold((0, 0, 0), |sum, t| {
            (sum.0 + t.input, sum.1 + t.output, sum.2 + t.cache_read)
        });
        let expected = (
            sum("input_tokens"),
            sum("output_tokens"),
            sum("cache_read_input_tokens"),
        );
        assert_eq!(tokens, expected, "{id}");
        assert_eq!(read.skipped, [], "{id}");
        assert!(read.messages.is_sorted_by_key(|m| (m.created, m.seq)));
    }
}

#[test]
fn headers_match_the_files() {
    let source = open(&fixture("claude-code"));
    let listing = source.list().unwrap();
    let ids: Vec<&str> = listing.headers.iter().map(|h| &*h.id).collect();
    assert_eq!(ids, [LAMP, LENS, AGENT, BRUME]);
    assert_eq!(listing.skipped, []);
    let lamp = header(&*source, LAMP);
    assert_eq!(
        lamp.title.as_deref(),
        Some("Fix the lamp timer, it flashes too slowly")
    );
    assert_eq!(lamp.directory.as_deref(), Some("/tmp/demo/phare"));
    assert_eq!(lamp.project_id.as_deref(), Some("-tmp-demo-phare"));
    assert_eq!(lamp.version.as_deref(), Some("2.1.330"));
    assert_eq!(lamp.agent.as_deref(), Some("claude"));
    assert_eq!((&lamp.parent_id, &lamp.fork_of), (&None, &None));
    assert_eq!(
        (lamp.created, lamp.updated),
        (1_789_245_471_727, 1_789_245_475_075)
    );
    let agent = header(&*source, AGENT);
    assert_eq!(agent.parent_id.as_deref(), Some(LENS));
    assert_eq!(agent.agent.as_deref(), Some("general-purpose"));
    assert_eq!(agent.title.as_deref(), Some("Count lenses"));
    assert_eq!(agent.project_id.as_deref(), Some("-tmp-demo-phare"));
    assert_eq!(
        header(&*source, BRUME).title.as_deref(),
        Some("Où est le signal de brume ?")
    );
}

#[test]
fn a_subagent_is_linked_to_its_call() {
    let source = open(&fixture("claude-code"));
    let read = source.read(LENS).unwrap();
    let tool = tools(&read)[0];
    assert_eq!((&*tool.name, tool.child.as_deref()), ("Agent", Some(AGENT)));
    // The notice that the agent has ended was written by the program, not by the user.
    let notice = |m: &&Message| {
        m.parts.iter().any(|p| matches!(&p.kind, PartKind::Text { text, synthetic: true } if text.contains("<task-notification>")))
    };
    assert_eq!(read.messages.iter().filter(notice).count(), 1);

    // A running agent has no result yet, so the metadata file of the agent links it.
    let dir = copy_of("claude-code");
    let path = file(dir.path(), LENS);
    let text = fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("\"tool_result\""))
        .collect();
    fs::write(&path, kept.join("\n") + "\n").unwrap();
    let read = open(dir.path()).read(LENS).unwrap();
    let tool = tools(&read)[0];
    assert_eq!(
        (tool.status, tool.child.as_deref()),
        (ToolStatus::Running, Some(AGENT))
    );
}

#[test]
fn a_compaction_drops_the_messages_before_its_summary() {
    let source = open(&fixture("claude-code"));
    let read = source.read(LAMP).unwrap();
    let [boundary] = &*read.boundaries else {
        panic!("{:?}", read.boundaries)
    };
    assert_eq!(boundary.automatic, Some(false));
    let first = &read.messages[boundary.at];
    assert_eq!(Some(&first.id), boundary.summary_id.as_ref());
    assert!(first.summary);
    let PartKind::Compaction {
        automatic: false,
        summary: Some(summary),
    } = &first.parts[0].kind
    else {
        panic!("{:?}", first.parts)
    };
    assert!(summary.starts_with("This session is being continued"));
    let before = &read.messages[..boundary.at];
    assert!(before.iter().any(|m| &*m.id == "msg_0000000006"));
}

#[test]
fn results_errors_and_changes_belong_to_their_calls() {
    let source = open(&fixture("claude-code"));
    let lamp = source.read(LAMP).unwrap();
    let names: Vec<_> = tools(&lamp).iter().map(|t| (&*t.name, t.status)).collect();
    assert_eq!(
        names,
        ["Read", "Edit", "Bash", "Write"].map(|name| (name, ToolStatus::Completed))
    );
    let edit = tools(&lamp)[1];
    let changes = edit.changes.unwrap();
    assert_eq!(
        (changes.additions, changes.deletions, changes.files),
        (1, 1, 1)
    );
    assert_eq!(
        edit.files,
        ["/tmp/demo/phare/lamp.py".into()] as [Box<str>; 1]
    );
    assert_eq!(tools(&lamp)[3].changes.unwrap().additions, 3);
    // The program records the total cost of the session.
    let cost: f64 = lamp.messages.iter().filter_map(|m| m.cost).sum();
    assert!((cost - 0.063_045).abs() < 1e-9, "{cost}");
    assert!(
        lamp.messages
            .iter()
            .all(|m| !m.copied && m.completed.is_some())
    );

    let brume = source.read(BRUME).unwrap();
    let failed = tools(&brume)[0];
    assert_eq!(
        (failed.status, failed.output.as_deref()),
        (ToolStatus::Error, None)
    );
    assert!(
        failed
            .error
            .as_deref()
            .unwrap()
            .starts_with("File does not exist.")
    );
    assert!(
        texts(&brume).contains(
            &"Pas de signal de brume dans ce dépôt ; « corne » n'apparaît nulle part. 🌫️"
        )
    );
    assert_eq!(
        brume.messages[1].model.as_deref(),
        Some("claude-sonnet-4-5")
    );
}

#[test]
fn every_path_that_a_user_may_pass_can_be_opened() {
    let root = fixture("claude-code");
    for (path, sessions) in [
        (root.clone(), 4),
        (root.join("projects"), 4),
        (root.join("projects/-tmp-demo-phare"), 4),
        (file(&root, LENS), 2),
        (file(&root, LAMP), 1),
    ] {
        assert_eq!(
            open(&path).list().unwrap().headers.len(),
            sessions,
            "{}",
            path.display()
        );
    }
    let missing = claude_code::open(&root.join("nowhere")).err().unwrap();
    assert!(matches!(missing, SourceError::NotFound { .. }));
    assert!(
        claude_code::PROGRAM
            .hint_for(&missing)
            .contains("~/.claude")
    );
    let unrecognized = claude_code::open(&fixture("codex").join("sessions/2026"))
        .err()
        .unwrap();
    assert!(matches!(unrecognized, SourceError::Unrecognized { .. }));
    assert!(
        claude_code::PROGRAM
            .hint_for(&unrecognized)
            .contains("~/.claude")
    );
}

#[test]
fn the_folders_above_a_history_may_have_any_name() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("subagents");
    crate::copy(&fixture("claude-code"), &root);
    let source = open(&root.join("projects/-tmp-demo-phare"));
    let lamp = header(&*source, LAMP);
    assert_eq!(
        (lamp.parent_id.as_deref(), lamp.project_id.as_deref()),
        (None, Some("-tmp-demo-phare"))
    );
    let agent = header(&*source, AGENT);
    assert_eq!(
        (agent.parent_id.as_deref(), agent.project_id.as_deref()),
        (Some(LENS), Some("-tmp-demo-phare"))
    );
}
