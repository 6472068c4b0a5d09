//! The short pieces that a text is found by: what holds a literal holds all grams of the literal.
//!
//! Grams are all runs of three characters; of Chinese, Japanese and Korean, where a word has one or two, also each
//! character and each pair. A gram is a number below 2⁴⁸; grams that are not alike may be the same one where they are of
//! other letters than ASCII's: whoever finds by them looks again.

/// The distinct grams of a folded text, in order. Nothing runs over U+001F, which separates pieces.
#[must_use]
pub fn grams(folded: &str) -> Vec<u64> {
    let mut all = Vec::with_capacity(folded.len());
    each_gram(folded, &mut |gram| all.push(gram));
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether a folded literal has grams: texts that hold it can be found by them.
#[must_use]
pub fn narrows(literal: &str) -> bool {
    let mut some = false;
    each_gram(literal, &mut |_| some = true);
    some
}

const SEPARATOR: char = '\u{1F}';

/// What the two lowest bits of a gram say.
const ASCII: u64 = 0;
const ONE: u64 = 1;
const PAIR: u64 = 2;
const WIDE: u64 = 3;

/// Shows `take` the grams of a folded text as they come, one as often as it is there.
pub fn each_gram(folded: &str, take: &mut impl FnMut(u64)) {
    if folded.is_ascii() {
        return each_ascii(folded.as_bytes(), take);
    }
    let (mut two, mut one) = (None::<char>, None::<char>);
    for c in folded.chars() {
        if c == SEPARATOR {
            (two, one) = (None, None);
            continue;
        }
        if is_dense(c) {
            take(u64::from(c) << 2 | ONE);
            if let Some(one) = one.filter(|one| is_dense(*one)) {
                take((u64::from(one) << 21 | u64::from(c)) << 2 | PAIR);
            }
        }
        if let (Some(two), Some(one)) = (two, one) {
            take(three(two, one, c));
        }
        (two, one) = (one, Some(c));
    }
}

fn each_ascii(folded: &[u8], take: &mut impl FnMut(u64)) {
    // Three characters of seven bits, and how many of them belong together.
    let (mut three, mut run) = (0_u64, 0_u32);
    for byte in folded {
        three = (three << 7 | u64::from(*byte)) & 0x1F_FFFF;
        run = match *byte {
            0x1F => 0,
            _ => run + 1,
        };
        if run >= 3 {
            take(three << 2 | ASCII);
        }
    }
}

fn three(a: char, b: char, c: char) -> u64 {
    let [a, b, c] = [a, b, c].map(u64::from);
    if (a | b | c) < 0x80 {
        return (a << 14 | b << 7 | c) << 2 | ASCII;
    }
    // Mixed, so that what differs anywhere differs in the 46 bits that are kept.
    let mixed = (a << 42 | b << 21 | c).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 18) << 2 | WIDE
}

/// Of a script whose words are a character or two.
const fn is_dense(c: char) -> bool {
    matches!(c,
        '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30FF}' | '\u{3130}'..='\u{318F}'
        | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{A960}'..='\u{A97F}'
        | '\u{AC00}'..='\u{D7FF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' | '\u{1100}'..='\u{11FF}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_of_two_characters_are_found_where_scripts_have_them() {
        assert!(narrows("中"));
        assert!(narrows("学习"));
        assert!(narrows("abc"));
        assert!(!narrows("ab"));
        assert!(!narrows("é"));
        assert!(!narrows("a\u{1f}bc"));
        assert_eq!(grams("abab").len(), 2);
    }

    proptest! {
        #[test]
        fn grams_of_ascii_are_those_of_any_text(text in "[a-d \u{1f}]{0,24}") {
            let mut wide = grams(&format!("{text}\u{1f}é"));
            wide.retain(|gram| gram & 3 == ASCII);
            prop_assert_eq!(grams(&text), wide);
        }

        #[test]
        fn what_holds_a_literal_holds_its_grams(before in "[a-c中文é ]{0,6}", literal in "[a-c中文é ]{0,6}", behind in "[a-c中文é ]{0,6}") {
            let text = grams(&format!("{before}{literal}{behind}"));
            for gram in grams(&literal) {
                prop_assert!(text.binary_search(&gram).is_ok());
                prop_assert!(gram < 1 << 48);
            }
        }
    }
}
