//! Converts parts of items to parts of messages.
//!
//! | item | part |
//! |---|---|
//! | `thought` | reasoning |
//! | `tool_call`, `tool_result` | tool; the result joins its call by the call id |
//! | `summary` | compaction with its summary; in an imported history a text, as its program recorded it |
//! | `error` | the message's error |
//! | any text | text; synthetic where an application or program injected it |
//! | files, patches and compactions that a program recorded | file, patch, compaction |
//! | redacted content | the text `[redacted]` |
//! | everything else | a part with the original JSON |

use std::collections::HashSet;

use filrouge_types::{Channel, Item, Part, Role as ItemRole};
use serde_json::value::RawValue;

use super::foreign_fields::ForeignFields;
use crate::{MessageError, PartKind, Tool, ToolStatus};

/// Replaces erased content.
const REDACTED: &str = "[redacted]";

/// The result of converting one part of an item.
pub(super) enum ConvertedPart {
    /// A part of its own. If it is a tool call, a later item can contain its result.
    Part(PartKind),
    /// The result of a call.
    Result(Box<Tool>),
    /// The message's error.
    Error(MessageError),
}

/// Converts an item's parts, in order; returns at least one part. `has_foreign_fields`: whether an importer recorded
/// the item's message; the text of a summary then stays a text.
pub(super) fn convert_parts(
    item: &Item,
    foreign: &ForeignFields,
    has_foreign_fields: bool,
) -> Vec<ConvertedPart> {
    if item.redacted {
        return vec![redacted_part(item)];
    }
    let raw: Vec<&RawValue> = serde_json::from_str(item.body.parts.as_str()).unwrap_or_default();
    let mut parts: Vec<_> = raw
        .into_iter()
        .map(|raw| convert_part(item, foreign, has_foreign_fields, raw.get()))
        .collect();
    if parts.is_empty() {
        parts.push(ConvertedPart::Part(other_part(
            item.body.channel.as_str(),
            "{}",
        )));
    }
    parts
}

/// The ids of the results in a turn that has redacted results; otherwise empty.
pub(super) fn known_results(items: &[Item]) -> HashSet<Box<str>> {
    let results = || {
        let items = items.iter();
        items.filter(|item| item.body.channel == Channel::ToolResult)
    };
    if results().all(|item| !item.redacted) {
        return HashSet::new();
    }
    let parts = results().flat_map(|item| Part::all(&item.body.parts));
    parts.filter_map(|part| text(&part, "call_id")).collect()
}

fn redacted_part(item: &Item) -> ConvertedPart {
    let text = || REDACTED.into();
    match item.body.channel {
        Channel::Thought => ConvertedPart::Part(PartKind::Reasoning { text: text() }),
        Channel::ToolCall => ConvertedPart::Part(PartKind::Tool(Box::new(Tool {
            input: format!("\"{REDACTED}\"").into(),
            ..new_call(text(), text())
        }))),
        Channel::ToolResult => ConvertedPart::Result(Box::new(Tool {
            status: ToolStatus::Completed,
            output: Some(text()),
            ..new_call(text(), text())
        })),
        _ => ConvertedPart::Part(PartKind::Text {
            text: text(),
            synthetic: item.body.role == ItemRole::System,
        }),
    }
}

/// Creates a call with only its id and name.
fn new_call(call_id: Box<str>, name: Box<str>) -> Tool {
    Tool::call(call_id, name, "null".into())
}

fn other_part(name: &str, json: &str) -> PartKind {
    PartKind::Other {
        name: name.into(),
        json: json.into(),
    }
}

