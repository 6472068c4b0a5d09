//! Junctions: the places where two words of a text are adjacent. They narrow the documents that contain all words of a
//! phrase to those that may contain the phrase.
//!
//! A junction consists of the last three characters of a run of letters, the text between this run and the next one,
//! and the first three characters of the next run. A run shorter than three characters is included entirely. A junction
//! is hashed into one of [`BUCKETS`] buckets. Different junctions may share a bucket; the search later compares the
//! texts of the documents found. The index stores a bucket as a word of one character that texts hardly ever contain.

use std::ops::Range;

use super::words::{Class, WordPart, each_run, each_word};

/// The number of hash buckets. More buckets need more space for lists. With fewer buckets, more documents are found
/// that lack the phrase. If each document has 400 junctions, one document in forty is found wrongly.
pub(super) const BUCKETS: usize = 1 << 14;
/// The number of a run's characters that a junction includes.
const REACH: usize = 3;
/// Hashed after a run with fewer than [`REACH`] characters, so that it differs from a longer run with the same
/// characters.
const END: u8 = 0x1F;
/// The word of the first bucket: the first character of a private use plane.
const FIRST: u32 = 0xF_0000;

/// Calls `each` with the byte ranges of a text's runs of letters (including each run of Chinese, Japanese or Korean).
fn each_letters(text: &str, each: &mut impl FnMut(Range<usize>)) {
    each_run(text, &mut |class, run| {
        if class != Class::Signs {
            each(run);
        }
    });
}

/// Calls `take` with the words of a folded text, and then with its junctions.
pub(super) fn each_term(folded: &str, take: &mut impl FnMut(&str)) {
    each_word(folded, take);
    each_junction(folded, take);
}

/// Calls `take` with the junctions of a folded text as words, in order of appearance.
fn each_junction(folded: &str, take: &mut impl FnMut(&str)) {
    each_bucket(folded, &mut |bucket| {
        take(word_of(bucket).encode_utf8(&mut [0; 4]));
    });
}

/// The word of a bucket.
pub(super) fn word_of(bucket: usize) -> char {
    // The plane has more characters than there are buckets.
    let code = u32::try_from(bucket).map_or(FIRST, |bucket| FIRST + bucket);
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The bucket for which `word` is stored; `None` if `word` is an ordinary word of a text.
pub(super) fn bucket(word: &str) -> Option<usize> {
    let mut letters = word.chars();
    let code = u32::from(letters.next()?).checked_sub(FIRST)?;
    let bucket = usize::try_from(code).ok().filter(|b| *b < BUCKETS);
    bucket.filter(|_| letters.next().is_none())
}

/// Calls `take` with the buckets of a folded text's junctions, in order of appearance.
pub(super) fn each_bucket(folded: &str, take: &mut impl FnMut(usize)) {
    let mut before: Option<Range<usize>> = None;
    each_letters(folded, &mut |run| {
        if let Some(before) = before.replace(run.clone()) {
            let between = folded.get(before.end..run.start).unwrap_or_default();
            // U+001F separates the pieces of a document's text. No literal matches across it.
            if !between.contains('\u{1F}') {
                take(junction(folded, before, run));
            }
        }
    });
}

/// The junctions, as words, that every text containing a folded literal has. A junction at either end of the literal is
/// omitted if its characters also depend on the text around the literal.
pub(super) fn of_literal(literal: &str) -> Vec<WordPart> {
    let mut found = Vec::new();
    let mut before: Option<Range<usize>> = None;
    let is_long = |run: &Range<usize>| {
        let run = literal.get(run.clone()).unwrap_or_default();
        run.chars().nth(REACH - 1).is_some()
    };
    each_letters(literal, &mut |run| {
        if let Some(before) = before.replace(run.clone()) {
            // In the text, the first run may extend to the left of the literal, the last one to the right.
            let first_is_determined = before.start > 0 || is_long(&before);
            let last_is_determined = run.end < literal.len() || is_long(&run);
            if first_is_determined && last_is_determined {
                let junction = word_of(junction(literal, before, run));
                found.push(WordPart::whole(junction.encode_utf8(&mut [0; 4])));
            }
        }
    });
    found
}

/// The bucket of the junction of two consecutive runs of letters, given by their byte ranges in `text`.
fn junction(text: &str, before: Range<usize>, after: Range<usize>) -> usize {
    let between = text.get(before.end..after.start).unwrap_or_default();
    let (before, after) = (text.get(before), text.get(after));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let mut hash = Hash(between.len() as u64);
    hash.add(between.as_bytes());
    let mut last = before.char_indices().rev();
    match last.nth(REACH - 1) {
        Some((at, _)) => hash.add(before.get(at..).unwrap_or_default().as_bytes()),
        None => {
            hash.add(before.as_bytes());
            hash.add(&[END]);
        }
    }
    hash.add(b" ");
    match after.char_indices().nth(REACH) {
        Some((at, _)) => hash.add(after.get(..at).unwrap_or_default().as_bytes()),
        None => {
            hash.add(after.as_bytes());
            let is_short = after.chars().nth(REACH - 1).is_none();
            hash.add(if is_short { &[END] } else { &[] });
        }
    }
    hash.bucket()
}

struct Hash(u64);

impl Hash {
    const PRIME: u64 = 0x9E37_79B9_7F4A_7C15;

    /// Hashes byte by byte: inputs are a few bytes long.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(Self::PRIME);
            self.0 ^= self.0 >> 32;
        }
    }

    fn bucket(&self) -> usize {
        // `as` keeps the lowest bits, at least as many as a bucket number has.
        (self.0.wrapping_mul(Self::PRIME) >> 40) as usize & (BUCKETS - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn junctions_of(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        each_junction(text, &mut |word| all.push(word.to_owned()));
        all
    }

    #[test]
    fn a_run_that_may_extend_beyond_the_literal_has_no_junction() {
        for (literal, count) in [
            ("now limit", 1),
            ("of the", 0),
            ("some of", 0),
            ("some of it", 1),
            ("some of its", 2),
            (" of the", 1),
            ("src/parser/", 1),
            ("let mut x = 1", 2),
            ("ask_user", 0),
            ("result<harbour>", 1),
            ("中文 学习", 0),
            ("中文字 学习中", 1),
        ] {
            assert_eq!(of_literal(literal).len(), count, "{literal}");
        }
        assert_eq!(junctions_of("one two\u{1f}three, four").len(), 2);
        assert_ne!(of_literal("now limit"), of_literal("now, limit"));
        assert_eq!(of_literal("know limited"), of_literal("now limit"));
        assert_ne!(junctions_of(" of the"), junctions_of(" oof the"));
    }

    proptest! {
        #[test]
        fn a_text_that_contains_a_literal_has_its_junctions(
            before in "[a-cé中文_. \u{1f}]{0,12}",
            literal in "[a-cé中文_. ]{0,16}",
            after in "[a-cé中文_. \u{1f}]{0,12}",
        ) {
            let all = junctions_of(&format!("{before}{literal}{after}"));
            for junction in of_literal(&literal) {
                prop_assert!(all.iter().any(|own| **own == *junction.text), "{literal:?}");
            }
        }
    }
}
