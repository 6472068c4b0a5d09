//! Reads facts about a session from both ends of its rollout, without its middle.

use super::items::is_injected;
use crate::Skipped;
use crate::jsonl::{LogFile, read_both_ends, title_of};
use crate::object::Object;

/// The facts about a session that were read from its rollout.
#[derive(Default)]
pub(crate) struct RolloutHead {
    pub(super) created: Option<i64>,
    pub(super) updated: Option<i64>,
    pub(super) cwd: Option<Box<str>>,
    pub(super) version: Option<Box<str>>,
    pub(super) fork_of: Option<Box<str>>,
    pub(super) parent: Option<Box<str>>,
    pub(super) agent: Option<Box<str>>,
    /// The user's first prompt, as a title.
    pub(super) prompt: Option<Box<str>>,
    has_meta: bool,
    records: usize,
}

impl RolloutHead {
    fn add_line(&mut self, text: &str) {
        let Ok(line) = Object::parse(text) else {
            return;
        };
        let kind = line.text("type").unwrap_or_default();
        self.records += 1;
        if let Some(at) = line.field("timestamp").time() {
            self.created = Some(self.created.unwrap_or(at));
            self.updated = self.updated.max(Some(at));
        }
        match (&*kind, line.field("payload").json()) {
            ("session_meta", Some(payload)) => self.read_meta(payload),
            ("response_item", Some(payload)) => self.read_item(payload),
            ("event_msg", Some(payload)) => self.read_event(payload),
            ("", None) if line.has("id") => self.read_meta(text),
            (_, None) => self.read_item(text),
            _ => {}
        }
    }

    /// Reads the session's metadata from the first record that has such data. In the file of a fork, the metadata of
    /// the original session follows, and is ignored.
    fn read_meta(&mut self, payload: &str) {
        let Ok(meta) = Object::parse(payload) else {
            return;
        };
        if std::mem::replace(&mut self.has_meta, true) {
            return;
        }
        self.created = meta.field("timestamp").time().or(self.created);
        self.cwd = meta.boxed("cwd");
        self.version = meta.boxed("cli_version");
        self.fork_of = meta.boxed("forked_from_id");
        let source: Object<'_> = meta.field("source").object().unwrap_or_default();
        let subagent: Object<'_> = source.field("subagent").object().unwrap_or_default();
        let spawn: Object<'_> = subagent.field("thread_spawn").object().unwrap_or_default();
        let objects = [&spawn, &subagent, &meta];
        let first_text = |key| objects.iter().find_map(|object| object.boxed(key));
        self.parent = first_text("parent_thread_id");
        let agent = first_text("agent_role").or_else(|| spawn.boxed("agent_nickname"));
        let agent = agent.or_else(|| meta.boxed("agent_nickname"));
        self.agent = agent.or_else(|| source.boxed("subagent"));
    }

    fn read_item(&mut self, payload: &str) {
        if self.prompt.is_some() {
            return;
        }
        let Ok(item) = Object::parse(payload) else {
            return;
        };
        let is_user = item.text("role").as_deref() == Some("user");
        if !is_user || item.text("type").as_deref() != Some("message") {
            return;
        }
        let pieces: Vec<Object<'_>> = item.field("content").objects().unwrap_or_default();
        let passthrough = item.field("internal_chat_message_metadata_passthrough");
        let passthrough = passthrough.object().unwrap_or_default();
        let kinds = passthrough.field("content_item_kinds").list();
        let kinds = kinds.unwrap_or_default();
        self.prompt = pieces.iter().enumerate().find_map(|(index, piece)| {
            let text = piece.text("text")?;
            let kind = kinds.get(index).and_then(|kind| kind.text());
            (!is_injected(kind.as_deref(), &text)).then(|| title_of(&text))?
        });
    }

    fn read_event(&mut self, payload: &str) {
        if self.prompt.is_some() {
            return;
        }
        let Ok(event) = Object::parse(payload) else {
            return;
        };
        let text = match event.text("type").as_deref() {
            Some("user_message") => event.boxed("message"),
            Some("item_completed") => event.field("item").object().and_then(|completed_item| {
                let is_user = completed_item.text("type").as_deref() == Some("UserMessage");
                let pieces: Vec<Object<'_>> = completed_item
                    .field("content")
                    .objects()
                    .filter(|_| is_user)?;
                pieces.iter().find_map(|piece| piece.boxed("text"))
            }),
            _ => None,
        };
        self.prompt = text
            .filter(|text| !is_injected(None, text))
            .and_then(|text| title_of(&text));
    }
}

/// Reads both ends of a rollout.
pub(super) fn read(file: &LogFile) -> Result<RolloutHead, Skipped> {
    let is_enough = |head: &RolloutHead| head.has_meta && head.prompt.is_some();
    read_both_ends(file, RolloutHead::add_line, is_enough, |head| head.records)
}
