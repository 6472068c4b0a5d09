//! What both ends of a rollout tell of its session.

use super::items::is_put_in;
use super::record::{Done, Event, Item, Line, Meta, Passed, Piece, Started, matters};
use crate::jsonl::{LogFile, Raw, ends, record, title_of};
use crate::{SkipReason, Skipped};

/// What a file tells.
#[derive(Default)]
pub(crate) struct Head {
    pub(super) created: Option<i64>,
    pub(super) updated: Option<i64>,
    pub(super) cwd: Option<Box<str>>,
    pub(super) version: Option<Box<str>>,
    pub(super) fork_of: Option<Box<str>>,
    pub(super) parent: Option<Box<str>>,
    pub(super) agent: Option<Box<str>>,
    pub(super) prompt: Option<Box<str>>,
    has_meta: bool,
    records: usize,
}

impl Head {
    fn take(&mut self, text: &str) {
        let Ok(line) = record::<Line<'_>>(text) else {
            return;
        };
        let kind = line.kind.text().unwrap_or_default();
        self.records += 1;
        if let Some(at) = line.timestamp.time() {
            self.created = Some(self.created.unwrap_or(at));
            self.updated = self.updated.max(Some(at));
        }
        match (&*kind, line.payload.json()) {
            ("session_meta", Some(payload)) => self.meta(payload),
            ("response_item", Some(payload)) => self.item(payload),
            ("event_msg", Some(payload)) => self.event(payload),
            ("", None) if line.id.json().is_some() => self.meta(text),
            (_, None) => self.item(text),
            _ => {}
        }
    }

    /// The first one is the session's own; a fork has its origin's behind it.
    fn meta(&mut self, payload: &str) {
        let Ok(meta) = record::<Meta<'_>>(payload) else {
            return;
        };
        if std::mem::replace(&mut self.has_meta, true) {
            return;
        }
        self.created = meta.timestamp.time().or(self.created);
        self.cwd = meta.cwd.boxed();
        self.version = meta.cli_version.boxed();
        self.fork_of = meta.forked_from_id.boxed();
        let source: Started<'_> = meta.source.read().unwrap_or_default();
        let started: Started<'_> = source.subagent.read().unwrap_or_default();
        let spawned: Started<'_> = started.thread_spawn.read().unwrap_or_default();
        let first = |raws: [Raw<'_>; 3]| raws.into_iter().find_map(Raw::boxed);
        self.parent = first([
            spawned.parent_thread_id,
            started.parent_thread_id,
            meta.parent_thread_id,
        ]);
        let role = first([spawned.agent_role, started.agent_role, meta.agent_role]);
        let nickname = || first([spawned.agent_nickname, meta.agent_nickname, source.subagent]);
        self.agent = role.or_else(nickname);
    }

    fn item(&mut self, payload: &str) {
        if self.prompt.is_some() {
            return;
        }
        let Ok(item) = record::<Item<'_>>(payload) else {
            return;
        };
        let is_user = item.role.text().as_deref() == Some("user");
        if !is_user || item.kind.text().as_deref() != Some("message") {
            return;
        }
        let pieces: Vec<Piece<'_>> = item.content.read().unwrap_or_default();
        let passed: Passed<'_> = item.passed.read().unwrap_or_default();
        let kinds: Vec<Raw<'_>> = passed.content_item_kinds.read().unwrap_or_default();
        self.prompt = pieces.iter().enumerate().find_map(|(index, piece)| {
            let text = piece.text.text()?;
            let kind = kinds.get(index).and_then(|kind| kind.text());
            (!is_put_in(kind.as_deref(), &text)).then(|| title_of(&text))?
        });
    }

    fn event(&mut self, payload: &str) {
        if self.prompt.is_some() {
            return;
        }
        let Ok(event) = record::<Event<'_>>(payload) else {
            return;
        };
        let text = match event.kind.text().as_deref() {
            Some("user_message") => event.message.boxed(),
            Some("item_completed") => event.item.read::<Done<'_>>().and_then(|done| {
                let is_user = done.kind.text().as_deref() == Some("UserMessage");
                let pieces: Vec<Piece<'_>> = done.content.read().filter(|_| is_user)?;
                pieces.iter().find_map(|piece| piece.text.boxed())
            }),
            _ => None,
        };
        self.prompt = text
            .filter(|text| !is_put_in(None, text))
            .and_then(|text| title_of(&text));
    }
}

/// Reads both ends of a rollout.
pub(super) fn read(file: &LogFile) -> Result<Head, Skipped> {
    if file.state.size == 0 {
        return Err(Skipped::new(&file.path, SkipReason::Empty, "0 bytes"));
    }
    let mut found = Head::default();
    let take = |found: &mut Head, line: &[u8]| {
        if let Ok(text) = std::str::from_utf8(line)
            && matters(line)
        {
            found.take(text.trim());
        }
    };
    ends(file, &mut found, take, |found| {
        found.has_meta && found.prompt.is_some()
    })?;
    if found.records == 0 {
        let detail = "holds no record that can be read";
        return Err(Skipped::new(&file.path, SkipReason::Malformed, detail));
    }
    Ok(found)
}
