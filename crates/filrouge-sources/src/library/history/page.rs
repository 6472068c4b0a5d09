//! One page: as many whole messages as the budget takes; of one that alone is larger, as many whole parts; of such a part,
//! as many characters.

use super::cursor::{Cursor, Paged, Place, Way};
use super::lay::{Hidden, Laid, Shows};
use super::shape::{Marks, shown};
use super::{MAX_CHARS, ShownMessage};
use crate::Conversation;

/// What a message counts at least, so that messages without text do not make a page without end.
const LEAST: usize = 40;

/// How much is on a page.
#[derive(Debug, Clone, Copy)]
pub(in crate::library) struct Bounds {
    chars: usize,
    messages: usize,
}

impl Bounds {
    /// 0 stands for the default.
    pub(in crate::library) const fn new(chars: usize, messages: usize) -> Self {
        Self {
            chars: if chars == 0 { MAX_CHARS } else { chars },
            messages: if messages == 0 { usize::MAX } else { messages },
        }
    }

    pub(in crate::library) const fn chars(self) -> usize {
        self.chars
    }

    /// With less room for text, but always some.
    pub(in crate::library) const fn without(self, used: usize) -> Self {
        let left = self.chars.saturating_sub(used);
        Self {
            chars: if left == 0 { 1 } else { left },
            ..self
        }
    }
}

/// The messages that are paged through.
pub(in crate::library) struct View<'a> {
    pub(in crate::library) conversation: &'a Conversation,
    /// Their indexes, ascending.
    pub(in crate::library) list: Vec<usize>,
    /// Of messages from this index on, only tool calls whose outputs were pruned.
    pub(in crate::library) pruned_from: usize,
    pub(in crate::library) shows: Shows,
    /// What its cursors are of.
    pub(in crate::library) paged: Paged,
}

/// A page, oldest message first.
#[derive(Default)]
pub(in crate::library) struct Page {
    pub(in crate::library) messages: Vec<ShownMessage>,
    pub(in crate::library) previous: Option<String>,
    pub(in crate::library) next: Option<String>,
    pub(in crate::library) notices: Vec<String>,
}

/// A message, or a stretch of one.
pub(super) struct Piece<'a> {
    pub(super) index: usize,
    pub(super) laid: Laid<'a>,
    /// Slot and offset.
    pub(super) from: (usize, usize),
    pub(super) to: (usize, usize),
}

impl View<'_> {
    /// The page that begins at the cursor's place, or ends there.
    pub(in crate::library) fn page(&self, cursor: Cursor, bounds: Bounds) -> Page {
        let pieces = match cursor.way {
            Way::On => self.fill_on(cursor.place, bounds),
            Way::Back => self.fill_back(cursor.place, bounds),
        };
        let end = match pieces.last() {
            Some(piece) => self.behind(piece),
            None => cursor.place,
        };
        let start = pieces.first().map_or(cursor.place, |piece| Place {
            message: piece.index,
            slot: piece.from.0,
            offset: piece.from.1,
        });
        let is_first = |m: usize| self.list.first().is_none_or(|first| m <= *first);
        let at_start = start.is_between() && is_first(start.message);
        let at_end = end.is_between() && self.list.last().is_none_or(|last| end.message > *last);
        Page {
            previous: (!at_start).then(|| self.cursor(Way::Back, start)),
            next: (!at_end).then(|| self.cursor(Way::On, end)),
            notices: notices(&pieces),
            messages: pieces.iter().map(|piece| self.shown(piece)).collect(),
        }
    }

    /// Shows one message whole.
    pub(in crate::library) fn whole(&self, index: usize) -> Option<ShownMessage> {
        let laid = self.lay(index)?;
        let to = (laid.slots.len(), 0);
        Some(self.shown(&Piece {
            index,
            laid,
            from: (0, 0),
            to,
        }))
    }

    pub(super) fn cursor(&self, way: Way, place: Place) -> String {
        let cursor = Cursor { way, place };
        cursor.write(self.conversation, self.shows.mask, self.paged)
    }

    fn shown(&self, piece: &Piece<'_>) -> ShownMessage {
        let boundaries = &self.conversation.boundaries;
        let reverted = self.conversation.reverted_at;
        let marks = Marks {
            compacted: boundaries.iter().any(|b| piece.index < b.at),
            boundary: boundaries.iter().any(|b| piece.index == b.at),
            reverted: reverted.is_some_and(|at| piece.index >= at),
        };
        shown(self, piece, marks)
    }

    fn lay(&self, index: usize) -> Option<Laid<'_>> {
        let message = self.conversation.messages.get(index)?;
        let only_pruned = index >= self.pruned_from;
        Some(Laid::of(message, &self.shows, only_pruned))
    }

    /// The place behind a piece: within its message, or before the next one of the list.
    pub(super) fn behind(&self, piece: &Piece<'_>) -> Place {
        if piece.to.0 < piece.laid.slots.len() {
            return Place {
                message: piece.index,
                slot: piece.to.0,
                offset: piece.to.1,
            };
        }
        self.behind_message(piece.index)
    }

    /// The place before the next message of the list.
    pub(super) fn behind_message(&self, index: usize) -> Place {
        let next = self.list.partition_point(|m| *m <= index);
        let all = self.conversation.messages.len();
        Place::before(self.list.get(next).copied().unwrap_or(all))
    }

    fn fill_on(&self, place: Place, bounds: Bounds) -> Vec<Piece<'_>> {
        let (mut pieces, mut left) = (Vec::new(), bounds.chars);
        let start = self.list.partition_point(|m| *m < place.message);
        for &index in self.list.get(start..).unwrap_or_default() {
            let Some(laid) = self.lay(index).filter(|_| pieces.len() < bounds.messages) else {
                break;
            };
            let from = if index == place.message {
                (place.slot, place.offset)
            } else {
                (0, 0)
            };
            let rest = laid.chars() - laid.chars_before(from.0, from.1);
            let to = (laid.slots.len(), 0);
            if from.0 >= to.0 {
                continue;
            }
            let whole = Piece {
                index,
                laid,
                from,
                to,
            };
            let cut = |laid: &Laid<'_>, left| (from, stretch_on(laid, from, left));
            if !take(&mut pieces, whole, rest, &mut left, cut) {
                break;
            }
        }
        pieces
    }

    fn fill_back(&self, place: Place, bounds: Bounds) -> Vec<Piece<'_>> {
        let (mut pieces, mut left) = (Vec::new(), bounds.chars);
        let within = usize::from(!place.is_between());
        let end = self.list.partition_point(|m| *m < place.message + within);
        for &index in self.list.get(..end).unwrap_or_default().iter().rev() {
            let Some(laid) = self.lay(index).filter(|_| pieces.len() < bounds.messages) else {
                break;
            };
            let all = (laid.slots.len(), 0);
            let to = if index == place.message {
                (place.slot, place.offset).min(all)
            } else {
                all
            };
            let rest = laid.chars_before(to.0, to.1);
            let whole = Piece {
                index,
                laid,
                from: (0, 0),
                to,
            };
            let cut = |laid: &Laid<'_>, left| (stretch_back(laid, to, left), to);
            if !take(&mut pieces, whole, rest, &mut left, cut) {
                break;
            }
        }
        pieces.reverse();
        pieces
    }
}

