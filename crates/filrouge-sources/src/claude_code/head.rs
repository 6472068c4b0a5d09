//! What both ends of a file tell of its session.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::parts::{blocks_of, is_no_person};
use super::record::{Record, Said, matters};
use super::told::is_put_in;
use crate::jsonl::{LogFile, Raw, ends, record, title_of};
use crate::{SkipReason, Skipped};

/// Largest description of an agent that is read.
const META_BYTES_MAX: u64 = 64 << 10;

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

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetaFile<'a> {
    #[serde(borrow)]
    agent_type: Raw<'a>,
    #[serde(borrow)]
    tool_use_id: Raw<'a>,
    #[serde(borrow)]
    description: Raw<'a>,
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
        let Ok(one) = record::<Record<'_>>(line) else {
            return;
        };
        let Some(kind) = one.kind.text() else {
            return;
        };
        self.records += 1;
        if let Some(at) = one.timestamp.time() {
            self.created = Some(self.created.map_or(at, |before| before.min(at)));
            self.updated = self.updated.max(Some(at));
        }
        match &*kind {
            "custom-title" => self.title = one.custom_title.boxed(),
            "ai-title" => self.summary = one.ai_title.boxed(),
            // Early versions put summaries of other sessions into a file as well.
            "summary"
                if one
                    .leaf_uuid
                    .text()
                    .is_some_and(|leaf| self.uuids.iter().any(|u| **u == *leaf)) =>
            {
                self.summary = one.summary.boxed();
            }
            "last-prompt" => self.last_prompt = one.last_prompt.text().and_then(|t| title_of(&t)),
            "user" | "assistant" | "system" => self.said(own, &one, &kind),
            _ => {}
        }
    }

    fn said(&mut self, own: &str, one: &Record<'_>, kind: &str) {
        self.uuids.extend(one.uuid.boxed());
        self.sidechain |= one.is_sidechain.is_true();
        self.cwd = self.cwd.take().or_else(|| one.cwd.boxed());
        self.version = self.version.take().or_else(|| one.version.boxed());
        self.agent = self.agent.take().or_else(|| one.attribution_agent.boxed());
        if let Some(session) = one.session_id.boxed() {
            if *session != *own && self.fork_of.is_none() && self.records_of.is_none() {
                self.fork_of = Some(session.clone());
            }
            if self.records_of.is_none() || *session == *own {
                self.records_of = Some(session);
            }
        }
        if let Some(from) = one.forked_from.read::<Forked<'_>>() {
            self.fork_of = from.session_id.boxed().or_else(|| self.fork_of.take());
        }
        let aside = one.is_meta.is_true() || one.is_compact_summary.is_true();
        let aside = aside || one.origin.json().is_some_and(is_no_person);
        if kind == "user" && self.prompt.is_none() && !aside {
            self.prompt = one
                .message
                .read::<Said<'_>>()
                .and_then(|said| prompt_of(&said));
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Forked<'a> {
    #[serde(borrow)]
    session_id: Raw<'a>,
}

fn prompt_of(said: &Said<'_>) -> Option<Box<str>> {
    let blocks = blocks_of(said.content);
    let texts = blocks.iter().filter_map(|block| block.text.text());
    texts
        .filter(|text| !is_put_in(text))
        .find_map(|text| title_of(&text))
}

/// Reads both ends of a session's file.
pub(super) fn read(file: &LogFile, own: &str) -> Result<Head, Skipped> {
    if file.state.size == 0 {
        return Err(Skipped::new(&file.path, SkipReason::Empty, "0 bytes"));
    }
    let mut found = Head::default();
    let take = |found: &mut Head, line: &[u8]| {
        if let Ok(text) = std::str::from_utf8(line)
            && (matters(line) || is_title(line))
        {
            found.take(own, text.trim());
        }
    };
    ends(file, &mut found, take, |found| found.prompt.is_some())?;
    if found.records == 0 {
        let detail = "holds no record that can be read";
        return Err(Skipped::new(&file.path, SkipReason::Malformed, detail));
    }
    Ok(found)
}

fn is_title(line: &[u8]) -> bool {
    let kinds: [&[u8]; 4] = [
        b"custom-title\"",
        b"ai-title\"",
        b"summary\"",
        b"last-prompt\"",
    ];
    let kind = line.strip_prefix(b"{\"type\":\"");
    kind.is_some_and(|rest| kinds.iter().any(|kind| rest.starts_with(kind)))
}

/// What is written beside an agent's file; nothing when there is none yet.
pub(super) fn meta(path: &Path) -> Option<Meta> {
    let path = path.with_extension("meta.json");
    let known = fs::symlink_metadata(&path).ok()?;
    if !known.is_file() || known.len() > META_BYTES_MAX {
        return None;
    }
    let text = fs::read_to_string(&path).ok()?;
    let file: MetaFile<'_> = serde_json::from_str(&text).ok()?;
    Some(Meta {
        agent: file.agent_type.boxed(),
        call_id: file.tool_use_id.boxed(),
        description: file.description.boxed(),
    })
}
