//! The foreign fields in the metadata of an imported item: fields of another program's message or part that have no
//! equivalent in an item. They restore an imported history to the form in which its program wrote it.

use filrouge_types::Item;
use serde::Deserialize;
use serde_json::Value;

use crate::Tool;
use crate::object::Object;
use crate::opencode::changed_files::add_changes;

/// The foreign fields of one item.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ForeignFields {
    /// The fields of the message; only the message's first item has them.
    pub(super) message: Option<Value>,
    /// Fields of the part that the item lacks.
    part: Value,
    /// Fields of the tool call's state that the item lacks.
    state: Value,
}

impl ForeignFields {
    pub(super) fn read(item: &Item) -> Self {
        #[derive(Default, Deserialize)]
        struct Metadata {
            // Each program's importer writes them under the program's name.
            #[serde(default, rename = "opencode", alias = "claude_code", alias = "codex")]
            fields: ForeignFields,
        }
        let metadata = item.body.metadata.as_ref();
        let read = metadata.and_then(|text| serde_json::from_str::<Metadata>(text.as_str()).ok());
        read.unwrap_or_default().fields
    }

    /// Whether the program injected the text.
    pub(super) fn is_synthetic(&self) -> bool {
        ["synthetic", "ignored"]
            .iter()
            .any(|name| self.part.get(name).and_then(Value::as_bool) == Some(true))
    }

    /// A tool's title.
    pub(super) fn title(&self) -> Option<Box<str>> {
        text(&self.state, "/title")
    }

    /// The time at which the tool's output was pruned.
    pub(super) fn pruned(&self) -> Option<i64> {
        self.state
            .pointer("/time/compacted")
            .and_then(Value::as_i64)
    }

    /// The session that the call started.
    pub(super) fn child(&self) -> Option<Box<str>> {
        text(&self.state, "/metadata/sessionId")
    }

    /// Adds to a call the changes that the metadata of its state reports.
    pub(super) fn add_changes(&self, tool: &mut Tool) {
        let metadata = self.state.get("metadata").map(Value::to_string);
        if let Ok(metadata) = Object::parse(&metadata.unwrap_or_default()) {
            add_changes(tool, &metadata);
        }
    }
}

pub(super) fn text(value: &Value, pointer: &str) -> Option<Box<str>> {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .map(Into::into)
}
