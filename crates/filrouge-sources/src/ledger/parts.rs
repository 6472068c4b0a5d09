//! Parts of items as parts of messages.
//!
//! | item | part |
//! |---|---|
//! | `thought` | reasoning |
//! | `tool_call`, `tool_result` | tool; the result joins its call by the call's id |
//! | `summary` | compaction with its summary; in an imported history text, as its program has it |
//! | `error` | the message's error |
//! | any text | text; synthetic where an application or program put it in |
//! | files, patches, compactions of programs | the same |
//! | what was redacted | `[redacted]` in its place |
//! | everything else | as written |

use std::borrow::Cow;

use filrouge_types::{Channel, Item, JsonText, Role as ItemRole};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::notes::Notes;
use crate::{MessageError, PartKind, Tool, ToolStatus};

/// Stands for what was erased.
const REDACTED: &str = "[redacted]";

/// What one part of an item is.
pub(super) enum Piece {
    /// A part of its own; of a tool it may be the call, to which a result can still come.
    Part(PartKind),
    /// The result of a call.
    Result(Box<Tool>),
    /// The message's error.
    Error(MessageError),
}

/// The fields that are looked at; a part in which one is of another type is kept as written.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    text: Option<JsonText>,
    call_id: Option<JsonText>,
    name: Option<JsonText>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    ok: Option<bool>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    /// Stands for `content` of a result.
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(alias = "media_type", alias = "mime_type")]
    mime: Option<JsonText>,
    filename: Option<JsonText>,
    url: Option<JsonText>,
    files: Option<Vec<JsonText>>,
    auto: Option<bool>,
    code: Option<JsonText>,
    message: Option<JsonText>,
    retryable: Option<bool>,
}

/// What an item's parts are, in order; never none.
pub(super) fn of(item: &Item, notes: &Notes, noted: bool) -> Vec<Piece> {
    if item.redacted {
        return vec![redacted(item)];
    }
    let raw: Vec<&RawValue> = serde_json::from_str(item.body.parts.as_str()).unwrap_or_default();
    let mut pieces: Vec<_> = raw
        .into_iter()
        .map(|raw| piece(item, notes, noted, raw.get()))
        .collect();
    if pieces.is_empty() {
        pieces.push(Piece::Part(other(item.body.channel.as_str(), "{}")));
    }
    pieces
}

fn redacted(item: &Item) -> Piece {
    let text = || REDACTED.into();
    match item.body.channel {
        Channel::Thought => Piece::Part(PartKind::Reasoning { text: text() }),
        Channel::ToolCall => Piece::Part(PartKind::Tool(Box::new(Tool {
            input: format!("\"{REDACTED}\"").into(),
            ..tool(text(), text())
        }))),
        Channel::ToolResult => Piece::Result(Box::new(Tool {
            status: ToolStatus::Completed,
            output: Some(text()),
            ..tool(text(), text())
        })),
        _ => Piece::Part(PartKind::Text {
            text: text(),
            synthetic: item.body.role == ItemRole::System,
        }),
    }
}

/// A call of which nothing is known but its id and name.
fn tool(call_id: Box<str>, name: Box<str>) -> Tool {
    Tool::call(call_id, name, "null".into())
}

fn other(name: &str, json: &str) -> PartKind {
    PartKind::Other {
        name: name.into(),
        json: json.into(),
    }
}

fn plain(text: &JsonText) -> Box<str> {
    text.to_plain().into()
}

fn piece(item: &Item, notes: &Notes, noted: bool, raw: &str) -> Piece {
    let Ok(fields) = serde_json::from_str::<Fields<'_>>(raw) else {
        return Piece::Part(other(item.body.channel.as_str(), raw));
    };
    let kind = match fields.r#type.as_ref() {
        "tool_call" => call(&fields),
        "tool_result" => return result(&fields, notes),
        "error" if item.body.channel == Channel::Error => return Piece::Error(error(&fields)),
        "text" | "code" | "reasoning" => said(item, notes, noted, &fields),
        "file" | "image" | "image_url" | "audio" | "video" => Some(file(&fields)),
        "patch" => patch(&fields),
        "compaction" => Some(PartKind::Compaction {
            automatic: fields.auto.unwrap_or(false),
            summary: fields.text.as_ref().map(plain),
        }),
        _ => None,
    };
    Piece::Part(kind.unwrap_or_else(|| other(&fields.r#type, raw)))
}

fn said(item: &Item, notes: &Notes, noted: bool, fields: &Fields<'_>) -> Option<PartKind> {
    let text = plain(fields.text.as_ref()?);
    Some(match item.body.channel {
        Channel::Thought => PartKind::Reasoning { text },
        Channel::Summary if !noted => PartKind::Compaction {
            automatic: false,
            summary: Some(text),
        },
        _ if fields.r#type == "reasoning" => PartKind::Reasoning { text },
        _ => PartKind::Text {
            text,
            synthetic: notes.synthetic() || item.body.channel == Channel::SystemNote,
        },
    })
}

fn call(fields: &Fields<'_>) -> Option<PartKind> {
    let name = fields.name.as_ref().map_or_else(|| "unknown".into(), plain);
    let mut tool = tool(plain(fields.call_id.as_ref()?), name);
    tool.input = fields.args.map_or("null", RawValue::get).into();
    Some(PartKind::Tool(Box::new(tool)))
}

fn result(fields: &Fields<'_>, notes: &Notes) -> Piece {
    let id = fields.call_id.as_ref().map_or_else(|| "".into(), plain);
    let name = fields.name.as_ref().map_or_else(|| "unknown".into(), plain);
    let content = fields.content.or(fields.error).map(said_by_tool);
    let mut tool = tool(id, name);
    if fields.ok == Some(false) {
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
    Piece::Result(Box::new(tool))
}

/// A text is told plain, anything else as its JSON.
fn said_by_tool(content: &RawValue) -> Box<str> {
    match serde_json::from_str::<JsonText>(content.get()) {
        Ok(text) => plain(&text),
        Err(_) => content.get().into(),
    }
}

fn file(fields: &Fields<'_>) -> PartKind {
    let url = fields.url.as_ref().map(plain);
    // What stands behind the comma is the content.
    let address = |url: Box<str>| match url.split_once(',') {
        Some((head, _)) if head.starts_with("data:") => head.into(),
        _ => url,
    };
    PartKind::File {
        mime: fields.mime.as_ref().map(plain),
        name: fields.filename.as_ref().or(fields.name.as_ref()).map(plain),
        url: url.map(address),
    }
}

fn patch(fields: &Fields<'_>) -> Option<PartKind> {
    let files = fields.files.as_ref()?;
    Some(PartKind::Patch {
        files: files.iter().map(plain).collect(),
    })
}

fn error(fields: &Fields<'_>) -> MessageError {
    MessageError {
        name: fields.code.as_ref().map_or_else(|| "error".into(), plain),
        message: fields.message.as_ref().map_or_else(|| "".into(), plain),
        retryable: fields.retryable.unwrap_or(false),
    }
}
