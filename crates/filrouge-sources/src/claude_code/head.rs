//! Reads facts about a session from both ends of its file, without its middle.

use std::fs;
use std::path::Path;

use super::injected::is_injected;
use super::parts::{blocks_of, is_from_program};
use super::record::is_outside_conversation;
use crate::Skipped;
use crate::jsonl::{LogFile, read_both_ends, title_of};
use crate::object::Object;

/// The maximum size of an agent's `.meta.json` file that is read, in bytes.
const META_BYTES_MAX: u64 = 64 << 10;

/// Kinds of records that can give a session its title; they are not part of the conversation.
const TITLE_KINDS: [&str; 4] = ["custom-title", "ai-title", "summary", "last-prompt"];

/// The facts about a session that were read from its file.
#[derive(Default)]
pub(crate) struct Head {
    pub(super) created: Option<i64>,
    pub(super) updated: Option<i64>,
    pub(super) cwd: Option<Box<str>>,
    pub(super) version: Option<Box<str>>,
    /// The session id in the file's records: that of the first record, or the file's own id if any record has it.
    pub(super) recorded_id: Option<Box<str>>,
    /// The session from which this one was copied.
    pub(super) fork_of: Option<Box<str>>,
    pub(super) agent: Option<Box<str>>,
    /// Whether any record marks itself as an agent's.
    pub(super) sidechain: bool,
    pub(super) meta: Meta,
    /// The title that the user gave.
    title: Option<Box<str>>,
    /// The title that the program gave.
    summary: Option<Box<str>>,
    prompt: Option<Box<str>>,
    last_prompt: Option<Box<str>>,
    records: usize,
    uuids: Vec<Box<str>>,
}

/// The content of an agent's `agent-*.meta.json`; empty without such a file.
#[derive(Default)]
pub(crate) struct Meta {
    pub(super) agent: Option<Box<str>>,
    pub(super) call_id: Option<Box<str>>,
    pub(super) description: Option<Box<str>>,
}

impl Head {
    /// Returns the first that exists of: the user's title, the agent's description, the program's title, the
    /// first prompt, the last prompt.
    pub(super) fn title(&self) -> Option<Box<str>> {
        let texts = [
            &self.title,
            &self.meta.description,
            &self.summary,
            &self.prompt,
            &self.last_prompt,
        ];
        texts.into_iter().flatten().next().cloned()
    }

    /// Reads one line. `own_id` is the id of the file's session.
    fn add_line(&mut self, own_id: &str, line: &str) {
        let Ok(json) = Object::parse(line) else {
            return;
        };
        let Some(kind) = json.text("type") else {
            return;
        };
        let is_title = TITLE_KINDS.contains(&&*kind);
        if !is_title && is_outside_conversation(&json, &kind) {
            return;
        }
        self.records += 1;
        if let Some(at) = json.field("timestamp").time() {
            self.created = Some(self.created.map_or(at, |earliest| earliest.min(at)));
            self.updated = self.updated.max(Some(at));
        }
        match &*kind {
            "custom-title" => self.title = json.boxed("customTitle"),
            "ai-title" => self.summary = json.boxed("aiTitle"),
            // Early versions also write the summaries of other sessions into a file. Such a summary names a record that
            // is not in the file.
            "summary"
                if json
                    .text("leafUuid")
                    .is_some_and(|leaf| self.uuids.iter().any(|u| **u == *leaf)) =>
            {
                self.summary = json.boxed("summary");
            }
            "last-prompt" => self.last_prompt = json.text("lastPrompt").and_then(|t| title_of(&t)),
            "user" | "assistant" | "system" => self.add_record(own_id, &json, &kind),
            _ => {}
        }
    }

    fn add_record(&mut self, own_id: &str, json: &Object<'_>, kind: &str) {
        self.uuids.extend(json.boxed("uuid"));
        self.sidechain |= json.is_true("isSidechain");
        self.cwd = self.cwd.take().or_else(|| json.boxed("cwd"));
        self.version = self.version.take().or_else(|| json.boxed("version"));
        self.agent = self.agent.take().or_else(|| json.boxed("attributionAgent"));
        if let Some(session) = json.boxed("sessionId") {
            if *session != *own_id && self.fork_of.is_none() && self.recorded_id.is_none() {
                self.fork_of = Some(session.clone());
            }
            if self.recorded_id.is_none() || *session == *own_id {
                self.recorded_id = Some(session);
            }
        }
        if let Some(from) = json.field("forkedFrom").object() {
            self.fork_of = from.boxed("sessionId").or_else(|| self.fork_of.take());
        }
        let injected = json.is_true("isMeta") || json.is_true("isCompactSummary");
        let injected = injected || is_from_program(json.field("origin"));
        if kind == "user" && self.prompt.is_none() && !injected {
            let message = json.field("message").object();
            self.prompt = message.and_then(|message| prompt_of(&message));
        }
    }
}

/// Returns a title from the first text of a message that the program did not inject.
fn prompt_of(message: &Object<'_>) -> Option<Box<str>> {
    let blocks = blocks_of(message.field("content"));
    let texts = blocks.iter().filter_map(|block| block.text("text"));
    texts
        .filter(|text| !is_injected(text))
        .find_map(|text| title_of(&text))
}

/// Reads both ends of a session's file.
pub(super) fn read(file: &LogFile, own_id: &str) -> Result<Head, Skipped> {
    let add_line = |head: &mut Head, line: &str| head.add_line(own_id, line);
    let is_enough = |head: &Head| head.prompt.is_some();
    read_both_ends(file, add_line, is_enough, |head| head.records)
}

/// Reads the `.meta.json` file of an agent; `None` when it is absent, too large or invalid.
pub(super) fn read_meta(path: &Path) -> Option<Meta> {
    let path = path.with_extension("meta.json");
    let metadata = fs::symlink_metadata(&path).ok()?;
    if !metadata.is_file() || metadata.len() > META_BYTES_MAX {
        return None;
    }
    let text = fs::read_to_string(&path).ok()?;
    let file = Object::parse(&text).ok()?;
    Some(Meta {
        agent: file.boxed("agentType"),
        call_id: file.boxed("toolUseId"),
        description: file.boxed("description"),
    })
}
