//! The compiled query: determines which of its terms a text contains.
//!
//! Words and phrases are searched for in folded text, regular expressions in the text as written.

use std::ops::Range;

use filrouge_engine::credentials;
use filrouge_store::text_index::{fold, unfolded_range};

use crate::condition::{Attribute, Author, Condition};
use crate::cutting;
use crate::expression::Stopped;
use crate::fields::Field;
use crate::query::{InvalidQuery, Query};
use crate::search_document::{Piece, SearchDocument};
use crate::term::{CompiledTerm, FoldedText, TermFinder};
use crate::unescaped_json::UnescapedJson;

/// The terms of a query, compiled. A set of terms is a number with one bit per term, in the order of the query.
pub(crate) struct Matcher<'s> {
    terms: Vec<CompiledTerm>,
    /// The terms that a message must contain, as bits.
    pub(crate) required: u64,
    /// The terms that a message must not contain, as bits.
    excluded: u64,
    /// The tools that filters name. With `false`, required terms are searched for only in calls of this tool; with
    /// `true`, only outside of its calls.
    tools: Vec<(Box<str>, bool)>,
    /// One element for each filter `role:tool`. With `false`, required terms are searched for only in results of tools;
    /// with `true`, only outside of results.
    results: Vec<bool>,
    /// Whether [`CompiledTerm::is_context_free`] is true of all terms.
    all_context_free: bool,
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
    ) -> Result<Self, InvalidQuery> {
        let (mut required, mut excluded) = (0, 0);
        for (bit, term) in query.terms.iter().enumerate() {
            let bits = if term.excluded {
                &mut excluded
            } else {
                &mut required
            };
            *bits |= 1 << bit;
        }
        let tools = conditions.iter().filter_map(|one| match &one.attribute {
            Attribute::Tool(name) => Some((name.as_str().into(), one.excluded)),
            _ => None,
        });
        let results = conditions.iter().filter_map(|one| {
            matches!(one.attribute, Attribute::Role(Author::Tool)).then_some(one.excluded)
        });
        let terms = query.terms.iter().map(CompiledTerm::new);
        let terms: Vec<CompiledTerm> = terms.collect::<Result<_, _>>()?;
        Ok(Self {
            all_context_free: terms.iter().all(CompiledTerm::is_context_free),
            terms,
            required,
            excluded,
            tools: tools.collect(),
            results: results.collect(),
            mask,
            stopped,
        })
    }

    /// Returns the index terms of the required terms, each as a list of literals. [`SearchDocument::folded`] of every
    /// document that contains all required terms contains at least one literal of each list.
    pub(crate) fn literals(&self) -> Vec<Vec<String>> {
        let bits = self.terms.iter().enumerate();
        let required = bits.filter(|(bit, _)| self.required >> bit & 1 == 1);
        required
            .flat_map(|(_, term)| term.literals.clone())
            .collect()
    }

    /// Whether the query excludes a term.
    pub(crate) const fn excludes_terms(&self) -> bool {
        self.excluded != 0
    }

    /// Whether a message that contains exactly these terms matches.
    pub(crate) const fn accepts(&self, bits: u64) -> bool {
        bits & self.required == self.required && bits & self.excluded == 0
    }

    /// Returns those of `terms` that `text` contains outside of credentials. `text` is the text as written
    /// or, with `unescaped`, the text with its escapes resolved; `written` is always the text as written.
    fn terms_in_version(
        &self,
        text: &FoldedText<'_>,
        written: &str,
        unescaped: Option<&UnescapedJson>,
        terms: u64,
    ) -> u64 {
        let terms = self.may_contain(text, terms);
        if terms == 0 {
            return 0;
        }
        let hidden = self.hidden(written, unescaped);
        match hidden.is_empty() {
            true if self.all_context_free => terms,
            true => self.terms_in_visible_piece(text, terms),
            false => visible_pieces(text.text, &hidden).fold(0, |found, (_, piece)| {
                found | self.terms_in_visible_piece(&FoldedText::new(piece), terms & !found)
            }),
        }
    }

    /// Returns those of `terms` that the pieces of a text between its credentials may contain. It searches
    /// the complete text, so that most texts are excluded before credentials are located.
    pub(crate) fn may_contain(&self, text: &FoldedText<'_>, terms: u64) -> u64 {
        self.filter_terms(terms, |term| term.may_be_in(text, self.stopped))
    }

    fn terms_in_visible_piece(&self, piece: &FoldedText<'_>, terms: u64) -> u64 {
        self.filter_terms(terms, |term| term.is_in(piece, self.stopped))
    }

    fn filter_terms(&self, terms: u64, is_kept: impl Fn(&CompiledTerm) -> bool) -> u64 {
        let numbered = self.terms.iter().enumerate();
        let found = numbered.filter(|(bit, term)| terms >> bit & 1 == 1 && is_kept(term));
        found.fold(0, |found, (bit, _)| found | 1 << bit)
    }

    /// Returns the range of the first match of a term in a text, outside of hidden ranges. The range is extended to
    /// whole characters with their marks. `term` is the position of the term's bit.
    pub(crate) fn first_match(
        &self,
        term: u32,
        text: &FoldedText<'_>,
        hidden: &[Range<usize>],
    ) -> Option<Range<usize>> {
        let term = self.terms.get(usize::try_from(term).ok()?)?;
        let found = |piece: &FoldedText<'_>| match &term.finder {
            finder @ TermFinder::Regex(_) => finder.find(piece.text, self.stopped),
            finder => Some(unfolded_range(
                piece.text,
                finder.find(piece.folded(), self.stopped)?,
            )),
        };
        if hidden.is_empty() {
            return found(text);
        }
        visible_pieces(text.text, hidden).find_map(|(start, piece)| {
            let found = found(&FoldedText::new(piece))?;
            Some(start + found.start..start + found.end)
        })
    }

    /// Returns the ranges of credentials in a text as written or, with `unescaped`, in the text with its escapes
    /// resolved. Returns none if credentials are not masked.
    pub(crate) fn hidden(
        &self,
        written: &str,
        unescaped: Option<&UnescapedJson>,
    ) -> Vec<Range<usize>> {
        if !self.mask {
            return Vec::new();
        }
        let Some(unescaped) = unescaped else {
            return credentials(written);
        };
        let mut hidden = credentials(&unescaped.text);
        let written_ranges = credentials(written).into_iter();
        hidden.extend(
            written_ranges.map(|r| {
                unescaped.unescaped_position(r.start)..unescaped.unescaped_position(r.end)
            }),
        );
        cutting::merge_ranges(hidden)
    }

    /// Whether required terms are searched for in a text of this kind. `tool` is the tool whose call contains the text,
    /// if any.
    pub(crate) fn is_searched(&self, field: Field, tool: Option<&str>) -> bool {
        let is_tool = |name: &str| tool.is_some_and(|tool| tool.eq_ignore_ascii_case(name));
        let is_result = tool.is_some()
            && matches!(
                field,
                Field::ToolOutput | Field::ToolError | Field::ToolTitle
            );
        let mut tools = self.tools.iter();
        tools.all(|(name, excluded)| is_tool(name) != *excluded)
            && self.results.iter().all(|excluded| is_result != *excluded)
    }

    /// Like [`Matcher::terms_in_piece`], for a caller that also uses the folded form of the piece's text: `text`.
    pub(crate) fn terms_in_folded(
        &self,
        piece: &Piece<'_>,
        text: &FoldedText<'_>,
        terms: u64,
    ) -> u64 {
        let searched_terms = match self.is_searched(piece.field, piece.tool.as_deref()) {
            true => self.required | self.excluded,
            false => self.excluded,
        };
        let found = self.terms_in_version(text, text.text, None, terms & searched_terms);
        let remaining = terms & searched_terms & !found;
        if remaining == 0 || !piece.field.is_json() {
            return found;
        }
        match UnescapedJson::new(text.text) {
            Some(unescaped) => {
                let unescaped_text = FoldedText::new(&unescaped.text);
                found
                    | self.terms_in_version(&unescaped_text, text.text, Some(&unescaped), remaining)
            }
            None => found,
        }
    }

    /// Returns those of `terms` that a piece contains: as written or, if it is JSON, with its escapes
    /// resolved. Required terms count only if they are searched for in
    /// this piece: see [`Matcher::is_searched`].
    pub(crate) fn terms_in_piece(&self, piece: &Piece<'_>, terms: u64) -> u64 {
        self.terms_in_folded(piece, &FoldedText::new(&piece.text), terms)
    }

    /// Returns which of `terms` a message contains outside of credentials, one bit each. Each of `terms` is a list of
    /// alternative folded words.
    pub(crate) fn visible_words(&self, terms: &[Vec<String>], doc: &SearchDocument<'_>) -> u64 {
        let mut found = 0;
        for piece in &doc.pieces {
            let unescaped = UnescapedJson::new(&piece.text).filter(|_| piece.field.is_json());
            for unescaped in std::iter::once(None).chain(unescaped.as_ref().map(Some)) {
                let text = unescaped.map_or(&*piece.text, |unescaped| &unescaped.text);
                for (_, visible) in visible_pieces(text, &self.hidden(&piece.text, unescaped)) {
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
        !self.excludes_terms() || pieces.all(|piece| self.terms_in_piece(piece, self.excluded) == 0)
    }

    /// Whether required terms are searched for in any text of a message or a title.
    pub(crate) fn has_searched_text(&self, doc: &SearchDocument<'_>) -> bool {
        let mut pieces = doc.pieces.iter();
        let has_searched_piece =
            pieces.any(|piece| self.is_searched(piece.field, piece.tool.as_deref()));
        has_searched_piece || doc.pieces.is_empty() && self.is_searched(Field::Text, None)
    }

    /// Whether the query distinguishes texts by their tools.
    pub(crate) fn depends_on_calls(&self) -> bool {
        !self.tools.is_empty() || !self.results.is_empty()
    }

    /// Whether a message or a title matches.
    pub(crate) fn is_in(&self, doc: &SearchDocument<'_>) -> bool {
        // Required terms count only in pieces in which they are searched for.
        let add = |found: u64, piece| found | self.terms_in_piece(piece, !found);
        self.has_searched_text(doc) && self.accepts(doc.pieces.iter().fold(0, add))
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
