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

use filrouge_types::{Channel, Item, Part, Role as ItemRole};
use serde_json::value::RawValue;

use super::notes::Notes;
use crate::{MessageError, PartKind, Tool, ToolStatus};

/// Replaces erased content.
const REDACTED: &str = "[redacted]";

/// The result of converting one part of an item.
pub(super) enum PartPiece {
    /// A part of its own. If it is a tool call, a later item can contain its result.
    Part(PartKind),
    /// The result of a call.
    Result(Box<Tool>),
    /// The message's error.
    Error(MessageError),
}

/// Converts an item's parts, in order; returns at least one piece. `noted`: whether an importer recorded the item's
/// message; the text of a summary then stays a text.
pub(super) fn pieces(item: &Item, notes: &Notes, noted: bool) -> Vec<PartPiece> {
    if item.redacted {
        return vec![redacted(item)];
    }
    let raw: Vec<&RawValue> = serde_json::from_str(item.body.parts.as_str()).unwrap_or_default();
    let mut pieces: Vec<_> = raw
        .into_iter()
        .map(|raw| piece(item, notes, noted, raw.get()))
        .collect();
    if pieces.is_empty() {
        pieces.push(PartPiece::Part(other(item.body.channel.as_str(), "{}")));
    }
    pieces
}

fn redacted(item: &Item) -> PartPiece {
    let text = || REDACTED.into();
    match item.body.channel {
        Channel::Thought => PartPiece::Part(PartKind::Reasoning { text: text() }),
        Channel::ToolCall => PartPiece::Part(PartKind::Tool(Box::new(Tool {
            input: format!("\"{REDACTED}\"").into(),
            ..tool(text(), text())
        }))),
        Channel::ToolResult => PartPiece::Result(Box::new(Tool {
            status: ToolStatus::Completed,
            output: Some(text()),
            ..tool(text(), text())
        })),
        _ => PartPiece::Part(PartKind::Text {
            text: text(),
            synthetic: item.body.role == ItemRole::System,
        }),
    }
}

/// Creates a call with only its id and name.
fn tool(call_id: Box<str>, name: Box<str>) -> Tool {
    Tool::call(call_id, name, "null".into())
}

fn other(name: &str, json: &str) -> PartKind {
    PartKind::Other {
        name: name.into(),
        json: json.into(),
    }
}

fn piece(item: &Item, notes: &Notes, noted: bool, raw: &str) -> PartPiece {
    let as_written = |name: &str| PartPiece::Part(other(name, raw));
    let part = Part::read(raw);
    let named = part.and_then(|part| Some((part.text("type")?, part)));
    let Some((name, part)) = named else {
        return as_written(item.body.channel.as_str());
    };
    let kind = match name.as_str() {
        "tool_call" => call(&part),
        "tool_result" => return result(&part, notes),
        "error" if item.body.channel == Channel::Error => return PartPiece::Error(error(&part)),
        "text" | "code" | "reasoning" => text_part(item, notes, noted, &part),
        "file" | "image" | "image_url" | "audio" | "video" => Some(file(&part)),
        "patch" => patch(&part),
        "compaction" => Some(PartKind::Compaction {
            automatic: part.flag("auto").unwrap_or(false),
            summary: text(&part, "text"),
        }),
        _ => None,
    };
    kind.map_or_else(|| as_written(&name), PartPiece::Part)
}

fn text(part: &Part<'_>, name: &str) -> Option<Box<str>> {
    part.text(name).map(Into::into)
}

fn text_part(item: &Item, notes: &Notes, noted: bool, part: &Part<'_>) -> Option<PartKind> {
    let text = text(part, "text")?;
    Some(match item.body.channel {
        Channel::Thought => PartKind::Reasoning { text },
        Channel::Summary if !noted => PartKind::Compaction {
            automatic: false,
            summary: Some(text),
        },
        _ if part.is("reasoning") => PartKind::Reasoning { text },
        _ => PartKind::Text {
            text,
            synthetic: notes.synthetic() || item.body.channel == Channel::SystemNote,
        },
    })
}

fn call(part: &Part<'_>) -> Option<PartKind> {
    let mut tool = tool(text(part, "call_id")?, tool_name(part));
    if let Some(args) = part.value("args") {
        tool.input = args.as_str().into();
    }
    Some(PartKind::Tool(Box::new(tool)))
}

fn tool_name(part: &Part<'_>) -> Box<str> {
    text(part, "name").unwrap_or_else(|| "unknown".into())
}

fn result(part: &Part<'_>, notes: &Notes) -> PartPiece {
    // A text is shown unchanged, any other value as its JSON.
    let member = |name| text(part, name).or_else(|| Some(part.value(name)?.as_str().into()));
    let content = member("content").or_else(|| member("error"));
    let mut tool = tool(text(part, "call_id").unwrap_or_default(), tool_name(part));
    if part.flag("ok") == Some(false) {
        tool.status = ToolStatus::Error;
        tool.error = content;
    } else {
        tool.status = ToolStatus::Completed;
        tool.output = content;
    }
    tool.title = notes.title();
    tool.pruned = notes.pruned();
    tool.child = notes.child();
    if let Some((changes, file)) = notes.changed() {
        tool.changes = Some(changes);
        tool.files = vec![file];
    }
    PartPiece::Result(Box::new(tool))
}

fn file(part: &Part<'_>) -> PartKind {
    let first = |names: &[&str]| names.iter().find_map(|name| text(part, name));
    // In a `data:` URL, the content follows the comma.
    let address = |url: Box<str>| match url.split_once(',') {
        Some((head, _)) if head.starts_with("data:") => head.into(),
        _ => url,
    };
    PartKind::File {
        mime: first(&["mime", "media_type", "mime_type"]),
        name: first(&["filename", "name"]),
        url: text(part, "url").map(address),
    }
}

fn patch(part: &Part<'_>) -> Option<PartKind> {
    let files: Vec<String> = serde_json::from_str(part.value("files")?.as_str()).ok()?;
    Some(PartKind::Patch {
        files: files.into_iter().map(Into::into).collect(),
    })
}

fn error(part: &Part<'_>) -> MessageError {
    MessageError {
        name: text(part, "code").unwrap_or_else(|| "error".into()),
        message: text(part, "message").unwrap_or_default(),
        retryable: part.flag("retryable").unwrap_or(false),
    }
}
