//! What speaks for one message: where in it stands what is looked for, and how.

use filrouge_sources::Role;
use filrouge_store::text_index::fold;

use super::rank::{Evidence, Weight};
use crate::matcher::Matcher;
use crate::query::{Kind, Term};
use crate::question::Question;
use crate::spoken::{Piece, Spoken, folded_literal};

/// The words of a question as they are looked at closely.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// Each, folded, with its bit among the terms.
    each: Vec<(u64, String)>,
    /// All side by side in the order they were asked for; of one word nothing.
    together: Option<String>,
}

impl Words {
    pub(crate) fn of(question: &Question<'_>) -> Self {
        let terms = question.terms().iter().enumerate();
        let words =
            terms.filter(|(_, term)| !term.excluded && !matches!(term.kind, Kind::Regex(_)));
        let word = |(bit, term): (usize, &Term)| (1 << bit, folded_literal(&term.text));
        let each: Vec<(u64, String)> = words.map(word).collect();
        let together = (each.len() > 1).then(|| {
            let words: Vec<&str> = each.iter().map(|(_, word)| word.as_str()).collect();
            words.join(" ")
        });
        Self { each, together }
    }

    fn bits(&self) -> u64 {
        self.each.iter().fold(0, |all, (bit, _)| all | bit)
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
        let bits = matcher.of_piece(piece, u64::MAX);
        if let Some(known) = self.bits.get_mut(Weight::of(piece.field, role) as usize) {
            *known |= bits;
        }
        if bits & words.bits() == 0 {
            return;
        }
        let text = fold(&piece.text);
        let left = bits & !self.whole;
        let whole = |(bit, _): &&(u64, String)| left & bit != 0;
        for (bit, word) in words.each.iter().filter(whole) {
            if stands_whole(&text, word) {
                self.whole |= bit;
            }
        }
        let together = words.together.as_ref().filter(|_| !self.near);
        self.near |= together.is_some_and(|all| text.contains(all.as_str()));
    }

    /// Adds what was seen of other texts of it.
    pub(crate) fn add(&mut self, other: Self) {
        for (bits, more) in self.bits.iter_mut().zip(other.bits) {
            *bits |= more;
        }
        self.whole |= other.whole;
        self.near |= other.near;
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
    if !matcher.is_in(spoken) {
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

/// Whether a word stands somewhere with no letter or digit right before or behind it.
fn stands_whole(text: &str, word: &str) -> bool {
    let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let (first, last) = (word.chars().next(), word.chars().next_back());
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|t| t.chars().next_back());
        let behind = text.get(at + word.len()..).and_then(|t| t.chars().next());
        !(letter(before) && letter(first) || letter(behind) && letter(last))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_whole_between_what_is_no_letter() {
        assert!(stands_whole("a cat, here", "cat"));
        assert!(stands_whole("concat cat", "cat"));
        assert!(!stands_whole("concat cats", "cat"));
        assert!(stands_whole("x->y", "->"));
        assert!(stands_whole("my_var = 1", "my_var"));
    }
}
