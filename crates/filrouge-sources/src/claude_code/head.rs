//! What both ends of a file tell of its session.

use std::fs;
use std::path::Path;

use super::parts::{blocks_of, is_no_person};
use super::record::is_aside;
use super::told::is_put_in;
use crate::Skipped;
use crate::jsonl::{LogFile, records, title_of};
use crate::object::Object;

/// Largest description of an agent that is read.
const META_BYTES_MAX: u64 = 64 << 10;

/// Records about the session that are not part of the conversation.
const TITLES: [&str; 4] = ["custom-title", "ai-title", "summary", "last-prompt"];

/// What a file tells.
#[derive(Default)]
pub(crate) struct Head {
    pub(super) created: Option<i64>,
    pub(super) updated: Option<i64>,
    pub(super) cwd: Option<Box<str>>,
    pub(super) version: Option<Box<str>>,
    /// The sessions its records say they are of, the first and any that is the file's own.
    pub(super) records_of: Option<Box<str>>,
    pub(super) fork_of: Option<Box<str>>,
    pub(super) agent: Option<Box<str>>,
    pub(super) sidechain: bool,
    pub(super) meta: Option<Meta>,
    title: Option<Box<str>>,
    summary: Option<Box<str>>,
    prompt: Option<Box<str>>,
    last_prompt: Option<Box<str>>,
    records: usize,
    uuids: Vec<Box<str>>,
}

/// What `agent-*.meta.json` says.
pub(crate) struct Meta {
    pub(super) agent: Option<Box<str>>,
    pub(super) call_id: Option<Box<str>>,
    pub(super) description: Option<Box<str>>,
}

impl Head {
    /// Its title: given by the user, made by the program, or the first prompt.
    pub(super) fn title(&self) -> Option<Box<str>> {
        let described = self
            .meta
            .as_ref()
            .and_then(|meta| meta.description.as_ref());
        let texts = [
            self.title.as_ref(),
            described,
            self.summary.as_ref(),
            self.prompt.as_ref(),
            self.last_prompt.as_ref(),
        ];
        texts.into_iter().flatten().next().cloned()
    }

    fn take(&mut self, own: &str, line: &str) {
        let Ok(one) = Object::parse(line) else {
            return;
        };
        let Some(kind) = one.text("type") else {
            return;
        };
        let is_title = TITLES.contains(&&*kind);
        if !is_title && is_aside(&one, &kind) {
            return;
        }
        self.records += 1;
        if let Some(at) = one.at("timestamp").time() {
            self.created = Some(self.created.map_or(at, |before| before.min(at)));
            self.updated = self.updated.max(Some(at));
        }
        match &*kind {
            "custom-title" => self.title = one.boxed("customTitle"),
            "ai-title" => self.summary = one.boxed("aiTitle"),
            // Early versions put summaries of other sessions into a file as well.
            "summary"
                if one
                    .text("leafUuid")
                    .is_some_and(|leaf| self.uuids.iter().any(|u| **u == *leaf)) =>
            {
                self.summary = one.boxed("summary");
            }
            "last-prompt" => self.last_prompt = one.text("lastPrompt").and_then(|t| title_of(&t)),
            "user" | "assistant" | "system" => self.said(own, &one, &kind),
            _ => {}
        }
    }

    fn said(&mut self, own: &str, one: &Object<'_>, kind: &str) {
        self.uuids.extend(one.boxed("uuid"));
        self.sidechain |= one.is_true("isSidechain");
        self.cwd = self.cwd.take().or_else(|| one.boxed("cwd"));
        self.version = self.version.take().or_else(|| one.boxed("version"));
        self.agent = self.agent.take().or_else(|| one.boxed("attributionAgent"));
        if let Some(session) = one.boxed("sessionId") {
            if *session != *own && self.fork_of.is_none() && self.records_of.is_none() {
                self.fork_of = Some(session.clone());
            }
            if self.records_of.is_none() || *session == *own {
                self.records_of = Some(session);
            }
        }
        if let Some(from) = one.at("forkedFrom").object() {
            self.fork_of = from.boxed("sessionId").or_else(|| self.fork_of.take());
        }
        let aside = one.is_true("isMeta") || one.is_true("isCompactSummary");
        let aside = aside || is_no_person(one.at("origin"));
        if kind == "user" && self.prompt.is_none() && !aside {
            self.prompt = one.at("message").object().and_then(|said| prompt_of(&said));
        }
    }
}

fn prompt_of(said: &Object<'_>) -> Option<Box<str>> {
    let blocks = blocks_of(said.at("content"));
    let texts = blocks.iter().filter_map(|block| block.text("text"));
    texts
        .filter(|text| !is_put_in(text))
        .find_map(|text| title_of(&text))
}

/// Reads both ends of a session's file.
pub(super) fn read(file: &LogFile, own: &str) -> Result<Head, Skipped> {
    let take = |found: &mut Head, line: &str| found.take(own, line);
    records(
        file,
        take,
        |found| found.prompt.is_some(),
        |found| found.records,
    )
}

/// What is written beside an agent's file; nothing when there is none yet.
pub(super) fn meta(path: &Path) -> Option<Meta> {
    let path = path.with_extension("meta.json");
    let known = fs::symlink_metadata(&path).ok()?;
    if !known.is_file() || known.len() > META_BYTES_MAX {
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
