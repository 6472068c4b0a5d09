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
const SIDE_CHARS: usize = 3;
/// Hashed after a run with fewer than [`SIDE_CHARS`] characters, so that it differs from a longer run with the same
/// characters.
const SHORT_RUN_MARK: u8 = 0x1F;
/// The word of the first bucket: the first character of a private use plane.
const FIRST_BUCKET_CODE: u32 = 0xF_0000;

/// Calls `each` with the byte ranges of a text's runs of letters (including each run of Chinese, Japanese or Korean).
fn each_letter_run(text: &str, each: &mut impl FnMut(Range<usize>)) {
    each_run(text, &mut |class, run| {
        if class != Class::Signs {
            each(run);
        }
    });
}

/// Calls `each` with the words of a folded text, and then with its junctions.
pub(super) fn each_term(folded: &str, each: &mut impl FnMut(&str)) {
    each_word(folded, each);
    each_junction(folded, each);
}

/// Calls `each` with the junctions of a folded text as words, in order of appearance.
fn each_junction(folded: &str, each: &mut impl FnMut(&str)) {
    each_bucket(folded, &mut |bucket| {
        each(bucket_word(bucket).encode_utf8(&mut [0; 4]));
    });
}

/// Returns the word of a bucket.
pub(super) fn bucket_word(bucket: usize) -> char {
    // The plane has more characters than there are buckets.
    let code = u32::try_from(bucket).map_or(FIRST_BUCKET_CODE, |bucket| FIRST_BUCKET_CODE + bucket);
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Returns the bucket for which `word` is stored; `None` if `word` is an ordinary word of a text.
pub(super) fn bucket_of(word: &str) -> Option<usize> {
    let mut letters = word.chars();
    let code = u32::from(letters.next()?).checked_sub(FIRST_BUCKET_CODE)?;
    let bucket = usize::try_from(code).ok().filter(|b| *b < BUCKETS);
    bucket.filter(|_| letters.next().is_none())
}

/// Calls `each` with the buckets of a folded text's junctions, in order of appearance.
pub(super) fn each_bucket(folded: &str, each: &mut impl FnMut(usize)) {
    let mut previous: Option<Range<usize>> = None;
    each_letter_run(folded, &mut |run| {
        if let Some(before) = previous.replace(run.clone()) {
            let between = folded.get(before.end..run.start).unwrap_or_default();
            // U+001F separates the pieces of a document's text. No literal matches across it.
            if !between.contains('\u{1F}') {
                each(junction_bucket(folded, before, run));
            }
        }
    });
}

/// Returns the junctions, as words, that every text containing a folded literal has. A junction at either end of the
/// literal is omitted if its characters also depend on the text around the literal.
pub(super) fn literal_junctions(literal: &str) -> Vec<WordPart> {
    let mut junctions = Vec::new();
    let mut previous: Option<Range<usize>> = None;
    let is_long = |run: &Range<usize>| {
        let run = literal.get(run.clone()).unwrap_or_default();
        run.chars().nth(SIDE_CHARS - 1).is_some()
    };
    each_letter_run(literal, &mut |run| {
        if let Some(before) = previous.replace(run.clone()) {
            // In the text, the first run may extend to the left of the literal, the last one to the right.
            let first_is_determined = before.start > 0 || is_long(&before);
            let last_is_determined = run.end < literal.len() || is_long(&run);
            if first_is_determined && last_is_determined {
                let junction = bucket_word(junction_bucket(literal, before, run));
                junctions.push(WordPart::whole(junction.encode_utf8(&mut [0; 4])));
            }
        }
    });
    junctions
}

/// Returns the bucket of the junction of two consecutive runs of letters, given by their byte ranges in `text`.
fn junction_bucket(text: &str, before: Range<usize>, after: Range<usize>) -> usize {
    let between = text.get(before.end..after.start).unwrap_or_default();
    let (before, after) = (text.get(before), text.get(after));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let mut hash = Hash(between.len() as u64);
    hash.add(between.as_bytes());
    let mut last = before.char_indices().rev();
    match last.nth(SIDE_CHARS - 1) {
        Some((start, _)) => hash.add(before.get(start..).unwrap_or_default().as_bytes()),
        None => {
            hash.add(before.as_bytes());
            hash.add(&[SHORT_RUN_MARK]);
        }
    }
    hash.add(b" ");
    match after.char_indices().nth(SIDE_CHARS) {
        Some((end, _)) => hash.add(after.get(..end).unwrap_or_default().as_bytes()),
        None => {
            hash.add(after.as_bytes());
            let is_short = after.chars().nth(SIDE_CHARS - 1).is_none();
            hash.add(if is_short { &[SHORT_RUN_MARK] } else { &[] });
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
        let mut words = Vec::new();
        each_junction(text, &mut |word| words.push(word.to_owned()));
        words
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
            assert_eq!(literal_junctions(literal).len(), count, "{literal}");
        }
        assert_eq!(junctions_of("one two\u{1f}three, four").len(), 2);
        assert_ne!(
            literal_junctions("now limit"),
            literal_junctions("now, limit")
        );
        assert_eq!(
            literal_junctions("know limited"),
            literal_junctions("now limit")
        );
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
            for junction in literal_junctions(&literal) {
                prop_assert!(all.iter().any(|own| **own == *junction.text), "{literal:?}");
            }
        }
    }
}
