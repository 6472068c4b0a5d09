//! Determines which texts of a conversation are searched, and names their kinds.

use filrouge_sources::{Part, PartKind};
use serde::{Deserialize, Serialize};

filrouge_types::words!(
    /// The kinds of texts of a message. The order of the variants is stored, so new ones are added at the end.
    #[derive(Serialize, Deserialize)]
    pub enum Field: "field" {
        /// The session's title.
        Title => "title",
        /// The text of a message.
        Text => "text",
        /// An agent's reasoning.
        Reasoning => "reasoning",
        /// A tool's name.
        Tool => "tool",
        /// The arguments of a call, as JSON.
        ToolInput => "tool_input",
        /// The output of a tool.
        ToolOutput => "tool_output",
        /// The error of a tool.
        ToolError => "tool_error",
        /// The title that a tool gave its call.
        ToolTitle => "tool_title",
        /// A file's name or address.
        File => "file",
        /// A file that was changed.
        Patch => "patch",
        /// The summary of a compaction.
        Summary => "summary",
        /// The error that ended a message.
        Error => "error",
        /// A part of another kind, kept as JSON.
        Other => "other",
    }
);

impl Field {
    /// Whether the text is JSON. JSON is searched as written and, in addition, with the escapes in its strings
    /// resolved.
    pub(crate) const fn is_json(self) -> bool {
        matches!(self, Self::ToolInput | Self::Other)
    }

    /// Whether the text belongs to the result of a tool call; other texts of the call belong to the call itself.
    pub(crate) const fn is_result(self) -> bool {
        matches!(
            self,
            Self::ToolTitle | Self::ToolOutput | Self::ToolError | Self::File
        )
    }
}

/// Passes the texts of a part to `each`, in reading order.
pub(crate) fn each_text_of_part<'a>(part: &'a Part, each: &mut dyn FnMut(Field, &'a str)) {
    let mut each_of = |field, texts: &'a [Box<str>]| texts.iter().for_each(|t| each(field, t));
    match &part.kind {
        PartKind::Patch { files } => return each_of(Field::Patch, files),
        PartKind::Tool(tool) => each_of(Field::File, &tool.files),
        _ => {}
    }
    let mut each_present = |field, text: &'a Option<Box<str>>| {
        if let Some(text) = text {
            each(field, text);
        }
    };
    match &part.kind {
        PartKind::Text { text, .. } => each(Field::Text, text),
        PartKind::Reasoning { text } => each(Field::Reasoning, text),
        PartKind::Tool(tool) => {
            each_present(Field::ToolTitle, &tool.title);
            each_present(Field::ToolOutput, &tool.output);
            each_present(Field::ToolError, &tool.error);
            each(Field::ToolInput, &tool.input);
            each(Field::Tool, &tool.name);
        }
        PartKind::File { name, url, .. } => {
            each_present(Field::File, name);
            each_present(Field::File, url);
        }
        PartKind::Compaction { summary, .. } => each_present(Field::Summary, summary),
        PartKind::Other { name, json } if !is_bookkeeping(name) => each(Field::Other, json),
        PartKind::Patch { .. } | PartKind::Other { .. } => {}
    }
}

/// Whether a part, by the name of its kind, marks a step or a snapshot. Such parts are not searched: their hashes,
/// numbers and words would match in every message.
fn is_bookkeeping(kind: &str) -> bool {
    matches!(kind, "step-start" | "step-finish" | "snapshot")
}
