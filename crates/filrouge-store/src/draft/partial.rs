//! What a draft shows, as items.

use filrouge_types::{Channel, ItemBody, JsonText, RawJson, check_nesting};

use super::{Piece, PieceKind, StreamId};
use crate::record::Entry;

/// What was shown, as items, when no more will come: of a turn that has failed, was cancelled or interrupted.
///
/// Complete calls are calls; one that broke off is a part of type `tool_call_partial`, which nothing takes for a call.
#[must_use]
pub fn partial_entries(stream: StreamId, pieces: &[Piece]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for chunk in pieces.chunk_by(|a, b| a.number == b.number) {
        let parts: Vec<String> = chunk.iter().filter_map(part).collect();
        let Some(first) = chunk.first().filter(|_| !parts.is_empty()) else {
            continue;
        };
        let head = &first.head;
        let channel = match (head.kind, &head.channel) {
            (PieceKind::ToolCall, Channel::ToolCall) if !first.done => Channel::Partial,
            (_, Channel::Final) => Channel::Partial,
            (_, channel) => channel.clone(),
        };
        // What stands alone came with its parts' brackets; among what is said it is one part of several.
        let alone = head.kind == PieceKind::Whole && first.text.starts_with('[');
        let parts = if alone {
            parts.concat()
        } else {
            format!("[{}]", parts.join(","))
        };
        let mut item = ItemBody::new(head.role, channel, checked(parts));
        item.item_id = stream.item_id(first.number);
        item.agent.clone_from(&head.agent);
        item.model.clone_from(&head.model);
        entries.push(item.into());
    }
    entries
}

/// The number of the item that is said last, and its text with escapes resolved; `None` when it holds anything else.
pub(crate) fn answer_so_far(pieces: &[Piece]) -> Option<(u64, String)> {
    let said = |p: &Piece| p.head.channel == Channel::Final && p.head.kind.is_said();
    let number = pieces.iter().rfind(|p| said(p))?.number;
    let mut inner = String::new();
    for piece in pieces.iter().filter(|p| p.number == number) {
        if piece.head.kind != PieceKind::Text {
            return None;
        }
        inner.push_str(&piece.text);
    }
    // Together, since a pair of surrogates may stand in two pieces.
    let text = JsonText::from_raw(RawJson::from_checked(format!("\"{inner}\""))).ok()?;
    Some((number, text.to_plain())).filter(|(_, text)| !text.is_empty())
}

/// Parts as they were put together. What is no JSON, or too deep to be read, is kept as text, so that nothing in a
/// journal cannot be read.
#[must_use]
pub fn checked(parts: String) -> RawJson {
    RawJson::parse(&parts).unwrap_or_else(|_| raw_event(&parts))
}

/// A part that holds a text as it came, and that nobody takes for anything else.
#[must_use]
pub fn raw_event(text: &str) -> RawJson {
    let text = JsonText::from_plain(text);
    let text = text.as_token();
    RawJson::from_checked(format!(r#"[{{"type":"raw_event","event":{text}}}]"#))
}

fn part(piece: &Piece) -> Option<String> {
    let text = &piece.text;
    match piece.head.kind {
        // What was taken back is empty.
        PieceKind::Whole => Some(text.clone()).filter(|text| !text.is_empty()),
        PieceKind::ToolCall => {
            let (id, name) = piece.head.call.as_ref()?;
            let (id, name) = (id.as_token(), name.as_token());
            let (kind, args) = if piece.done {
                ("tool_call", arguments(text))
            } else {
                ("tool_call_partial", format!("\"{text}\""))
            };
            Some(format!(
                r#"{{"type":"{kind}","call_id":{id},"name":{name},"args":{args}}}"#
            ))
        }
        _ if text.is_empty() => None,
        PieceKind::Text => Some(format!(r#"{{"type":"text","text":"{text}"}}"#)),
        PieceKind::Refusal => Some(format!(r#"{{"type":"refusal","refusal":"{text}"}}"#)),
        PieceKind::Reasoning => Some(format!(r#"{{"type":"reasoning","text":"{text}"}}"#)),
    }
}

/// The arguments of a call, given as text: the object in it, else the text as it came.
#[must_use]
pub fn arguments(inner: &str) -> String {
    if inner.is_empty() {
        return "{}".to_owned();
    }
    let text = format!("\"{inner}\"");
    let plain: Result<String, _> = serde_json::from_str(&text);
    match plain.ok().and_then(|plain| RawJson::parse(&plain).ok()) {
        Some(json) if json.is_object() && is_flat(json.as_str()) => json.as_str().to_owned(),
        _ => text,
    }
}

/// Whether JSON is not too deep as a member of a part.
#[must_use]
pub fn is_flat(json: &str) -> bool {
    check_nesting(format!("[[{json}").as_bytes()).is_ok()
}
