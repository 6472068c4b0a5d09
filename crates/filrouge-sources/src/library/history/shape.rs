//! Converts messages and parts to their shown form.

use super::cursor::Direction;
use super::layout::{Field, Hidden};
use super::page::{MessagePiece, View};
use super::{Cut, ShownMessage, ShownPart};
use crate::library::clean;
use crate::{Part, PartKind};

/// Converts a message, or the range of one that a page contains.
pub(super) fn show_message(view: &View<'_>, piece: &MessagePiece<'_>) -> ShownMessage {
    let message = piece.layout.message;
    let clean = |text: &Option<Box<str>>| clean::optional_text(text.as_deref(), view.options.mask);
    let forward = |position| view.cursor(Direction::Forward, position);
    let mut parts = Vec::new();
    let mut error = None;
    for (index, slot) in piece.layout.slots.iter().enumerate().skip(piece.from.0) {
        let from = if index == piece.from.0 {
            piece.from.1.min(slot.chars)
        } else {
            0
        };
        let to = if index == piece.to.0 {
            piece.to.1.min(slot.chars)
        } else {
            slot.chars
        };
        let is_after = index > piece.to.0 || (index == piece.to.0 && piece.to.1 == 0);
        let is_already_shown = from > 0 && from == slot.chars;
        if is_after || is_already_shown {
            continue;
        }
        let texts = slot.within(from..to);
        match index.checked_sub(1).and_then(|n| message.parts.get(n)) {
            None => error = texts.map(|(_, text)| text).next(),
            // A tool call without its output is still shown.
            Some(_) if slot.hidden.is_some_and(|why| why != Hidden::Output) => {}
            Some(part) => {
                let mut shown = shown_part(part, from == 0, view.options.mask);
                texts.for_each(|(field, text)| set_field(&mut shown, field, text));
                shown.before = (from > 0).then(|| Cut {
                    chars: from,
                    cursor: view.cursor(Direction::Backward, piece.position((index, from))),
                    skip: None,
                });
                shown.cut = (to < slot.chars).then(|| Cut {
                    chars: slot.chars - to,
                    cursor: forward(piece.position((index, to))),
                    skip: Some(forward(view.at_or_after(piece, (index + 1, 0)))),
                });
                parts.push(shown);
            }
        }
    }
    let boundaries = &view.conversation.boundaries;
    let reverted = view.conversation.reverted_at;
    ShownMessage {
        id: message.id.to_string(),
        role: message.role,
        created: message.created,
        completed: message.completed,
        agent: clean(&message.agent),
        model: clean(&message.model),
        parent_id: message.parent_id.as_deref().map(str::to_owned),
        tokens: message.tokens,
        cost: message.cost,
        error,
        summary: message.summary,
        compacted: boundaries.iter().any(|b| piece.index < b.at),
        boundary: boundaries.iter().any(|b| piece.index == b.at),
        reverted: reverted.is_some_and(|at| piece.index >= at),
        before: (piece.from != (0, 0)).then(|| Cut {
            chars: piece.layout.chars_before(piece.from),
            cursor: view.cursor(Direction::Backward, piece.position(piece.from)),
            skip: None,
        }),
        cut: (piece.to.0 < piece.layout.slots.len()).then(|| Cut {
            chars: piece.layout.chars() - piece.layout.chars_before(piece.to),
            cursor: forward(piece.position(piece.to)),
            skip: Some(forward(view.after_message(piece.index))),
        }),
        parts,
    }
}

/// A part without its texts. `is_start`: whether the page shows the part from its beginning; only then does it list the
/// files of a tool call.
fn shown_part(part: &Part, is_start: bool, mask: bool) -> ShownPart {
    let clean = |text: &str| clean::display_text(text, mask);
    let mut shown = ShownPart {
        id: part.id.to_string(),
        kind: clean(part.kind.name()),
        start: part.start,
        end: part.end,
        ..ShownPart::default()
    };
    match &part.kind {
        PartKind::Text { synthetic, .. } => shown.synthetic = *synthetic,
        PartKind::Tool(tool) => {
            shown.tool = Some(clean(&tool.name));
            shown.call_id = Some(clean(&tool.call_id));
            shown.status = Some(tool.status);
            shown.pruned = tool.pruned;
            shown.child_session_id = tool.child.as_deref().map(str::to_owned);
            if is_start {
                shown.files = tool.files.iter().map(|f| clean(f)).collect();
            }
        }
        PartKind::File { mime, name, url } => {
            shown.mime = mime.as_deref().map(clean);
            shown.files = url
                .as_deref()
                .or(name.as_deref())
                .map(clean)
                .into_iter()
                .collect();
            shown.title = url.as_ref().and(name.as_deref()).map(clean);
        }
        PartKind::Patch { files } => shown.files = files.iter().map(|f| clean(f)).collect(),
        PartKind::Reasoning { .. } | PartKind::Compaction { .. } | PartKind::Other { .. } => {}
    }
    shown
}

/// Sets a field of a shown part.
fn set_field(part: &mut ShownPart, field: Field, text: String) {
    let target = match field {
        Field::Text => &mut part.text,
        Field::Title => &mut part.title,
        Field::Input => &mut part.input,
        Field::Output => &mut part.output,
        Field::Error => &mut part.error,
        Field::Json => &mut part.json,
    };
    *target = Some(text);
}
