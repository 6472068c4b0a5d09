//! Builds one page: as many complete messages as the budget allows. If the first message exceeds the budget, the page
//! has as many of its complete parts as fit; if the first part exceeds it, as many of its characters.

use super::cursor::{Cursor, Direction, PagedContent, Position};
use super::layout::{DisplayOptions, Hidden, MessageLayout};
use super::shape::show_message;
use super::{MAX_CHARS, ShownMessage};
use crate::Conversation;

/// The minimum number of characters that a message counts as, so that messages without text fill a page too.
const MIN_MESSAGE_CHARS: usize = 40;

/// The limits of a page.
#[derive(Debug, Clone, Copy)]
pub(in crate::library) struct PageLimits {
    pub(in crate::library) chars: usize,
    messages: usize,
}

impl PageLimits {
    /// The limits of a query; 0 means the default.
    pub(in crate::library) const fn new(chars: usize, messages: usize) -> Self {
        Self {
            chars: if chars == 0 { MAX_CHARS } else { chars },
            messages: if messages == 0 { usize::MAX } else { messages },
        }
    }

    /// The limits with `used` characters fewer, but at least one.
    pub(in crate::library) fn without(self, used: usize) -> Self {
        Self {
            chars: self.chars.saturating_sub(used).max(1),
            ..self
        }
    }
}

/// The messages that the pages of one query cover, and the options of their display.
pub(in crate::library) struct View<'a> {
    pub(in crate::library) conversation: &'a Conversation,
    /// The messages' indexes, ascending.
    pub(in crate::library) list: Vec<usize>,
    /// Messages from this index on show only tool calls whose outputs were pruned.
    pub(in crate::library) pruned_from: usize,
    pub(in crate::library) options: DisplayOptions,
    /// Whether the view is the entire history or the dropped messages; its cursors name it.
    pub(in crate::library) paged: PagedContent,
}

/// A page, oldest message first.
#[derive(Default)]
pub(in crate::library) struct Page {
    pub(in crate::library) messages: Vec<ShownMessage>,
    pub(in crate::library) previous: Option<String>,
    pub(in crate::library) next: Option<String>,
    pub(in crate::library) notices: Vec<String>,
}

/// A message, or a range of one.
pub(super) struct MessagePiece<'a> {
    pub(super) index: usize,
    pub(super) layout: MessageLayout<'a>,
    /// The slot and offset at which it begins.
    pub(super) from: (usize, usize),
    /// The slot and offset at which it ends.
    pub(super) to: (usize, usize),
}

impl MessagePiece<'_> {
    /// The position at a slot and an offset of the message.
    pub(super) const fn position(&self, (slot, offset): (usize, usize)) -> Position {
        Position {
            message: self.index,
            slot,
            offset,
        }
    }
}

impl View<'_> {
    /// The page that begins or ends at the cursor's position.
    pub(in crate::library) fn page(&self, cursor: Cursor, limits: PageLimits) -> Page {
        let pieces = match cursor.direction {
            Direction::Forward => self.fill_forward(cursor.position, limits),
            Direction::Backward => self.fill_backward(cursor.position, limits),
        };
        let end = match pieces.last() {
            Some(piece) => self.at_or_after(piece, piece.to),
            None => cursor.position,
        };
        let start = pieces.first().map(|piece| piece.position(piece.from));
        let start = start.unwrap_or(cursor.position);
        let is_first = |m: usize| self.list.first().is_none_or(|first| m <= *first);
        let at_start = start.is_between() && is_first(start.message);
        let at_end = end.is_between() && self.list.last().is_none_or(|last| end.message > *last);
        Page {
            previous: (!at_start).then(|| self.cursor(Direction::Backward, start)),
            next: (!at_end).then(|| self.cursor(Direction::Forward, end)),
            notices: notices(&pieces),
            messages: pieces
                .iter()
                .map(|piece| show_message(self, piece))
                .collect(),
        }
    }

    /// The shown form of one complete message.
    pub(in crate::library) fn complete_message(&self, index: usize) -> Option<ShownMessage> {
        let layout = self.layout(index)?;
        let to = (layout.slots.len(), 0);
        let piece = MessagePiece {
            index,
            layout,
            from: (0, 0),
            to,
        };
        Some(show_message(self, &piece))
    }

    pub(super) fn cursor(&self, direction: Direction, position: Position) -> String {
        let cursor = Cursor {
            direction,
            position,
        };
        cursor.write(self.conversation, self.options.mask, self.paged)
    }

    fn layout(&self, index: usize) -> Option<MessageLayout<'_>> {
        let message = self.conversation.messages.get(index)?;
        let only_pruned = index >= self.pruned_from;
        Some(MessageLayout::new(message, &self.options, only_pruned))
    }

    /// The position at a slot and an offset of a piece's message. After the last slot, it is the position before the
    /// next message of the list.
    pub(super) fn at_or_after(&self, piece: &MessagePiece<'_>, at: (usize, usize)) -> Position {
        match at.0 < piece.layout.slots.len() {
            true => piece.position(at),
            false => self.after_message(piece.index),
        }
    }

    /// The position before the first message of the list that follows the message `index`.
    pub(super) fn after_message(&self, index: usize) -> Position {
        let next = self.list.partition_point(|m| *m <= index);
        let total = self.conversation.messages.len();
        Position::before(self.list.get(next).copied().unwrap_or(total))
    }

    /// Collects the pieces of a page that begins at `position`.
    fn fill_forward(&self, position: Position, limits: PageLimits) -> Vec<MessagePiece<'_>> {
        let (mut pieces, mut left) = (Vec::new(), limits.chars);
        let start = self.list.partition_point(|m| *m < position.message);
        for &index in self.list.get(start..).unwrap_or_default() {
            let Some(layout) = self
                .layout(index)
                .filter(|_| pieces.len() < limits.messages)
            else {
                break;
            };
            let from = if index == position.message {
                (position.slot, position.offset)
            } else {
                (0, 0)
            };
            let remaining = layout.chars() - layout.chars_before(from);
            let to = (layout.slots.len(), 0);
            if from.0 >= to.0 {
                continue;
            }
            let piece = MessagePiece {
                index,
                layout,
                from,
                to,
            };
            let cut_range =
                |layout: &MessageLayout<'_>, left| (from, range_forward(layout, from, left));
            if !add_piece(&mut pieces, piece, remaining, &mut left, cut_range) {
                break;
            }
        }
        pieces
    }

    /// Collects the pieces of a page that ends at `position`, oldest first.
    fn fill_backward(&self, position: Position, limits: PageLimits) -> Vec<MessagePiece<'_>> {
        let (mut pieces, mut left) = (Vec::new(), limits.chars);
        // A position inside a message includes the beginning of that message.
        let included = usize::from(!position.is_between());
        let end = self
            .list
            .partition_point(|m| *m < position.message + included);
        for &index in self.list.get(..end).unwrap_or_default().iter().rev() {
            let Some(layout) = self
                .layout(index)
                .filter(|_| pieces.len() < limits.messages)
            else {
                break;
            };
            let end_of_message = (layout.slots.len(), 0);
            let to = if index == position.message {
                (position.slot, position.offset).min(end_of_message)
            } else {
                end_of_message
            };
            let remaining = layout.chars_before(to);
            let piece = MessagePiece {
                index,
                layout,
                from: (0, 0),
                to,
            };
            let cut_range =
                |layout: &MessageLayout<'_>, left| (range_backward(layout, to, left), to);
            if !add_piece(&mut pieces, piece, remaining, &mut left, cut_range) {
                break;
            }
        }
        pieces.reverse();
        pieces
    }
}

