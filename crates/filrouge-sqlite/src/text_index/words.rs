//! Splits texts into words, so that a text that contains a literal has words that contain the literal's parts.
//!
//! Words are maximal runs of letters, digits and `_`, and maximal runs of other characters that are not white space. In
//! Chinese, Japanese and Korean, each character and each pair of adjacent characters is a word. A run longer than
//! [`WORD_MAX_CHARS`] is cut into overlapping words. A word's number is a 63-bit hash. Different words may have the
//! same number; the search later compares the texts of the documents found.

use std::ops::Range;

use filrouge_store::text_index::is_dense;

/// The maximum number of characters of a word.
const WORD_MAX_CHARS: usize = 64;
/// The number of characters that consecutive words of a cut run have in common. So any part of the run with at most
/// this many characters is contained in at least one of the words.
const OVERLAP: usize = 16;

/// The class of a run's characters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// White space, and the separator U+001F.
    Space,
    /// Letters, digits and `_`.
    Letters,
    /// All other characters, such as punctuation.
    Signs,
    /// Chinese, Japanese and Korean characters.
    Dense,
}

fn class(c: char) -> Class {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => Class::Letters,
        '\u{1F}' => Class::Space,
        '\0'..='\u{7F}' if !c.is_whitespace() => Class::Signs,
        c if c.is_whitespace() => Class::Space,
        c if is_dense(c) => Class::Dense,
        c if c.is_alphanumeric() => Class::Letters,
        _ => Class::Signs,
    }
}

/// Calls `each` with the class and the byte range of each maximal run of characters of one class; skips white space.
pub(super) fn each_run(text: &str, each: &mut impl FnMut(Class, Range<usize>)) {
    let (mut start, mut current) = (0, Class::Space);
    for (at, c) in text.char_indices() {
        let next = class(c);
        if next != current {
            if current != Class::Space {
                each(current, start..at);
            }
            (start, current) = (at, next);
        }
    }
    if current != Class::Space {
        each(current, start..text.len());
    }
}

/// Calls `each` with the words of a folded text in order of appearance, including repetitions.
pub(super) fn each_word(folded: &str, each: &mut impl FnMut(&str)) {
    each_run(folded, &mut |class, run| {
        let run = folded.get(run).unwrap_or_default();
        match class {
            Class::Dense => each_dense_word(run, each),
            _ => each_cut_word(run, each),
        }
    });
}

/// Calls `each` with the single characters and the pairs of a run.
fn each_dense_word(run: &str, each: &mut impl FnMut(&str)) {
    let mut previous = None;
    for (at, c) in run.char_indices() {
        let end = at + c.len_utf8();
        each(run.get(at..end).unwrap_or_default());
        if let Some(previous) = previous {
            each(run.get(previous..end).unwrap_or_default());
        }
        previous = Some(at);
    }
}

/// Calls `each` with a run, or with its overlapping pieces if it is too long for one word.
fn each_cut_word(run: &str, each: &mut impl FnMut(&str)) {
    if run.len() <= WORD_MAX_CHARS {
        return each(run);
    }
    let mut remaining = run;
    while let Some((end, _)) = remaining.char_indices().nth(WORD_MAX_CHARS) {
        let (word, _) = remaining.split_at(end);
        each(word);
        remaining = last_chars(word, OVERLAP).map_or("", |common| {
            remaining.get(end - common.len()..).unwrap_or_default()
        });
    }
    each(remaining);
}

/// Returns the last `count` characters; `None` when the text has fewer.
fn last_chars(text: &str, count: usize) -> Option<&str> {
    let (at, _) = text.char_indices().rev().nth(count.checked_sub(1)?)?;
    text.get(at..)
}

/// Returns the first `count` characters, or all.
fn first_chars(text: &str, count: usize) -> &str {
    let end = text.char_indices().nth(count);
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// A part of a literal: every text that contains the literal has a word that contains the part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WordPart {
    pub(super) text: Box<str>,
    /// Whether the word begins with the part.
    pub(super) begins: bool,
    /// Whether the word ends with the part.
    pub(super) ends: bool,
}

impl WordPart {
    fn new(text: &str, begins: bool, ends: bool) -> Self {
        Self {
            text: text.into(),
            begins,
            ends,
        }
    }

    /// A part that is an entire word.
    pub(super) fn whole(word: &str) -> Self {
        Self::new(word, true, true)
    }

    /// Whether the part is the entire word.
    pub(super) fn is_word(&self) -> bool {
        self.begins && self.ends
    }

    /// Returns the part as a pattern to find in a list of words, with the line ends that it must match.
    pub(super) fn pattern(&self) -> Vec<u8> {
        let mut pattern = Vec::with_capacity(self.text.len() + 2);
        pattern.extend(self.begins.then_some(b'\n'));
        pattern.extend(self.text.as_bytes());
        pattern.extend(self.ends.then_some(b'\n'));
        pattern
    }
}

