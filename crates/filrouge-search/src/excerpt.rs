//! A hit with what stands around it.

use std::ops::Range;

use filrouge_sources::library::clean;

use crate::answer::{Claim, Excerpt};
use crate::cutting;
use crate::fields::Field;
use crate::matcher::Matcher;
use crate::spoken::{Piece, Spoken};
use crate::term::Folding;
use crate::view::View;

/// Makes excerpts.
pub(crate) struct Cutter<'a> {
    pub(crate) matcher: &'a Matcher<'a>,
    /// Whether credentials are masked.
    pub(crate) mask: bool,
    /// Whether texts are the ledger's.
    pub(crate) is_ledger: bool,
}

/// A text of a message, or of a title.
struct Place<'m> {
    session: &'m str,
    spoken: &'m Spoken<'m>,
    piece: Option<&'m Piece<'m>>,
}

impl Cutter<'_> {
    /// Excerpts of a message or a title: every term once, several together where they stand side by side. Where nothing
    /// was looked for but filters, the beginning of a message.
    pub(crate) fn of(&self, session: &str, spoken: &Spoken<'_>) -> Vec<Excerpt> {
        let looks_in = |p: &&Piece<'_>| self.matcher.looks_in(p.field, p.tool.as_deref());
        let mut pieces = spoken.pieces.iter().filter(looks_in);
        let place = |piece| Place {
            session,
            spoken,
            piece,
        };
        let (mut left, mut excerpts) = (self.matcher.wanted, Vec::new());
        if left == 0 {
            let first = pieces.find(|piece| !piece.text.trim().is_empty());
            return vec![self.beginning(&place(first))];
        }
        for piece in pieces {
            let cuts = self.of_piece(piece, &mut left).into_iter();
            excerpts.extend(cuts.map(|cut| self.excerpt(&place(Some(piece)), cut)));
            if left == 0 {
                break;
            }
        }
        excerpts
    }

    /// Excerpts of a message that was found by its meaning: of the terms that it holds, or what it begins with.
    pub(crate) fn near(&self, session: &str, spoken: &Spoken<'_>) -> Vec<Excerpt> {
        let held = match self.matcher.wanted {
            0 => Vec::new(),
            _ => self.of(session, spoken),
        };
        if held.is_empty() {
            return vec![self.said(session, spoken)];
        }
        held
    }

    /// The beginning of what a message says; where it says nothing, of whatever is in it.
    pub(crate) fn said(&self, session: &str, spoken: &Spoken<'_>) -> Excerpt {
        let some = |piece: &&Piece<'_>| !piece.text.trim().is_empty();
        let mut said = spoken.pieces.iter().filter(some);
        let said = said.find(|piece| piece.field == Field::Text);
        self.beginning(&Place {
            session,
            spoken,
            piece: said.or_else(|| spoken.pieces.iter().find(some)),
        })
    }

    fn beginning(&self, place: &Place<'_>) -> Excerpt {
        let text = place.piece.map_or("", |piece| &piece.text);
        let cut = cutting::beginning(text, &self.matcher.hidden(text, None));
        self.excerpt(place, (0, cut))
    }

    /// Cuttings of one text, each with its offset in characters: of every term in `left` that it holds. Those are
    /// taken out of `left`.
    fn of_piece(&self, piece: &Piece<'_>, left: &mut u64) -> Vec<(usize, String)> {
        let mut cuts = self.cut(&piece.text, None, left);
        let view = View::of(&piece.text).filter(|_| *left != 0 && piece.field.is_json());
        if let Some(view) = view {
            cuts.extend(self.cut(&piece.text, Some(&view), left));
        }
        cuts
    }

    /// Cuttings of a text as it is written, or as it reads.
    fn cut(&self, written: &str, view: Option<&View>, left: &mut u64) -> Vec<(usize, String)> {
        let text = Folding::of(view.map_or(written, |view| &view.text));
        let may = self.matcher.may_hold(&text, *left);
        if may == 0 {
            return Vec::new();
        }
        let sought = (0..u64::BITS).filter(|bit| may >> bit & 1 == 1);
        let hidden = self.matcher.hidden(written, view);
        let hits = sought.filter_map(|bit| Some((self.matcher.place(bit, &text, &hidden)?, bit)));
        let mut hits: Vec<(Range<usize>, u32)> = hits.collect();
        hits.sort_by_key(|(hit, _)| hit.start);
        let (mut cuts, mut shown) = (Vec::new(), 0);
        for (hit, bit) in hits {
            *left &= !(1 << bit);
            if shown > 0 && hit.end <= shown {
                continue;
            }
            let start = view.map_or(hit.start, |view| view.written(hit.start));
            let before = written.get(..start).unwrap_or_default();
            let (cut, end) = cutting::around(text.text, hit, &hidden);
            cuts.push((before.chars().count(), cut));
            shown = end;
        }
        cuts
    }

    fn excerpt(&self, place: &Place<'_>, (offset, text): (usize, String)) -> Excerpt {
        let (spoken, piece) = (place.spoken, place.piece);
        let is_message = spoken.role.is_some();
        let tool = piece.and_then(|piece| piece.tool.as_deref());
        let begun = piece.and_then(|piece| piece.at);
        let seq = piece.and_then(|piece| piece.seq).or(spoken.seq);
        Excerpt {
            message_id: is_message.then(|| spoken.id.to_string()),
            part_id: piece.and_then(|piece| piece.part.as_deref().map(str::to_owned)),
            place: if is_message {
                format!("{}:{}", place.session, spoken.id)
            } else {
                place.session.to_owned()
            },
            field: piece.map_or(Field::Text, |p| p.field).as_str().to_owned(),
            role: spoken.role,
            tool: clean::some(tool, self.mask),
            created: begun.or(is_message.then_some(spoken.created)),
            seq: seq.filter(|_| self.is_ledger),
            offset,
            text,
            claim: self.is_ledger.then(|| Claim {
                message: spoken.seq,
                print: spoken.print(piece),
            }),
        }
    }
}