/// The start and the end of a range in a message, each as slot and offset.
type PieceRange = ((usize, usize), (usize, usize));

/// Adds `piece`, which has `length` characters, to a page with room for `left` characters. If the piece is too large,
/// it moves to the next page; but if the page is still empty, the range of the piece that `cut_range` returns is added.
/// Returns whether the page may continue.
fn add_piece<'a>(
    pieces: &mut Vec<MessagePiece<'a>>,
    piece: MessagePiece<'a>,
    length: usize,
    left: &mut usize,
    cut_range: impl FnOnce(&MessageLayout<'a>, usize) -> PieceRange,
) -> bool {
    let is_first = pieces.is_empty();
    let fits = length.max(MIN_MESSAGE_CHARS) <= *left || (is_first && length <= *left);
    if fits {
        *left -= length.max(MIN_MESSAGE_CHARS).min(*left);
        pieces.push(piece);
    } else if is_first {
        let (from, to) = cut_range(&piece.layout, *left);
        pieces.push(MessagePiece { from, to, ..piece });
    }
    fits
}

/// The end of a page that begins at `from`, in a message that is too large for the page.
fn range_forward(
    layout: &MessageLayout<'_>,
    from: (usize, usize),
    budget: usize,
) -> (usize, usize) {
    let (mut at, mut left) = (from, budget);
    while let Some(slot) = layout.slots.get(at.0) {
        let rest = slot.chars.saturating_sub(at.1);
        if rest > left {
            // A part that is larger than a page is cut; a smaller one moves to the next page.
            return if left == budget {
                (at.0, at.1 + left)
            } else {
                at
            };
        }
        left -= rest;
        at = (at.0 + 1, 0);
    }
    at
}

/// The start of a page that ends at `to`, in a message that is too large for the page.
fn range_backward(layout: &MessageLayout<'_>, to: (usize, usize), budget: usize) -> (usize, usize) {
    let (mut at, mut left) = (to, budget);
    loop {
        let rest = layout
            .slots
            .get(at.0)
            .map_or(0, |slot| at.1.min(slot.chars));
        if rest > left {
            return if left == budget {
                (at.0, rest - left)
            } else {
                at
            };
        }
        left -= rest;
        at.1 = 0;
        let Some(before) = at.0.checked_sub(1) else {
            return at;
        };
        let slot_chars = layout.slots.get(before).map_or(0, |slot| slot.chars);
        if slot_chars > left && left < budget {
            return at;
        }
        at = (before, slot_chars);
    }
}

/// Notices about what the page leaves out and what was masked.
fn notices(pieces: &[MessagePiece<'_>]) -> Vec<String> {
    // The counts in `hidden` are those of reasoning, of injected texts, and of tool outputs.
    let (mut masked, mut hidden) = (0, [0_u64; 3]);
    for piece in pieces {
        let slots = piece.layout.slots.iter().enumerate();
        let (first, last) = (piece.from.0, piece.to);
        for (at, slot) in slots.skip(first) {
            if at > last.0 || (at == last.0 && last.1 == 0) {
                break;
            }
            masked += slot.masked;
            match slot.hidden {
                Some(Hidden::Reasoning) => hidden[0] += 1,
                Some(Hidden::Synthetic) => hidden[1] += 1,
                Some(Hidden::Output) => hidden[2] += 1,
                Some(Hidden::Other) | None => {}
            }
        }
    }
    let mut notices = Vec::new();
    let mut report = |count: u64, what: &str| {
        if count > 0 {
            notices.push(format!("{what} on this page: {count}"));
        }
    };
    report(masked, "masked credentials");
    report(hidden[0], "parts of reasoning left out");
    report(hidden[1], "texts injected by the program left out");
    report(hidden[2], "outputs of tools left out");
    notices
}
