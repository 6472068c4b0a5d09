//! Converts a draft into items.

use filrouge_types::{Channel, ItemBody, JsonText, RawJson, check_nesting};

use super::{DraftPiece, PieceKind, StreamId};
use crate::record::Entry;

/// Converts a draft into items: when its turn fails, is cancelled or is interrupted, and when the session's next holder
/// continues the turn.
///
/// A complete tool call becomes a tool call. An incomplete one becomes a part of type `tool_call_partial`, which
/// nothing executes.
pub fn partial_entries(stream: StreamId, pieces: &[DraftPiece]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for item_pieces in pieces.chunk_by(|a, b| a.number == b.number) {
        let parts: Vec<String> = item_pieces.iter().filter_map(part_json).collect();
        let Some(first) = item_pieces.first().filter(|_| !parts.is_empty()) else {
            continue;
        };
        let head = &first.head;
        let channel = match (head.kind, &head.channel) {
            (PieceKind::ToolCall, Channel::ToolCall) if !first.done => Channel::Partial,
            (_, Channel::Final) => Channel::Partial,
            (_, channel) => channel.clone(),
        };
        // The text of a `Complete` piece is either the array of all parts of its item, or one part of several.
        let is_only_piece = head.kind == PieceKind::Complete && first.text.starts_with('[');
        let parts = if is_only_piece {
            parts.concat()
        } else {
            format!("[{}]", parts.join(","))
        };
        let mut item = ItemBody::new(head.role, channel, checked_parts(parts));
        item.item_id = stream.item_id(first.number);
        item.agent.clone_from(&head.agent);
        item.model.clone_from(&head.model);
        entries.push(item.into());
    }
    entries
}

/// The number and the unescaped text of the draft's last answer item. `None` when the draft has no answer item, or when
/// the item has a piece that is not text.
pub(crate) fn answer_so_far(pieces: &[DraftPiece]) -> Option<(u64, String)> {
    let is_answer =
        |p: &DraftPiece| p.head.channel == Channel::Final && p.head.kind.can_be_answer();
    let number = pieces.iter().rfind(|p| is_answer(p))?.number;
    let mut inner = String::new();
    for piece in pieces.iter().filter(|p| p.number == number) {
        if piece.head.kind != PieceKind::Text {
            return None;
        }
        inner.push_str(&piece.text);
    }
    // The pieces are joined before they are parsed, because a surrogate pair may be split between two pieces.
    let text = JsonText::from_raw(RawJson::from_checked(format!("\"{inner}\""))).ok()?;
    Some((number, text.to_plain())).filter(|(_, text)| !text.is_empty())
}

/// The parts of an item, from their JSON. Text that is not JSON, or that is nested too deeply, becomes a part of type
/// `raw_event`, so that every stored item is readable.
pub fn checked_parts(parts: String) -> RawJson {
    RawJson::parse(&parts).unwrap_or_else(|_| raw_event(&parts))
}

/// The parts of an item that contains a text verbatim: one part of type `raw_event`.
pub fn raw_event(text: &str) -> RawJson {
    let text = JsonText::from_plain(text);
    let text = text.as_token();
    RawJson::from_checked(format!(r#"[{{"type":"raw_event","event":{text}}}]"#))
}

/// The JSON of a piece's part; `None` for a piece without content.
fn part_json(piece: &DraftPiece) -> Option<String> {
    let text = &piece.text;
    match piece.head.kind {
        // The text is empty if a later delta withdrew the piece.
        PieceKind::Complete => Some(text.clone()).filter(|text| !text.is_empty()),
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

/// The JSON of a tool call's arguments. `inner` is their text, escaped as inside a JSON string. A text that is a JSON
/// object gives this object, an empty text gives `{}`, and any other text gives a JSON string.
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

/// Whether JSON is shallow enough to be a member of a part.
pub fn is_flat(json: &str) -> bool {
    check_nesting(format!("[[{json}").as_bytes()).is_ok()
}
