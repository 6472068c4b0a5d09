//! Messages and parts as they are shown.

use super::cursor::{Place, Way};
use super::lay::{Field, Hidden, Slot};
use super::page::{Piece, View};
use super::{Cut, ShownMessage, ShownPart};
use crate::library::clean;
use crate::{Part, PartKind};

/// What has become of a message.
pub(super) struct Marks {
    pub(super) compacted: bool,
    pub(super) boundary: bool,
    pub(super) reverted: bool,
}

pub(super) fn shown(view: &View<'_>, piece: &Piece<'_>, marks: Marks) -> ShownMessage {
    let message = piece.laid.message;
    let clean = |text: &Option<Box<str>>| clean::some(text.as_deref(), view.shows.mask);
    let mut parts = Vec::new();
    let mut error = None;
    for (at, slot) in piece.laid.slots.iter().enumerate().skip(piece.from.0) {
        let from = if at == piece.from.0 {
            piece.from.1.min(slot.chars)
        } else {
            0
        };
        let to = if at == piece.to.0 {
            piece.to.1.min(slot.chars)
        } else {
            slot.chars
        };
        let is_behind = at > piece.to.0 || (at == piece.to.0 && piece.to.1 == 0);
        let is_done = from > 0 && from == slot.chars;
        if is_behind || is_done {
            continue;
        }
        let texts = slot.within(from..to);
        match at.checked_sub(1).and_then(|n| message.parts.get(n)) {
            None => error = texts.map(|(_, text)| text).next(),
            Some(_) if is_hidden(slot) => {}
            Some(part) => {
                let mut shown = shown_part(part, from == 0, view.shows.mask);
                texts.for_each(|(field, text)| put(&mut shown, field, text));
                let here = |offset| Place {
                    message: piece.index,
                    slot: at,
                    offset,
                };
                shown.before = (from > 0).then(|| Cut {
                    chars: from,
                    cursor: view.cursor(Way::Back, here(from)),
                    skip: None,
                });
                shown.cut = (to < slot.chars).then(|| Cut {
                    chars: slot.chars - to,
                    cursor: view.cursor(Way::On, here(to)),
                    skip: Some(view.cursor(Way::On, view.behind_part(piece, at))),
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
        before: before(view, piece),
        cut: cut(view, piece),
        parts,
    }
}

/// Hidden as a whole: without its output a tool call is still shown.
fn is_hidden(slot: &Slot<'_>) -> bool {
    slot.hidden.is_some_and(|why| why != Hidden::Output)
}

impl View<'_> {
    /// Behind the part in a slot.
    fn behind_part(&self, piece: &Piece<'_>, slot: usize) -> Place {
        let next = slot + 1;
        if next < piece.laid.slots.len() {
            return Place {
                message: piece.index,
                slot: next,
                offset: 0,
            };
        }
        self.behind_message(piece.index)
    }
}

fn before(view: &View<'_>, piece: &Piece<'_>) -> Option<Cut> {
    if piece.from == (0, 0) {
        return None;
    }
    let (slot, offset) = piece.from;
    let place = Place {
        message: piece.index,
        slot,
        offset,
    };
    Some(Cut {
        chars: piece.laid.chars_before(slot, offset),
        cursor: view.cursor(Way::Back, place),
        skip: None,
    })
}

fn cut(view: &View<'_>, piece: &Piece<'_>) -> Option<Cut> {
    let (slot, offset) = piece.to;
    if slot >= piece.laid.slots.len() {
        return None;
    }
    let place = Place {
        message: piece.index,
        slot,
        offset,
    };
    let behind = view.behind_message(piece.index);
    Some(Cut {
        chars: piece.laid.chars() - piece.laid.chars_before(slot, offset),
        cursor: view.cursor(Way::On, place),
        skip: Some(view.cursor(Way::On, behind)),
    })
}

/// A part without its texts; `is_start`: its beginning is shown, with which its files go.
fn shown_part(part: &Part, is_start: bool, mask: bool) -> ShownPart {
    let clean = |text: &str| clean::word(text, mask);
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

fn put(part: &mut ShownPart, field: Field, text: String) {
    let place = match field {
        Field::Text => &mut part.text,
        Field::Title => &mut part.title,
        Field::Input => &mut part.input,
        Field::Output => &mut part.output,
        Field::Error => &mut part.error,
        Field::Json => &mut part.json,
    };
    *place = Some(text);
}
