//! What is looked for, made ready to look: which terms a text holds.
//!
//! Words and phrases are looked for in folded text, regular expressions in the text as it stands.

use std::ops::Range;

use filrouge_engine::credentials;
use filrouge_store::text_index::{fold, place};

use crate::condition::{Condition, Speaker, What};
use crate::cutting;
use crate::expression::Stopped;
use crate::fields::Field;
use crate::query::{Query, Wrong};
use crate::spoken::{Piece, Spoken};
use crate::term::{Compiled, Folding, Sought};
use crate::view::View;

/// All terms of a query.
pub(crate) struct Matcher<'s> {
    terms: Vec<Compiled>,
    /// The bits of terms that a message must hold.
    pub(crate) wanted: u64,
    /// The bits of those it must not.
    refused: u64,
    /// Only calls of this tool can hold what is wanted; or, where the second says so, only what is none.
    tools: Vec<(Box<str>, bool)>,
    /// Only what tools gave can hold what is wanted; or, where it says so, only what they did not give.
    results: Vec<bool>,
    /// Whether what pieces of a text hold the text holds: [`Compiled::is_in_whole`].
    in_whole: bool,
    /// Whether nothing is found in what has the form of a credential.
    mask: bool,
    /// Nothing more is found once it says so: whoever asks has to ask it, too.
    stopped: Stopped<'s>,
}

impl<'s> Matcher<'s> {
    pub(crate) fn new(
        query: &Query,
        conditions: &[Condition],
        mask: bool,
        stopped: Stopped<'s>,
    ) -> Result<Self, Wrong> {
        let (mut wanted, mut refused) = (0, 0);
        for (bit, term) in query.terms.iter().enumerate() {
            let mask = if term.excluded {
                &mut refused
            } else {
                &mut wanted
            };
            *mask |= 1 << bit;
        }
        let tools = conditions.iter().filter_map(|one| match &one.what {
            What::Tool(name) => Some((name.as_str().into(), one.excluded)),
            _ => None,
        });
        let results = conditions.iter().filter_map(|one| {
            matches!(one.what, What::Role(Speaker::Tool)).then_some(one.excluded)
        });
        let terms = query.terms.iter().map(Compiled::of);
        let terms: Vec<Compiled> = terms.collect::<Result<_, _>>()?;
        Ok(Self {
            in_whole: terms.iter().all(Compiled::is_in_whole),
            terms,
            wanted,
            refused,
            tools: tools.collect(),
            results: results.collect(),
            mask,
            stopped,
        })
    }

    /// What [`Spoken::folded`] of whatever holds all wanted terms meets: each by one of its literals.
    pub(crate) fn literals(&self) -> Vec<Vec<String>> {
        let bits = self.terms.iter().enumerate();
        let wanted = bits.filter(|(bit, _)| self.wanted >> bit & 1 == 1);
        wanted.flat_map(|(_, term)| term.literals.clone()).collect()
    }

    /// Whether a message must not hold some term.
    pub(crate) const fn refuses(&self) -> bool {
        self.refused != 0
    }

    /// Whether a message with these terms is one that is looked for.
    pub(crate) const fn accepts(&self, bits: u64) -> bool {
        bits & self.wanted == self.wanted && bits & self.refused == 0
    }

    /// Which of the terms in `sought` a text holds.
    pub(crate) fn of_text(&self, field: Field, text: &Folding<'_>, sought: u64) -> u64 {
        let sought = sought & (self.wanted | self.refused);
        let found = self.of_one(text, text.text, None, sought);
        let left = sought & !found;
        if left == 0 || !field.is_json() {
            return found;
        }
        match View::of(text.text) {
            Some(view) => {
                let read = Folding::of(&view.text);
                found | self.of_one(&read, text.text, Some(&view), left)
            }
            None => found,
        }
    }

    /// Which of the terms in `sought` a text holds as it is written, or as it reads.
    fn of_one(&self, text: &Folding<'_>, written: &str, view: Option<&View>, sought: u64) -> u64 {
        let sought = self.may_hold(text, sought);
        if sought == 0 {
            return 0;
        }
        let hidden = self.hidden(written, view);
        match hidden.is_empty() {
            true if self.in_whole => sought,
            true => self.holds(text, sought),
            false => open(text.text, &hidden).fold(0, |found, (_, piece)| {
                found | self.holds(&Folding::of(piece), sought & !found)
            }),
        }
    }

    /// Which of the terms in `sought` may stand in pieces of a text. What stands nowhere stands in no piece: where
    /// credentials are need not be known.
    pub(crate) fn may_hold(&self, text: &Folding<'_>, sought: u64) -> u64 {
        self.which(sought, |term| term.may_be_in(text, self.stopped))
    }

    fn holds(&self, piece: &Folding<'_>, sought: u64) -> u64 {
        self.which(sought, |term| term.is_in(piece, self.stopped))
    }

    fn which(&self, sought: u64, holds: impl Fn(&Compiled) -> bool) -> u64 {
        let terms = self.terms.iter().enumerate();
        let found = terms.filter(|(bit, term)| sought >> bit & 1 == 1 && holds(term));
        found.fold(0, |found, (bit, _)| found | 1 << bit)
    }

