//! The compiled query: determines which of its terms a text contains.
//!
//! Words and phrases are searched for in folded text, regular expressions in the text as written.

use std::ops::Range;

use filrouge_engine::credentials;
use filrouge_store::text_index::{fold, unfolded_range};

use crate::condition::{Attribute, Condition, Speaker};
use crate::cutting;
use crate::expression::Stopped;
use crate::fields::Field;
use crate::query::{Query, Wrong};
use crate::search_document::{Piece, SearchDocument};
use crate::term::{Compiled, Folding, Sought};
use crate::view::View;

/// The terms of a query, compiled. A set of terms is a number with one bit per term, in the order of the query.
pub(crate) struct Matcher<'s> {
    terms: Vec<Compiled>,
    /// The terms that a message must contain, as bits.
    pub(crate) wanted: u64,
    /// The terms that a message must not contain, as bits.
    excluded_bits: u64,
    /// The tools that filters name. With `false`, wanted terms are searched for only in calls of this tool; with
    /// `true`, only outside of its calls.
    tools: Vec<(Box<str>, bool)>,
    /// One element for each filter `role:tool`. With `false`, wanted terms are searched for only in results of tools;
    /// with `true`, only outside of results.
    results: Vec<bool>,
    /// Whether [`Compiled::is_in_whole`] is true of all terms.
    in_whole: bool,
    /// Whether text that has the form of a credential is not searched, because results mask it.
    mask: bool,
    /// Once this returns true, matches may be missed without an error; callers must therefore check it themselves.
    stopped: Stopped<'s>,
}

impl<'s> Matcher<'s> {
    /// Compiles the terms of a query. Fails for an invalid regular expression.
    pub(crate) fn new(
        query: &Query,
        conditions: &[Condition],
        mask: bool,
        stopped: Stopped<'s>,
    ) -> Result<Self, Wrong> {
        let (mut wanted, mut excluded_bits) = (0, 0);
        for (bit, term) in query.terms.iter().enumerate() {
            let bits = if term.excluded {
                &mut excluded_bits
            } else {
                &mut wanted
            };
            *bits |= 1 << bit;
        }
        let tools = conditions.iter().filter_map(|one| match &one.what {
            Attribute::Tool(name) => Some((name.as_str().into(), one.excluded)),
            _ => None,
        });
        let results = conditions.iter().filter_map(|one| {
            matches!(one.what, Attribute::Role(Speaker::Tool)).then_some(one.excluded)
        });
        let terms = query.terms.iter().map(Compiled::of);
        let terms: Vec<Compiled> = terms.collect::<Result<_, _>>()?;
        Ok(Self {
            in_whole: terms.iter().all(Compiled::is_in_whole),
            terms,
            wanted,
            excluded_bits,
            tools: tools.collect(),
            results: results.collect(),
            mask,
            stopped,
        })
    }

    /// Returns the index terms of the wanted terms, each as a list of literals. [`SearchDocument::folded`] of every
    /// document that contains all wanted terms contains at least one literal of each list.
    pub(crate) fn literals(&self) -> Vec<Vec<String>> {
        let bits = self.terms.iter().enumerate();
        let wanted = bits.filter(|(bit, _)| self.wanted >> bit & 1 == 1);
        wanted.flat_map(|(_, term)| term.literals.clone()).collect()
    }

    /// Whether the query excludes a term.
    pub(crate) const fn excludes_terms(&self) -> bool {
        self.excluded_bits != 0
    }

    /// Whether a message that contains exactly these terms matches.
    pub(crate) const fn accepts(&self, bits: u64) -> bool {
        bits & self.wanted == self.wanted && bits & self.excluded_bits == 0
    }

    /// Returns those of the terms `sought` that a text contains: as written or, if `field` is JSON, with its escapes
    /// resolved.
    pub(crate) fn terms_in_text(&self, field: Field, text: &Folding<'_>, sought: u64) -> u64 {
        let sought = sought & (self.wanted | self.excluded_bits);
        let found = self.terms_in_version(text, text.text, None, sought);
        let left = sought & !found;
        if left == 0 || !field.is_json() {
            return found;
        }
        match View::of(text.text) {
            Some(view) => {
                let read = Folding::of(&view.text);
                found | self.terms_in_version(&read, text.text, Some(&view), left)
            }
            None => found,
        }
    }

    /// Returns those of the terms `sought` that `text` contains outside of credentials. `text` is the text as written
    /// or, with `view`, the text with its escapes resolved; `written` is always the text as written.
    fn terms_in_version(
        &self,
        text: &Folding<'_>,
        written: &str,
        view: Option<&View>,
        sought: u64,
    ) -> u64 {
        let sought = self.may_contain(text, sought);
        if sought == 0 {
            return 0;
        }
        let hidden = self.hidden(written, view);
        match hidden.is_empty() {
            true if self.in_whole => sought,
            true => self.holds(text, sought),
            false => visible_pieces(text.text, &hidden).fold(0, |found, (_, piece)| {
                found | self.holds(&Folding::of(piece), sought & !found)
            }),
        }
    }

