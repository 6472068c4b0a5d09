//! Writes the invented conversations (`judged/*.json`) in OpenCode's format.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use filrouge_types::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// A file of conversations.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConversationFile {
    /// The working folder.
    directory: String,
    sessions: Vec<Session>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Session {
    id: String,
    title: String,
    /// A date such as `2026-03-04`.
    day: String,
    #[serde(rename = "said")]
    entries: Vec<Entry>,
}

/// One entry: a text of the user or of the agent, or a tool call with its result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    user: Option<String>,
    assistant: Option<String>,
    tool: Option<String>,
    input: Option<Value>,
    output: Option<String>,
}

/// The time between two messages.
const PAUSE_MS: i64 = 40_000;
const PROJECT: &str = "5f1c0a3e9b7d24680ace13579bdf02468ace1357";

/// Writes the conversations of `file` as an OpenCode tree at `root`; returns their number.
pub(super) fn write(file: &Path, root: &Path) -> Result<usize> {
    let text = fs::read(file).with_context(|| file.display().to_string())?;
    let conversations: ConversationFile = serde_json::from_slice(&text)?;
    let tree = Tree {
        root,
        directory: &conversations.directory,
    };
    tree.put(
        &format!("project/{PROJECT}"),
        &json!({"id": PROJECT, "worktree": conversations.directory, "vcs": "git", "sandboxes": [],
            "time": {"created": 1_700_000_000_000_i64, "updated": 1_700_000_000_000_i64}}),
    )?;
    fs::write(root.join("storage/migration"), "2")?;
    for session in &conversations.sessions {
        tree.session(session)?;
    }
    Ok(conversations.sessions.len())
}

struct Tree<'a> {
    root: &'a Path,
    directory: &'a str,
}

impl Tree<'_> {
    fn put(&self, name: &str, value: &Value) -> Result<()> {
        let path = self.root.join("storage").join(format!("{name}.json"));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(fs::write(path, serde_json::to_vec_pretty(value)?)?)
    }

    fn session(&self, session: &Session) -> Result<()> {
        let begin: Timestamp = format!("{}T09:00:00Z", session.day).parse()?;
        let begin = begin.as_millis();
        let mut at = begin;
        // The id of the newest message of the user.
        let mut question = None;
        for (n, entry) in session.entries.iter().enumerate() {
            at += PAUSE_MS;
            let id = format!("msg_{}{n:03}", session.id.trim_start_matches("ses_"));
            self.message(session, entry, &id, at, question.as_deref())?;
            if entry.user.is_some() {
                question = Some(id);
            }
        }
        self.put(
            &format!("session/{PROJECT}/{}", session.id),
            &json!({"id": session.id, "slug": session.id, "version": "1.1.65", "projectID": PROJECT,
                "directory": self.directory, "title": session.title, "time": {"created": begin, "updated": at},
                "summary": {"additions": 0, "deletions": 0, "files": 0}}),
        )
    }

    fn message(
        &self,
        session: &Session,
        entry: &Entry,
        id: &str,
        at: i64,
        question: Option<&str>,
    ) -> Result<()> {
        let ids = json!({"id": id, "sessionID": session.id});
        let message = if entry.user.is_some() {
            json!({"role": "user", "time": {"created": at}, "agent": "build",
                "model": {"providerID": "mock", "modelID": "made"}})
        } else {
            json!({"role": "assistant", "time": {"created": at, "completed": at + 900}, "parentID": question,
                "modelID": "made", "providerID": "mock", "mode": "build", "agent": "build",
                "path": {"cwd": self.directory, "root": self.directory}, "cost": 0,
                "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
                "finish": "stop"})
        };
        self.put(
            &format!("message/{}/{id}", session.id),
            &merge(ids, message),
        )?;
        let part = id.replacen("msg_", "prt_", 1);
        let ids = json!({"id": part, "sessionID": session.id, "messageID": id});
        let content = match (&entry.user, &entry.assistant, &entry.tool) {
            (Some(text), None, None) | (None, Some(text), None) => {
                json!({"type": "text", "text": text})
            }
            (None, None, Some(tool)) => {
                let state = json!({"status": "completed", "input": entry.input, "output": entry.output,
                    "title": tool, "metadata": {}, "time": {"start": at, "end": at + 400}});
                json!({"type": "tool", "callID": format!("call_{part}"), "tool": tool, "state": state})
            }
            _ => bail!("{id}: an entry needs exactly one of user, assistant and tool"),
        };
        self.put(&format!("part/{id}/{part}"), &merge(ids, content))
    }
}

/// Merges two objects.
fn merge(mut target: Value, other: Value) -> Value {
    if let (Value::Object(target), Value::Object(other)) = (&mut target, other) {
        target.extend(other);
    }
    target
}
