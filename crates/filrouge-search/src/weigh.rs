//! What speaks for one message: where in it stands what is looked for, and how.

use filrouge_sources::Role;
use memchr::memmem::Finder;

use crate::matcher::Matcher;
use crate::query::Kind;
use crate::question::Question;
use crate::rank::{Evidence, Weight};
use crate::spoken::{Piece, Spoken, folded_literal};
use crate::term::Folding;

/// The words of a question as they are looked at closely.
#[derive(Debug, Default)]
pub(crate) struct Words {
    each: Vec<Word>,
    /// All side by side in the order they were asked for; of one word nothing.
    together: Option<Finder<'static>>,
}

/// A word, folded.
#[derive(Debug)]
struct Word {
    /// Its bit among the terms.
    bit: u64,
    finder: Finder<'static>,
    /// Whether it begins, and ends, with a letter or a digit.
    letters: (bool, bool),
}

impl Words {
    pub(crate) fn of(question: &Question<'_>) -> Self {
        let terms = question.terms().iter().enumerate();
        let words =
            terms.filter(|(_, term)| !term.excluded && !matches!(term.kind, Kind::Regex(_)));
        let words: Vec<(u64, String)> = words
            .map(|(bit, term)| (1 << bit, folded_literal(&term.text)))
            .collect();
        let together = (words.len() > 1).then(|| {
            let words: Vec<&str> = words.iter().map(|(_, word)| word.as_str()).collect();
            Finder::new(&words.join(" ")).into_owned()
        });
        let each = words.iter().map(|(bit, word)| Word::of(*bit, word));
        Self {
            each: each.collect(),
            together,
        }
    }

    fn bits(&self) -> u64 {
        self.each.iter().fold(0, |all, word| all | word.bit)
    }
}

/// What was seen of one message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// The terms in its texts, by how telling these are.
    bits: [u64; Weight::ALL.len()],
    /// Those that stand there as whole words.
    whole: u64,
    near: bool,
}

impl Seen {
    /// Adds a text of it.
    pub(crate) fn piece(
        &mut self,
        matcher: &Matcher,
        words: &Words,
        piece: &Piece<'_>,
        role: Option<Role>,
    ) {
        let text = Folding::of(&piece.text);
        let bits = matcher.of_field(piece, &text, u64::MAX);
        if let Some(known) = self.bits.get_mut(Weight::of(piece.field, role) as usize) {
            *known |= bits;
        }
        if bits & words.bits() == 0 {
            return;
        }
        let left = bits & !self.whole;
        for word in words.each.iter().filter(|word| left & word.bit != 0) {
            if word.stands_whole(text.folded()) {
                self.whole |= word.bit;
            }
        }
        let together = words.together.as_ref().filter(|_| !self.near);
        self.near |= together.is_some_and(|all| all.find(text.folded().as_bytes()).is_some());
    }

    /// The terms that were seen.
    pub(crate) fn terms(&self) -> u64 {
        self.bits.iter().fold(0, |all, bits| all | bits)
    }

    /// What speaks for the message, if that was all of it and it is one that is looked for.
    pub(crate) fn evidence(&self, matcher: &Matcher, words: &Words) -> Option<Evidence> {
        if !matcher.accepts(self.terms()) {
            return None;
        }
        // The least telling of the places without which not all terms are there.
        let mut left = matcher.wanted;
        let needed = Weight::ALL.into_iter().rev().zip(self.bits.iter().rev());
        let weight = needed.into_iter().find_map(|(weight, bits)| {
            left &= !bits;
            (left == 0).then_some(weight)
        });
        Some(Evidence {
            matches: 1,
            exact: true,
            title: false,
            weight: weight.unwrap_or_default(),
            whole: words.bits() != 0 && self.whole & words.bits() == words.bits(),
            near: self.near,
        })
    }
}

/// What speaks for a message or a title; `None` when it is none that is looked for.
pub(crate) fn weigh(matcher: &Matcher, words: &Words, spoken: &Spoken<'_>) -> Option<Evidence> {
    if !matcher.looks_into(spoken) {
        return None;
    }
    let mut seen = Seen::default();
    for piece in &spoken.pieces {
        seen.piece(matcher, words, piece, spoken.role);
    }
    let evidence = seen.evidence(matcher, words)?;
    Some(Evidence {
        title: spoken.role.is_none(),
        ..evidence
    })
}

impl Word {
    fn of(bit: u64, word: &str) -> Self {
        let mut chars = word.chars();
        let first = chars.next();
        Self {
            bit,
            finder: Finder::new(word).into_owned(),
            letters: (is_letter(first), is_letter(chars.next_back().or(first))),
        }
    }

    /// Whether it stands somewhere in a folded text with no letter or digit right before or behind it.
    fn stands_whole(&self, text: &str) -> bool {
        let (first, last) = self.letters;
        let mut places = self.finder.find_iter(text.as_bytes());
        places.any(|at| {
            let before = text.get(..at).and_then(|t| t.chars().next_back());
            let behind = at + self.finder.needle().len();
            let behind = text.get(behind..).and_then(|t| t.chars().next());
            !(first && is_letter(before) || last && is_letter(behind))
        })
    }
}

fn is_letter(c: Option<char>) -> bool {
    c.is_some_and(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stands_whole(text: &str, word: &str) -> bool {
        Word::of(1, word).stands_whole(text)
    }

    #[test]
    fn words_stand_whole_between_what_is_no_letter() {
        assert!(stands_whole("a cat, here", "cat"));
        assert!(stands_whole("concat cat", "cat"));
        assert!(!stands_whole("concat cats", "cat"));
        assert!(stands_whole("x->y", "->"));
        assert!(stands_whole("my_var = 1", "my_var"));
    }
}
