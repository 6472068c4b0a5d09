//! The texts of a conversation that are searched.

use filrouge_sources::{MessageError, Part, PartKind};
use serde::{Deserialize, Serialize};

/// Which text of a message it is. Their order is stored: new ones come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Field {
    /// The session's title.
    Title,
    /// What somebody said.
    Text,
    /// What an agent thought.
    Reasoning,
    /// A tool's name.
    Tool,
    /// The arguments of a call, as JSON.
    ToolInput,
    /// What a tool gave.
    ToolOutput,
    /// What a tool failed with.
    ToolError,
    /// What a tool calls what it did.
    ToolTitle,
    /// A file's name or address.
    File,
    /// A file that was changed.
    Patch,
    /// The summary of a compaction.
    Summary,
    /// The error a message ended in.
    Error,
    /// What is kept as written, as JSON.
    Other,
}

impl Field {
    /// The word for it in answers.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Text => "text",
            Self::Reasoning => "reasoning",
            Self::Tool => "tool",
            Self::ToolInput => "tool_input",
            Self::ToolOutput => "tool_output",
            Self::ToolError => "tool_error",
            Self::ToolTitle => "tool_title",
            Self::File => "file",
            Self::Patch => "patch",
            Self::Summary => "summary",
            Self::Error => "error",
            Self::Other => "other",
        }
    }

    #[cfg(test)]
    pub(crate) const ALL: [Self; 13] = [
        Self::Title,
        Self::Text,
        Self::Reasoning,
        Self::Tool,
        Self::ToolInput,
        Self::ToolOutput,
        Self::ToolError,
        Self::ToolTitle,
        Self::File,
        Self::Patch,
        Self::Summary,
        Self::Error,
        Self::Other,
    ];

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
