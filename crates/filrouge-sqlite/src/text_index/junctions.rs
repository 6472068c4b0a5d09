//! Junctions: where two words of a text stand side by side. Of documents that have all words of a phrase they leave those
//! that may have it.
//!
//! A junction is the last three characters of a run of letters, what stands between it and the next one, and the first
//! three characters of that; where a run has fewer, all of it. It goes by one of [`BUCKETS`] numbers, so that some that are
//! not alike have the same one: whoever finds by them looks again. It is kept as a word of one character that no text is
//! likely to have.

use std::ops::Range;

use super::words::{Class, WordPart, each_run, each_word};

/// A junction goes by a number below this. More of them make lists longer, and fewer let more documents pass that do not
/// hold a phrase: of 400 junctions each, one in forty.
const BUCKETS: u64 = 1 << 14;
/// So many characters of a run are part of a junction.
const REACH: usize = 3;
/// Stands for the end of a run that is shorter.
const END: u8 = 0x1F;
/// The word of the first junction: the beginning of a plane for private use.
const FIRST: u32 = 0xF_0000;

/// Shows `each` the runs of letters of a text.
fn each_letters(text: &str, each: &mut impl FnMut(Range<usize>)) {
    each_run(text, &mut |class, run| {
        if class != Class::Signs {
            each(run);
        }
    });
}

/// Shows `take` the words of a folded text, and then its junctions.
pub(super) fn each_term(folded: &str, take: &mut impl FnMut(&str)) {
    each_word(folded, take);
    each_junction(folded, take);
}

/// Shows `take` the junctions of a folded text as words, as they come.
fn each_junction(folded: &str, take: &mut impl FnMut(&str)) {
    let mut before: Option<Range<usize>> = None;
    each_letters(folded, &mut |run| {
        if let Some(before) = before.replace(run.clone()) {
            let between = folded.get(before.end..run.start).unwrap_or_default();
            // Nothing is found across it.
            if !between.contains('\u{1F}') {
                take(junction(folded, before, run).encode_utf8(&mut [0; 4]));
            }
        }
    });
}

/// The junctions of whatever holds a folded literal, but those that cannot be told.
pub(super) fn of_literal(literal: &str) -> Vec<WordPart> {
    let mut found = Vec::new();
    let mut before: Option<Range<usize>> = None;
    let is_long = |run: &Range<usize>| {
        let run = literal.get(run.clone()).unwrap_or_default();
        run.chars().nth(REACH - 1).is_some()
    };
    each_letters(literal, &mut |run| {
        if let Some(before) = before.replace(run.clone()) {
            // The first run may go on to the left of the literal, the last one to the right.
            let begun = before.start > 0 || is_long(&before);
            let ended = run.end < literal.len() || is_long(&run);
            if begun && ended {
                let junction = junction(literal, before, run);
                found.push(WordPart::whole(junction.encode_utf8(&mut [0; 4])));
            }
        }
    });
    found
}

fn junction(text: &str, before: Range<usize>, behind: Range<usize>) -> char {
    let between = text.get(before.end..behind.start).unwrap_or_default();
    let (before, behind) = (text.get(before), text.get(behind));
    let (before, behind) = (before.unwrap_or_default(), behind.unwrap_or_default());
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
    match behind.char_indices().nth(REACH) {
        Some((at, _)) => hash.add(behind.get(..at).unwrap_or_default().as_bytes()),
        None => {
            hash.add(behind.as_bytes());
            let is_short = behind.chars().nth(REACH - 1).is_none();
            hash.add(if is_short { &[END] } else { &[] });
        }
    }
    let bucket = FIRST + hash.bucket();
    char::from_u32(bucket).unwrap_or(char::REPLACEMENT_CHARACTER)
}

struct Hash(u64);

impl Hash {
    const PRIME: u64 = 0x9E37_79B9_7F4A_7C15;

    /// Bytes, one after the other: what is hashed is a few bytes long.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(Self::PRIME);
            self.0 ^= self.0 >> 32;
        }
    }

    fn bucket(&self) -> u32 {
        // `as` keeps the lowest bits.
        (self.0.wrapping_mul(Self::PRIME) >> 40 & (BUCKETS - 1)) as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        each_junction(text, &mut |word| all.push(word.to_owned()));
        all
    }

    #[test]
    fn what_may_go_on_has_no_junction() {
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
        assert_eq!(of("one two\u{1f}three, four").len(), 2);
        assert_ne!(of_literal("now limit"), of_literal("now, limit"));
        assert_eq!(of_literal("know limited"), of_literal("now limit"));
        assert_ne!(of(" of the"), of(" oof the"));
    }

    proptest! {
        #[test]
        fn what_holds_a_literal_has_its_junctions(
            before in "[a-cé中文_. \u{1f}]{0,12}",
            literal in "[a-cé中文_. ]{0,16}",
            behind in "[a-cé中文_. \u{1f}]{0,12}",
        ) {
            let all = of(&format!("{before}{literal}{behind}"));
            for junction in of_literal(&literal) {
                prop_assert!(all.iter().any(|own| **own == *junction.text), "{literal:?}");
            }
        }
    }
}
