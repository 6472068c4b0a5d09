//! Computes the evidence of one message from the texts in which terms occur, and from how they occur.

use filrouge_sources::Role;
use memchr::memmem::Finder;

use crate::matcher::Matcher;
use crate::parsed_search::ParsedSearch;
use crate::query::Kind;
use crate::rank::{Evidence, Weight};
use crate::search_document::{Piece, SearchDocument, folded_literal};
use crate::term::FoldedText;

/// The words and phrases of a search, prepared for ranking.
#[derive(Debug, Default)]
pub(crate) struct Words {
    words: Vec<Word>,
    /// A finder of all words next to each other, in the order of the query; `None` if there are fewer than two.
    adjacent_words: Option<Finder<'static>>,
}

/// A folded word or phrase.
#[derive(Debug)]
struct Word {
    /// The bit of its term.
    bit: u64,
    finder: Finder<'static>,
    /// Whether the word begins with a letter or a digit, and whether it ends with one.
    edge_letters: (bool, bool),
}

impl Words {
    pub(crate) fn new(search: &ParsedSearch<'_>) -> Self {
        let terms = search.terms().iter().enumerate();
        let words =
            terms.filter(|(_, term)| !term.excluded && !matches!(term.kind, Kind::Regex(_)));
        let words: Vec<(u64, String)> = words
            .map(|(bit, term)| (1 << bit, folded_literal(&term.text)))
            .collect();
        let adjacent_words = (words.len() > 1).then(|| {
            let words: Vec<&str> = words.iter().map(|(_, word)| word.as_str()).collect();
            Finder::new(&words.join(" ")).into_owned()
        });
        let prepared = words.iter().map(|(bit, word)| Word::new(*bit, word));
        Self {
            words: prepared.collect(),
            adjacent_words,
        }
    }

    fn bits(&self) -> u64 {
        self.words.iter().fold(0, |all, word| all | word.bit)
    }
}

/// The matches in one message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MessageMatches {
    /// For each weight, the terms that texts of this weight contain, as bits.
    bits: [u64; Weight::ALL.len()],
    /// The terms that occur as whole words, as bits.
    whole_words: u64,
    adjacent: bool,
}

impl MessageMatches {
    /// Adds a text of the message.
    pub(crate) fn add_piece(
        &mut self,
        matcher: &Matcher,
        words: &Words,
        piece: &Piece<'_>,
        role: Option<Role>,
    ) {
        let text = FoldedText::new(&piece.text);
        let bits = matcher.terms_in_folded(piece, &text, u64::MAX);
        if let Some(weight_bits) = self.bits.get_mut(Weight::of(piece.field, role) as usize) {
            *weight_bits |= bits;
        }
        if bits & words.bits() == 0 {
            return;
        }
        let unseen = bits & !self.whole_words;
        for word in words.words.iter().filter(|word| unseen & word.bit != 0) {
            if word.occurs_whole(text.folded()) {
                self.whole_words |= word.bit;
            }
        }
        let adjacent_words = words.adjacent_words.as_ref().filter(|_| !self.adjacent);
        self.adjacent |=
            adjacent_words.is_some_and(|all| all.find(text.folded().as_bytes()).is_some());
    }

    /// Returns the evidence of the message, after all its texts were added; `None` if the message does not match.
    pub(crate) fn evidence(&self, matcher: &Matcher, words: &Words) -> Option<Evidence> {
        if !matcher.accepts(self.bits.iter().fold(0, |all, bits| all | bits)) {
            return None;
        }
        // The weight of the least significant text that is needed to cover all terms.
        let mut uncovered = matcher.required;
        let needed = Weight::ALL.into_iter().rev().zip(self.bits.iter().rev());
        let weight = needed.into_iter().find_map(|(weight, bits)| {
            uncovered &= !bits;
            (uncovered == 0).then_some(weight)
        });
        Some(Evidence {
            matches: 1,
            exact: true,
            title: false,
            weight: weight.unwrap_or_default(),
            whole_words: words.bits() != 0 && self.whole_words & words.bits() == words.bits(),
            adjacent: self.adjacent,
        })
    }
}

/// Returns the evidence of a message or a title; `None` if it does not match.
pub(crate) fn weigh(
    matcher: &Matcher,
    words: &Words,
    doc: &SearchDocument<'_>,
) -> Option<Evidence> {
    if !matcher.has_searched_text(doc) {
        return None;
    }
    let mut matches = MessageMatches::default();
    for piece in &doc.pieces {
        matches.add_piece(matcher, words, piece, doc.role);
    }
    let evidence = matches.evidence(matcher, words)?;
    Some(Evidence {
        title: doc.role.is_none(),
        ..evidence
    })
}

impl Word {
    fn new(bit: u64, word: &str) -> Self {
        let mut chars = word.chars();
        let first = chars.next();
        Self {
            bit,
            finder: Finder::new(word).into_owned(),
            edge_letters: (is_letter(first), is_letter(chars.next_back().or(first))),
        }
    }

    /// Whether the word occurs in a folded text without a letter or digit directly before or after it.
    fn occurs_whole(&self, text: &str) -> bool {
        let (first, last) = self.edge_letters;
        let mut occurrences = self.finder.find_iter(text.as_bytes());
        occurrences.any(|at| {
            let before = text.get(..at).and_then(|t| t.chars().next_back());
            let after = at + self.finder.needle().len();
            let after = text.get(after..).and_then(|t| t.chars().next());
            !(first && is_letter(before) || last && is_letter(after))
        })
    }
}

fn is_letter(c: Option<char>) -> bool {
    c.is_some_and(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occurs_whole(text: &str, word: &str) -> bool {
        Word::new(1, word).occurs_whole(text)
    }

    #[test]
    fn whole_words_have_no_letter_next_to_them() {
        assert!(occurs_whole("a cat, here", "cat"));
        assert!(occurs_whole("concat cat", "cat"));
        assert!(!occurs_whole("concat cats", "cat"));
        assert!(occurs_whole("x->y", "->"));
        assert!(occurs_whole("my_var = 1", "my_var"));
    }
}
