//! Converts messages and parts to their shown form.

use super::cursor::{Direction, Position};
use super::layout::{Field, Hidden};
use super::page::{MessagePiece, View};
use super::{Cut, ShownMessage, ShownPart};
use crate::library::clean;
use crate::{Part, PartKind};

/// A message's state in the conversation: the fields of the same names of [`ShownMessage`].
pub(super) struct Marks {
    pub(super) compacted: bool,
    pub(super) boundary: bool,
    pub(super) reverted: bool,
}

/// Converts a message, or the range of one that a page contains.
pub(super) fn show_message(
    view: &View<'_>,
    piece: &MessagePiece<'_>,
    marks: Marks,
) -> ShownMessage {
    let message = piece.layout.message;
    let clean = |text: &Option<Box<str>>| clean::optional_text(text.as_deref(), view.options.mask);
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
                let position_at = |offset| Position {
                    message: piece.index,
                    slot: index,
                    offset,
                };
                shown.before = (from > 0).then(|| Cut {
                    chars: from,
                    cursor: view.cursor(Direction::Backward, position_at(from)),
                    skip: None,
                });
                shown.cut = (to < slot.chars).then(|| Cut {
                    chars: slot.chars - to,
                    cursor: view.cursor(Direction::Forward, position_at(to)),
                    skip: Some(view.cursor(Direction::Forward, view.after_part(piece, index))),
                });
                parts.push(shown);
            }
        }
    }
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
        compacted: marks.compacted,
        boundary: marks.boundary,
        reverted: marks.reverted,
        before: cut_before(view, piece),
        cut: cut_after(view, piece),
        parts,
    }
}

impl View<'_> {
    /// The position after the part in a slot.
    fn after_part(&self, piece: &MessagePiece<'_>, slot: usize) -> Position {
        let next = slot + 1;
        if next < piece.layout.slots.len() {
            return Position {
                message: piece.index,
                slot: next,
                offset: 0,
            };
        }
        self.after_message(piece.index)
    }
}

/// The cut text of the message before the piece, if there is any.
fn cut_before(view: &View<'_>, piece: &MessagePiece<'_>) -> Option<Cut> {
    if piece.from == (0, 0) {
        return None;
    }
    let (slot, offset) = piece.from;
    let position = Position {
        message: piece.index,
        slot,
        offset,
    };
    Some(Cut {
        chars: piece.layout.chars_before(slot, offset),
        cursor: view.cursor(Direction::Backward, position),
        skip: None,
    })
}

/// The cut text of the message after the piece, if there is any.
fn cut_after(view: &View<'_>, piece: &MessagePiece<'_>) -> Option<Cut> {
    let (slot, offset) = piece.to;
    if slot >= piece.layout.slots.len() {
        return None;
    }
    let position = Position {
        message: piece.index,
        slot,
        offset,
    };
    let after = view.after_message(piece.index);
    Some(Cut {
        chars: piece.layout.chars() - piece.layout.chars_before(slot, offset),
        cursor: view.cursor(Direction::Forward, position),
        skip: Some(view.cursor(Direction::Forward, after)),
    })
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