/// Returns the parts of a folded literal. Empty when the literal consists of white space.
pub(super) fn parts(literal: &str) -> Vec<WordPart> {
    let mut parts = Vec::new();
    each_run(literal, &mut |class, run| {
        let (begins, ends) = (run.start > 0, run.end < literal.len());
        let run = literal.get(run).unwrap_or_default();
        match class {
            Class::Dense => add_dense_parts(run, &mut parts),
            _ => add_run_parts(run, begins, ends, &mut parts),
        }
    });
    parts.sort_unstable_by(|a, b| (&a.text, a.begins, a.ends).cmp(&(&b.text, b.begins, b.ends)));
    parts.dedup();
    parts
}

/// Adds the pairs of adjacent characters of a run, or its only character.
fn add_dense_parts(run: &str, parts: &mut Vec<WordPart>) {
    let is_single = run.chars().nth(1).is_none();
    each_dense_word(run, &mut |word| {
        if is_single || word.chars().nth(1).is_some() {
            parts.push(WordPart::new(word, true, true));
        }
    });
}

/// Adds the parts of a run. `begins` and `ends` state whether the run begins and ends within the literal; if not, it
/// may extend beyond the literal in a text.
fn add_run_parts(run: &str, begins: bool, ends: bool, parts: &mut Vec<WordPart>) {
    match (begins, ends) {
        (true, true) => each_cut_word(run, &mut |word| parts.push(WordPart::new(word, true, true))),
        // If the run is cut in a text, its first word has the maximum length.
        (true, false) => parts.push(WordPart::new(first_chars(run, WORD_MAX_CHARS), true, false)),
        _ => match last_chars(run, OVERLAP + 1) {
            None => parts.push(WordPart::new(run, false, ends)),
            // If the run is cut in a text, some word contains each part, but not necessarily the same word. The last
            // word contains the run's end.
            Some(_) => {
                parts.push(WordPart::new(first_chars(run, OVERLAP), false, false));
                let end = last_chars(run, OVERLAP).unwrap_or(run);
                parts.push(WordPart::new(end, false, ends));
            }
        },
    }
}

/// Returns a word's number, below 2^63.
pub(super) fn number(word: &str) -> u64 {
    const PRIME: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = (word.len() as u64).wrapping_mul(PRIME);
    for chunk in word.as_bytes().chunks(8) {
        let mut bytes = [0; 8];
        bytes
            .iter_mut()
            .zip(chunk)
            .for_each(|(to, from)| *to = *from);
        hash = (hash ^ u64::from_le_bytes(bytes)).wrapping_mul(PRIME);
        hash ^= hash >> 32;
    }
    hash = hash.wrapping_mul(PRIME);
    (hash ^ hash >> 29) >> 1
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        each_word(text, &mut |word| all.push(word.to_owned()));
        all
    }

    fn has_word_with(words: &[String], part: &WordPart) -> bool {
        words.iter().any(|word| match (part.begins, part.ends) {
            (true, true) => **word == *part.text,
            (true, false) => word.starts_with(&*part.text),
            (false, true) => word.ends_with(&*part.text),
            (false, false) => word.contains(&*part.text),
        })
    }

    #[test]
    fn runs_are_words() {
        assert_eq!(
            words("ask_user(x) -> [é1]\u{1f}中文a"),
            [
                "ask_user", "(", "x", ")", "->", "[", "é1", "]", "中", "文", "中文", "a"
            ]
        );
        let long = "x".repeat(65);
        let cut = words(&long);
        assert_eq!(cut.iter().map(String::len).collect::<Vec<_>>(), [64, 17]);
        assert_eq!(words(&"é".repeat(32)).len(), 1);
        assert_eq!(words(&"é".repeat(64)).len(), 1);
    }

    #[test]
    fn a_run_between_other_runs_is_a_complete_word() {
        let part = |text: &str, begins, ends| WordPart::new(text, begins, ends);
        assert_eq!(
            parts("foo.bar"),
            [
                part(".", true, true),
                part("bar", true, false),
                part("foo", false, true)
            ]
        );
        assert_eq!(parts(" a "), [part("a", true, true)]);
        assert_eq!(parts("学习中").len(), 2);
        assert!(parts(" ").is_empty());
    }

    #[test]
    fn different_words_have_different_numbers() {
        let mut all = BTreeSet::new();
        for a in 'a'..='z' {
            for b in 'a'..='z' {
                for text in [
                    format!("{a}{b}"),
                    format!("{a}\0{b}"),
                    format!("longer than eight {a}{b}"),
                ] {
                    assert!(number(&text) < 1 << 63);
                    assert!(all.insert(number(&text)));
                }
            }
        }
        assert!(all.insert(number("a\0")) && all.insert(number("a")));
    }

    proptest! {
        #[test]
        fn a_text_that_contains_a_literal_has_its_parts(
            before in "[a-cé中文_. \u{1f}]{0,90}",
            literal in prop_oneof!["[a-cé中文_. ]{0,12}", "[ab]{0,150}", "[.]{60,150}", "[é]{0,90}"],
            after in "[a-cé中文_. \u{1f}]{0,90}",
        ) {
            let words = words(&format!("{before}{literal}{after}"));
            for part in parts(&literal) {
                prop_assert!(has_word_with(&words, &part), "{part:?} of {literal:?} in {words:?}");
            }
            for word in words {
                prop_assert!(word.chars().count() <= WORD_MAX_CHARS && !word.contains('\n') && !word.is_empty());
            }
        }
    }
}
