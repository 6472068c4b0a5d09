//! What the importers note in an item's metadata: the fields of a foreign message and part that an item has no place
//! for. With it a history that was imported reads as its program wrote it.

use filrouge_types::Item;
use serde::Deserialize;
use serde_json::Value;

use crate::{Changes, Role};

/// The notes of one item.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Notes {
    /// The message's own fields; on its first item alone.
    pub(super) message: Option<Value>,
    /// Fields of the part.
    part: Value,
    /// Fields of a tool's state.
    state: Value,
}

impl Notes {
    pub(super) fn of(item: &Item) -> Self {
        #[derive(Default, Deserialize)]
        struct Metadata {
            #[serde(default, alias = "claude_code", alias = "codex")]
            opencode: Notes,
        }
        let metadata = item.body.metadata.as_ref();
        let read = metadata.and_then(|text| serde_json::from_str::<Metadata>(text.as_str()).ok());
        read.unwrap_or_default().opencode
    }

    /// Whether the program had put the text in.
    pub(super) fn synthetic(&self) -> bool {
        ["synthetic", "ignored"]
            .iter()
            .any(|name| self.part.get(name).and_then(Value::as_bool) == Some(true))
    }

    /// A tool's title.
    pub(super) fn title(&self) -> Option<Box<str>> {
        text(&self.state, "/title")
    }

    /// When its output was pruned.
    pub(super) fn pruned(&self) -> Option<i64> {
        self.state
            .pointer("/time/compacted")
            .and_then(Value::as_i64)
    }

    /// The session it has started.
    pub(super) fn child(&self) -> Option<Box<str>> {
        text(&self.state, "/metadata/sessionId")
    }

    /// What an edit has changed, and the file.
    pub(super) fn changed(&self) -> Option<(Changes, Box<str>)> {
        let diff = self.state.pointer("/metadata/filediff")?;
        let count = |name| diff.get(name).and_then(Value::as_u64).unwrap_or(0);
        let changes = Changes {
            additions: count("additions"),
            deletions: count("deletions"),
            files: 1,
        };
        Some((changes, text(diff, "/file")?))
    }
}

/// A message as its program noted it.
pub(super) struct Noted<'a>(pub(super) &'a Value);

impl Noted<'_> {
    pub(super) fn text(&self, pointer: &str) -> Option<Box<str>> {
        text(self.0, pointer)
    }

    /// Whom the program says it is from; not every program says so in the message itself.
    pub(super) fn role(&self) -> Option<Role> {
        match self.0.get("role").and_then(Value::as_str)? {
            "user" => Some(Role::User),
            "assistant" => Some(Role::Assistant),
            "system" => Some(Role::System),
            _ => None,
        }
    }

    pub(super) fn time(&self, pointer: &str) -> Option<i64> {
        self.0.pointer(pointer).and_then(Value::as_i64)
    }

    /// Whether it is the summary of a compaction; of a user's message `summary` is an object.
    pub(super) fn summary(&self) -> bool {
        self.0.get("summary") == Some(&Value::Bool(true))
    }
}

fn text(value: &Value, pointer: &str) -> Option<Box<str>> {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .map(Into::into)
}