fn convert_part(
    item: &Item,
    foreign: &ForeignFields,
    has_foreign_fields: bool,
    raw: &str,
) -> ConvertedPart {
    let unchanged = |name: &str| ConvertedPart::Part(other_part(name, raw));
    let part = Part::read(raw);
    let typed = part.and_then(|part| Some((part.text("type")?, part)));
    let Some((name, part)) = typed else {
        return unchanged(item.body.channel.as_str());
    };
    let kind = match name.as_str() {
        "tool_call" => call_part(&part),
        "tool_result" => return result_part(&part, foreign),
        "error" if item.body.channel == Channel::Error => {
            return ConvertedPart::Error(message_error(&part));
        }
        "text" | "code" | "reasoning" => text_part(item, foreign, has_foreign_fields, &part),
        "file" | "image" | "image_url" | "audio" | "video" => Some(file_part(&part)),
        "patch" => patch_part(&part),
        "compaction" => Some(PartKind::Compaction {
            automatic: part.flag("auto").unwrap_or(false),
            summary: text(&part, "text"),
        }),
        _ => None,
    };
    kind.map_or_else(|| unchanged(&name), ConvertedPart::Part)
}

fn text(part: &Part<'_>, name: &str) -> Option<Box<str>> {
    part.text(name).map(Into::into)
}

fn text_part(
    item: &Item,
    foreign: &ForeignFields,
    has_foreign_fields: bool,
    part: &Part<'_>,
) -> Option<PartKind> {
    let text = text(part, "text")?;
    Some(match item.body.channel {
        Channel::Thought => PartKind::Reasoning { text },
        Channel::Summary if !has_foreign_fields => PartKind::Compaction {
            automatic: false,
            summary: Some(text),
        },
        _ if part.is("reasoning") => PartKind::Reasoning { text },
        _ => PartKind::Text {
            text,
            synthetic: foreign.is_synthetic() || item.body.channel == Channel::SystemNote,
        },
    })
}

fn call_part(part: &Part<'_>) -> Option<PartKind> {
    let mut tool = new_call(text(part, "call_id")?, tool_name(part));
    if let Some(args) = part.value("args") {
        tool.input = args.as_str().into();
    }
    Some(PartKind::Tool(Box::new(tool)))
}

fn tool_name(part: &Part<'_>) -> Box<str> {
    text(part, "name").unwrap_or_else(|| "unknown".into())
}

fn result_part(part: &Part<'_>, foreign: &ForeignFields) -> ConvertedPart {
    // A text is shown unchanged, any other value as its JSON.
    let field = |name| text(part, name).or_else(|| Some(part.value(name)?.as_str().into()));
    let content = field("content").or_else(|| field("error"));
    let mut tool = new_call(text(part, "call_id").unwrap_or_default(), tool_name(part));
    if part.flag("ok") == Some(false) {
        tool.status = ToolStatus::Error;
        tool.error = content;
    } else {
        tool.status = ToolStatus::Completed;
        tool.output = content;
    }
    tool.title = foreign.title();
    tool.pruned = foreign.pruned();
    tool.child = foreign.child();
    ConvertedPart::Result(Box::new(tool))
}

fn file_part(part: &Part<'_>) -> PartKind {
    let first = |names: &[&str]| names.iter().find_map(|name| text(part, name));
    // In a `data:` URL, the content follows the comma.
    let without_content = |url: Box<str>| match url.split_once(',') {
        Some((head, _)) if head.starts_with("data:") => head.into(),
        _ => url,
    };
    PartKind::File {
        mime: first(&["mime", "media_type", "mime_type"]),
        name: first(&["filename", "name"]),
        url: text(part, "url").map(without_content),
    }
}

fn patch_part(part: &Part<'_>) -> Option<PartKind> {
    let files: Vec<String> = serde_json::from_str(part.value("files")?.as_str()).ok()?;
    Some(PartKind::Patch {
        files: files.into_iter().map(Into::into).collect(),
    })
}

fn message_error(part: &Part<'_>) -> MessageError {
    MessageError {
        name: text(part, "code").unwrap_or_else(|| "error".into()),
        message: text(part, "message").unwrap_or_default(),
        retryable: part.flag("retryable").unwrap_or(false),
    }
}