    /// The first place in a text of a term, outside of what is hidden: whole characters with their marks.
    pub(crate) fn place(
        &self,
        term: u32,
        text: &Folding<'_>,
        hidden: &[Range<usize>],
    ) -> Option<Range<usize>> {
        let term = self.terms.get(usize::try_from(term).ok()?)?;
        let found = |piece: &Folding<'_>| match &term.sought {
            sought @ Sought::Regex(_) => sought.find(piece.text, self.stopped),
            sought => Some(place(
                piece.text,
                sought.find(piece.folded(), self.stopped)?,
            )),
        };
        if hidden.is_empty() {
            return found(text);
        }
        open(text.text, hidden).find_map(|(start, piece)| {
            let found = found(&Folding::of(piece))?;
            Some(start + found.start..start + found.end)
        })
    }

    /// Where credentials stand in a text: as it is written, or as it reads.
    pub(crate) fn hidden(&self, written: &str, view: Option<&View>) -> Vec<Range<usize>> {
        if !self.mask {
            return Vec::new();
        }
        let Some(view) = view else {
            return credentials(written);
        };
        let mut hidden = credentials(&view.text);
        let there = credentials(written).into_iter();
        hidden.extend(there.map(|r| view.here(r.start)..view.here(r.end)));
        cutting::joined(hidden)
    }

    /// Whether what is wanted may stand in a text, by the tool whose call it is of.
    pub(crate) fn looks_in(&self, field: Field, tool: Option<&str>) -> bool {
        let is_of = |name: &str| tool.is_some_and(|tool| tool.eq_ignore_ascii_case(name));
        let is_result = tool.is_some()
            && matches!(
                field,
                Field::ToolOutput | Field::ToolError | Field::ToolTitle
            );
        let mut tools = self.tools.iter();
        tools.all(|(name, excluded)| is_of(name) != *excluded)
            && self.results.iter().all(|excluded| is_result != *excluded)
    }

    /// As [`Matcher::of_piece`]; `text` is the piece's.
    pub(crate) fn of_field(&self, piece: &Piece<'_>, text: &Folding<'_>, sought: u64) -> u64 {
        let looked_for = if self.looks_in(piece.field, piece.tool.as_deref()) {
            self.wanted | self.refused
        } else {
            self.refused
        };
        self.of_text(piece.field, text, sought & looked_for)
    }

    /// Which of the terms in `sought` a piece holds; wanted ones only where they are looked for.
    pub(crate) fn of_piece(&self, piece: &Piece<'_>, sought: u64) -> u64 {
        self.of_field(piece, &Folding::of(&piece.text), sought)
    }

    /// Which of these, each folded words of which any will do, stand in a message outside of what is hidden.
    pub(crate) fn open_words(&self, terms: &[Vec<String>], spoken: &Spoken<'_>) -> u64 {
        let mut found = 0;
        for piece in &spoken.pieces {
            let view = View::of(&piece.text).filter(|_| piece.field.is_json());
            for view in std::iter::once(None).chain(view.as_ref().map(Some)) {
                let text = view.map_or(&*piece.text, |view| &view.text);
                for (_, open) in open(text, &self.hidden(&piece.text, view)) {
                    let folded = fold(open);
                    for (bit, words) in terms.iter().enumerate() {
                        let is_in = words.iter().any(|word| folded.contains(word.as_str()));
                        found |= u64::from(is_in) << bit;
                    }
                }
            }
        }
        found
    }

    /// Whether a message holds nothing that it must not.
    pub(crate) fn lets(&self, spoken: &Spoken<'_>) -> bool {
        let mut pieces = spoken.pieces.iter();
        !self.refuses() || pieces.all(|piece| self.of_piece(piece, self.refused) == 0)
    }

    /// Whether what is wanted may stand in some text of a message or a title.
    pub(crate) fn looks_into(&self, spoken: &Spoken<'_>) -> bool {
        let mut pieces = spoken.pieces.iter();
        let looked_in = pieces.any(|piece| self.looks_in(piece.field, piece.tool.as_deref()));
        looked_in || spoken.pieces.is_empty() && self.looks_in(Field::Text, None)
    }

    /// Whether texts are told apart by the tools they are of.
    pub(crate) fn looks_at_calls(&self) -> bool {
        !self.tools.is_empty() || !self.results.is_empty()
    }

    /// Whether a message or a title is one that is looked for.
    pub(crate) fn is_in(&self, spoken: &Spoken<'_>) -> bool {
        self.looks_into(spoken) && self.accepts(self.of_spoken(spoken))
    }

    /// Which terms a message or a title holds; wanted ones only where they are looked for.
    fn of_spoken(&self, spoken: &Spoken<'_>) -> u64 {
        spoken
            .pieces
            .iter()
            .fold(0, |found, piece| found | self.of_piece(piece, !found))
    }
}

/// What stands between the hidden places, each with where it begins. Each is looked through for itself, so that whether
/// something is found never depends on what is hidden: who asks for beginnings of a key must learn nothing.
pub(crate) fn open<'t>(
    text: &'t str,
    hidden: &[Range<usize>],
) -> impl Iterator<Item = (usize, &'t str)> {
    let starts = std::iter::once(0).chain(hidden.iter().map(|one| one.end));
    let ends = hidden.iter().map(|one| one.start).chain([text.len()]);
    let pieces = starts.zip(ends);
    pieces.filter_map(|(start, end)| Some((start, text.get(start..end)?)))
}