    /// Returns those of the terms `sought` that the pieces of a text between its credentials may contain. It searches
    /// the complete text, so that most texts are excluded before credentials are located.
    pub(crate) fn may_contain(&self, text: &Folding<'_>, sought: u64) -> u64 {
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

    /// Returns the range of the first match of a term in a text, outside of hidden ranges. The range is extended to
    /// whole characters with their marks. `term` is the position of the term's bit.
    pub(crate) fn first_match(
        &self,
        term: u32,
        text: &Folding<'_>,
        hidden: &[Range<usize>],
    ) -> Option<Range<usize>> {
        let term = self.terms.get(usize::try_from(term).ok()?)?;
        let found = |piece: &Folding<'_>| match &term.sought {
            sought @ Sought::Regex(_) => sought.find(piece.text, self.stopped),
            sought => Some(unfolded_range(
                piece.text,
                sought.find(piece.folded(), self.stopped)?,
            )),
        };
        if hidden.is_empty() {
            return found(text);
        }
        visible_pieces(text.text, hidden).find_map(|(start, piece)| {
            let found = found(&Folding::of(piece))?;
            Some(start + found.start..start + found.end)
        })
    }

    /// Returns the ranges of credentials in a text as written or, with `view`, in the text with its escapes resolved.
    /// Returns none if credentials are not masked.
    pub(crate) fn hidden(&self, written: &str, view: Option<&View>) -> Vec<Range<usize>> {
        if !self.mask {
            return Vec::new();
        }
        let Some(view) = view else {
            return credentials(written);
        };
        let mut hidden = credentials(&view.text);
        let there = credentials(written).into_iter();
        hidden.extend(there.map(|r| view.view_position(r.start)..view.view_position(r.end)));
        cutting::joined(hidden)
    }

    /// Whether wanted terms are searched for in a text of this kind. `tool` is the tool whose call contains the text,
    /// if any.
    pub(crate) fn counts_in(&self, field: Field, tool: Option<&str>) -> bool {
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

    /// Like [`Matcher::terms_in_piece`], for a caller that also uses the folded form of the piece's text: `text`.
    pub(crate) fn terms_in_folded(
        &self,
        piece: &Piece<'_>,
        text: &Folding<'_>,
        sought: u64,
    ) -> u64 {
        let searched = if self.counts_in(piece.field, piece.tool.as_deref()) {
            self.wanted | self.excluded_bits
        } else {
            self.excluded_bits
        };
        self.terms_in_text(piece.field, text, sought & searched)
    }

    /// Returns those of the terms `sought` that a piece contains. Wanted terms count only if they are searched for in
    /// this piece: see [`Matcher::counts_in`].
    pub(crate) fn terms_in_piece(&self, piece: &Piece<'_>, sought: u64) -> u64 {
        self.terms_in_folded(piece, &Folding::of(&piece.text), sought)
    }

    /// Returns which of `terms` a message contains outside of credentials, one bit each. Each of `terms` is a list of
    /// alternative folded words.
    pub(crate) fn visible_words(&self, terms: &[Vec<String>], doc: &SearchDocument<'_>) -> u64 {
        let mut found = 0;
        for piece in &doc.pieces {
            let view = View::of(&piece.text).filter(|_| piece.field.is_json());
            for view in std::iter::once(None).chain(view.as_ref().map(Some)) {
                let text = view.map_or(&*piece.text, |view| &view.text);
                for (_, visible) in visible_pieces(text, &self.hidden(&piece.text, view)) {
                    let folded = fold(visible);
                    for (bit, words) in terms.iter().enumerate() {
                        let is_in = words.iter().any(|word| folded.contains(word.as_str()));
                        found |= u64::from(is_in) << bit;
                    }
                }
            }
        }
        found
    }

    /// Whether a message contains no excluded term.
    pub(crate) fn has_no_excluded_term(&self, doc: &SearchDocument<'_>) -> bool {
        let mut pieces = doc.pieces.iter();
        !self.excludes_terms()
            || pieces.all(|piece| self.terms_in_piece(piece, self.excluded_bits) == 0)
    }

    /// Whether wanted terms are searched for in any text of a message or a title.
    pub(crate) fn counts_anywhere(&self, doc: &SearchDocument<'_>) -> bool {
        let mut pieces = doc.pieces.iter();
        let looked_in = pieces.any(|piece| self.counts_in(piece.field, piece.tool.as_deref()));
        looked_in || doc.pieces.is_empty() && self.counts_in(Field::Text, None)
    }

    /// Whether the query distinguishes texts by their tools.
    pub(crate) fn depends_on_calls(&self) -> bool {
        !self.tools.is_empty() || !self.results.is_empty()
    }

    /// Whether a message or a title matches.
    pub(crate) fn is_in(&self, doc: &SearchDocument<'_>) -> bool {
        self.counts_anywhere(doc) && self.accepts(self.terms_in_document(doc))
    }

    /// Returns the terms that a message or a title contains. Wanted terms count only in pieces in which they are
    /// searched for.
    fn terms_in_document(&self, doc: &SearchDocument<'_>) -> u64 {
        doc.pieces
            .iter()
            .fold(0, |found, piece| found | self.terms_in_piece(piece, !found))
    }
}

/// Returns the pieces of a text between hidden ranges, each with its start. The pieces are searched separately, so that
/// no result depends on hidden text: a query for the beginning of a key must reveal nothing.
pub(crate) fn visible_pieces<'t>(
    text: &'t str,
    hidden: &[Range<usize>],
) -> impl Iterator<Item = (usize, &'t str)> {
    let starts = std::iter::once(0).chain(hidden.iter().map(|one| one.end));
    let ends = hidden.iter().map(|one| one.start).chain([text.len()]);
    let pieces = starts.zip(ends);
    pieces.filter_map(|(start, end)| Some((start, text.get(start..end)?)))
}