/// Where a stretch of a message begins and ends.
type Stretch = ((usize, usize), (usize, usize));

/// Puts `whole`, of `rest` characters, on a page that has room for `left` more; where it is the first and too large,
/// the stretch of it that `cut` makes. Whether the page may go on behind it.
fn take<'a>(
    pieces: &mut Vec<Piece<'a>>,
    whole: Piece<'a>,
    rest: usize,
    left: &mut usize,
    cut: impl FnOnce(&Laid<'a>, usize) -> Stretch,
) -> bool {
    let is_first = pieces.is_empty();
    let fits = rest.max(LEAST) <= *left || (is_first && rest <= *left);
    if fits {
        *left -= rest.max(LEAST).min(*left);
        pieces.push(whole);
    } else if is_first {
        let (from, to) = cut(&whole.laid, *left);
        pieces.push(Piece { from, to, ..whole });
    }
    fits
}

/// Where a page ends that begins at `from` within a message too large for it.
fn stretch_on(laid: &Laid<'_>, from: (usize, usize), budget: usize) -> (usize, usize) {
    let (mut at, mut left) = (from, budget);
    while let Some(slot) = laid.slots.get(at.0) {
        let rest = slot.chars.saturating_sub(at.1);
        if rest > left {
            // A part that is larger than a whole page is cut; another one waits for the next page.
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

/// Where a page begins that ends at `to` within a message too large for it.
fn stretch_back(laid: &Laid<'_>, to: (usize, usize), budget: usize) -> (usize, usize) {
    let (mut at, mut left) = (to, budget);
    loop {
        let rest = laid.slots.get(at.0).map_or(0, |slot| at.1.min(slot.chars));
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
        let all = laid.slots.get(before).map_or(0, |slot| slot.chars);
        if all > left && left < budget {
            return at;
        }
        at = (before, all);
    }
}

/// What pieces leave out, and what was masked.
fn notices(pieces: &[Piece<'_>]) -> Vec<String> {
    let (mut masked, mut hidden) = (0, [0_u64; 3]);
    for piece in pieces {
        let slots = piece.laid.slots.iter().enumerate();
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
    let mut tell = |count: u64, what: &str| {
        if count > 0 {
            notices.push(format!("{what} on this page: {count}"));
        }
    };
    tell(masked, "masked credentials");
    tell(hidden[0], "parts of reasoning left out");
    tell(hidden[1], "texts put in by the program left out");
    tell(hidden[2], "outputs of tools left out");
    notices
}
