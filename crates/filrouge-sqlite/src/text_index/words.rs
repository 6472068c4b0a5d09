//! The words that a text is found by: what holds a literal holds words that the literal is part of.
//!
//! Words are the longest runs of letters, digits and `_`, and the longest runs of other characters that are no white space; of
//! Chinese, Japanese and Korean each character and each pair. A longer run than [`WORD`] is cut into words that overlap. A
//! word goes by a number of 63 bits; words that are not alike may have the same one: whoever finds by them looks again.

use std::ops::Range;

use filrouge_store::text_index::is_dense;

/// A word has at most so many characters…
const WORD: usize = 64;
/// …and what is cut from the same run has so many in common with the one before it: a shorter literal within the run is
/// whole in one of them.
const COMMON: usize = 16;

/// What characters of a run are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Space,
    Letters,
    Signs,
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

/// Shows `each` the longest runs of a class, with where they stand; white space is none.
pub(super) fn each_run(text: &str, each: &mut impl FnMut(Class, Range<usize>)) {
    let (mut start, mut now) = (0, Class::Space);
    for (at, c) in text.char_indices() {
        let next = class(c);
        if next != now {
            if now != Class::Space {
                each(now, start..at);
            }
            (start, now) = (at, next);
        }
    }
    if now != Class::Space {
        each(now, start..text.len());
    }
}

/// Shows `take` the words of a folded text as they come, one as often as it is there.
pub(super) fn each_word(folded: &str, take: &mut impl FnMut(&str)) {
    each_run(folded, &mut |class, run| {
        let run = folded.get(run).unwrap_or_default();
        match class {
            Class::Dense => each_dense(run, take),
            _ => each_cut(run, take),
        }
    });
}

/// Characters and pairs.
fn each_dense(run: &str, take: &mut impl FnMut(&str)) {
    let mut before = None;
    for (at, c) in run.char_indices() {
        let end = at + c.len_utf8();
        take(run.get(at..end).unwrap_or_default());
        if let Some(before) = before {
            take(run.get(before..end).unwrap_or_default());
        }
        before = Some(at);
    }
}

/// A run whole, or cut.
fn each_cut(run: &str, take: &mut impl FnMut(&str)) {
    if run.len() <= WORD {
        return take(run);
    }
    let mut rest = run;
    while let Some((end, _)) = rest.char_indices().nth(WORD) {
        let (word, _) = rest.split_at(end);
        take(word);
        rest = last(word, COMMON).map_or("", |common| {
            rest.get(end - common.len()..).unwrap_or_default()
        });
    }
    take(rest);
}

/// The last so many characters; `None` when there are fewer.
fn last(text: &str, count: usize) -> Option<&str> {
    let (at, _) = text.char_indices().rev().nth(count.checked_sub(1)?)?;
    text.get(at..)
}

/// The first so many characters, or all.
fn first(text: &str, count: usize) -> &str {
    let end = text.char_indices().nth(count);
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// What stands in a word of whatever holds a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WordPart {
    pub(super) text: Box<str>,
    /// Whether a word begins with it.
    pub(super) begins: bool,
    /// Whether a word ends with it.
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

    /// A word.
    pub(super) fn whole(word: &str) -> Self {
        Self::new(word, true, true)
    }

    /// Whether it is all of the word.
    pub(super) fn is_word(&self) -> bool {
        self.begins && self.ends
    }

    /// It as it stands in a list of words, each between line ends.
    pub(super) fn listed(&self) -> Vec<u8> {
        let mut listed = Vec::with_capacity(self.text.len() + 2);
        listed.extend(self.begins.then_some(b'\n'));
        listed.extend(self.text.as_bytes());
        listed.extend(self.ends.then_some(b'\n'));
        listed
    }
}

/// What whatever holds a folded literal has in its words, all of it; nothing when that cannot be told.
pub(super) fn parts(literal: &str) -> Vec<WordPart> {
    let mut parts = Vec::new();
    each_run(literal, &mut |class, run| {
        let (begins, ends) = (run.start > 0, run.end < literal.len());
        let run = literal.get(run).unwrap_or_default();
        match class {
            Class::Dense => of_dense(run, &mut parts),
            _ => of_run(run, begins, ends, &mut parts),
        }
    });
    parts.sort_unstable_by(|a, b| (&a.text, a.begins, a.ends).cmp(&(&b.text, b.begins, b.ends)));
    parts.dedup();
    parts
}

/// Pairs, and the character of one alone.
fn of_dense(run: &str, parts: &mut Vec<WordPart>) {
    let alone = run.chars().nth(1).is_none();
    each_dense(run, &mut |word| {
        if alone || word.chars().nth(1).is_some() {
            parts.push(WordPart::new(word, true, true));
        }
    });
}

fn of_run(run: &str, begins: bool, ends: bool, parts: &mut Vec<WordPart>) {
    match (begins, ends) {
        (true, true) => each_cut(run, &mut |word| parts.push(WordPart::new(word, true, true))),
        // The first word of a run is as long as it can be.
        (true, false) => parts.push(WordPart::new(first(run, WORD), true, false)),
        _ => match last(run, COMMON + 1) {
            None => parts.push(WordPart::new(run, false, ends)),
            // Each is whole in some word, if not in the same one; so is the end in the last.
            Some(_) => {
                parts.push(WordPart::new(first(run, COMMON), false, false));
                let end = last(run, COMMON).unwrap_or(run);
                parts.push(WordPart::new(end, false, ends));
            }
        },
    }
}

/// The number that a word goes by, below 2^63.
pub(super) fn number(word: &str) -> u64 {
    const PRIME: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = (word.len() as u64).wrapping_mul(PRIME);
    for eight in word.as_bytes().chunks(8) {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(eight).for_each(|(to, of)| *to = *of);
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

    fn holds(words: &[String], part: &WordPart) -> bool {
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
    fn what_stands_between_others_is_a_whole_word() {
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
    fn numbers_differ() {
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
        fn what_holds_a_literal_has_its_parts(
            before in "[a-cé中文_. \u{1f}]{0,90}",
            literal in prop_oneof!["[a-cé中文_. ]{0,12}", "[ab]{0,150}", "[.]{60,150}", "[é]{0,90}"],
            behind in "[a-cé中文_. \u{1f}]{0,90}",
        ) {
            let words = words(&format!("{before}{literal}{behind}"));
            for part in parts(&literal) {
                prop_assert!(holds(&words, &part), "{part:?} of {literal:?} in {words:?}");
            }
            for word in words {
                prop_assert!(word.chars().count() <= WORD && !word.contains('\n') && !word.is_empty());
            }
        }
    }
}
