//! The texts of a conversation that are searched.

use filrouge_sources::{MessageError, Part, PartKind};
use serde::{Deserialize, Serialize};

filrouge_types::words!(
    /// Which text of a message it is. Their order is stored: new ones come last.
    #[derive(Serialize, Deserialize)]
    pub enum Field: "field" {
        /// The session's title.
        Title => "title",
        /// What somebody said.
        Text => "text",
        /// What an agent thought.
        Reasoning => "reasoning",
        /// A tool's name.
        Tool => "tool",
        /// The arguments of a call, as JSON.
        ToolInput => "tool_input",
        /// What a tool gave.
        ToolOutput => "tool_output",
        /// What a tool failed with.
        ToolError => "tool_error",
        /// What a tool calls what it did.
        ToolTitle => "tool_title",
        /// A file's name or address.
        File => "file",
        /// A file that was changed.
        Patch => "patch",
        /// The summary of a compaction.
        Summary => "summary",
        /// The error a message ended in.
        Error => "error",
        /// What is kept as written, as JSON.
        Other => "other",
    }
);

impl Field {
    /// Whether it is JSON, of which the strings are searched as they read, too.
    pub(crate) const fn is_json(self) -> bool {
        matches!(self, Self::ToolInput | Self::Other)
    }

    /// Whether it comes with the result of a tool, not with its call.
    pub(crate) const fn is_result(self) -> bool {
        matches!(
            self,
            Self::ToolTitle | Self::ToolOutput | Self::ToolError | Self::File
        )
    }
}

/// Shows `each` the texts of a part, in the order they are read.
pub(crate) fn of_part<'a>(part: &'a Part, each: &mut dyn FnMut(Field, &'a str)) {
    let mut all = |field, texts: &'a [Box<str>]| texts.iter().for_each(|t| each(field, t));
    match &part.kind {
        PartKind::Patch { files } => return all(Field::Patch, files),
        PartKind::Tool(tool) => all(Field::File, &tool.files),
        _ => {}
    }
    let mut some = |field, text: &'a Option<Box<str>>| {
        if let Some(text) = text {
            each(field, text);
        }
    };
    match &part.kind {
        PartKind::Text { text, .. } => each(Field::Text, text),
        PartKind::Reasoning { text } => each(Field::Reasoning, text),
        PartKind::Tool(tool) => {
            some(Field::ToolTitle, &tool.title);
            some(Field::ToolOutput, &tool.output);
            some(Field::ToolError, &tool.error);
            each(Field::ToolInput, &tool.input);
            each(Field::Tool, &tool.name);
        }
        PartKind::File { name, url, .. } => {
            some(Field::File, name);
            some(Field::File, url);
        }
        PartKind::Compaction { summary, .. } => some(Field::Summary, summary),
        PartKind::Other { name, json } if !is_bookkeeping(name) => each(Field::Other, json),
        PartKind::Patch { .. } | PartKind::Other { .. } => {}
    }
}

/// Shows `each` the texts of a message's error.
pub(crate) fn of_error<'a>(error: &'a MessageError, each: &mut dyn FnMut(Field, &'a str)) {
    each(Field::Error, &error.message);
    each(Field::Error, &error.name);
}

/// Steps and snapshots: hashes and numbers in words that every message would be found by.
fn is_bookkeeping(kind: &str) -> bool {
    matches!(kind, "step-start" | "step-finish" | "snapshot")
}
