//! How else the characters of a folded text are spelled in raw bytes: with accents, in full width, as ligatures, in parts.

use std::sync::LazyLock;

use filrouge_store::text_index::fold;
use unicode_normalization::char::decompose_canonical;

use crate::literals::{Run, cases};

/// Where characters lie that fold to something else than another case of themselves.
const BLOCKS: [(u32, u32); 36] = [
    (0xc0, 0x17e),
    (0x1a0, 0x1b0),
    (0x1cd, 0x233),
    (0x374, 0x390),
    (0x3aa, 0x3b0),
    (0x3ca, 0x3d4),
    (0x400, 0x419),
    (0x439, 0x477),
    (0x4c1, 0x4f9),
    (0x958, 0x95f),
    (0x9dc, 0x9df),
    (0xa33, 0xa36),
    (0xa59, 0xa5e),
    (0xb5c, 0xb5d),
    (0xf43, 0xfb9),
    (0x1e00, 0x2001),
    (0x212b, 0x212b),
    (0x219a, 0x21ae),
    (0x21cd, 0x21cf),
    (0x2204, 0x2226),
    (0x2241, 0x2289),
    (0x22ac, 0x22af),
    (0x22e0, 0x22ed),
    (0x2329, 0x232a),
    (0x2adc, 0x2adc),
    (0x3000, 0x3000),
    (0xa7ce, 0xa7d4),
    (0xf900, 0xfad9),
    (0xfb00, 0xfb4e),
    (0xff01, 0xff5e),
    (0x105c9, 0x105c9),
    (0x105e4, 0x105e4),
    (0x16ea0, 0x16eb8),
    (0x1d15e, 0x1d164),
    (0x1d1bb, 0x1d1c0),
    (0x2f800, 0x2fa1d),
];

/// The marks that are folded away: one may stand behind every character.
const MARKS: std::ops::RangeInclusive<u32> = 0x300..=0x36f;

/// The characters of [`BLOCKS`] that do, with what they fold to.
static IRREGULAR: LazyLock<Vec<(char, Box<str>)>> = LazyLock::new(|| {
    let all = BLOCKS.iter().flat_map(|(first, last)| *first..=*last);
    all.filter_map(|code| irregular(char::from_u32(code)?))
        .collect()
});

fn irregular(c: char) -> Option<(char, Box<str>)> {
    let mut bytes = [0; 4];
    let text: &str = c.encode_utf8(&mut bytes);
    let folded = fold(text);
    if *folded == *text || MARKS.contains(&u32::from(c)) {
        return None;
    }
    let mut chars = folded.chars();
    let is_case = match (chars.next(), chars.next()) {
        (Some(one), None) => cases(one).contains(&c),
        _ => false,
    };
    (!is_case).then(|| (c, folded.into()))
}

/// Characters without one of which a text holds no run otherwise than in plain characters.
#[derive(Debug)]
pub(crate) struct Spellings {
    /// In order.
    chars: Vec<u32>,
    /// By a character's first byte, a bit for the second.
    pairs: [u64; 64],
}

impl Spellings {
    /// Those of folded runs.
    pub(crate) fn of(runs: &[Run]) -> Self {
        let is_in = |c: char| runs.iter().any(|run| run.contains(&c));
        let other = IRREGULAR.iter();
        let other = other.filter(|(_, folded)| folded.chars().any(is_in));
        let mut chars: Vec<u32> = other.map(|(c, _)| u32::from(*c)).chain(MARKS).collect();
        chars.extend(
            runs.iter()
                .flatten()
                .filter_map(|c| last_part(*c))
                .map(u32::from),
        );
        chars.sort_unstable();
        chars.dedup();
        let mut pairs = [0; 64];
        for c in chars.iter().filter_map(|code| char::from_u32(*code)) {
            let mut bytes = [0; 4];
            if let [first, second, ..] = *c.encode_utf8(&mut bytes).as_bytes()
                && let Some(pair) = pairs.get_mut(usize::from(first & 0x3f))
            {
                *pair |= 1_u64 << (second & 0x3f);
            }
        }
        Self { chars, pairs }
    }

    /// All of them.
    pub(crate) fn codes(&self) -> impl Iterator<Item = u32> {
        self.chars.iter().copied()
    }

    /// Whether a character is one of them.
    pub(crate) fn has(&self, code: u32) -> bool {
        self.chars.binary_search(&code).is_ok()
    }

    /// Whether one of them stands anywhere in `text`.
    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        let mut from = 0;
        for stretch in text.chunks(64) {
            if !stretch.is_ascii() {
                let mut firsts = stretch.iter().enumerate().filter(|(_, b)| **b >= 0xc2);
                if firsts.any(|(at, first)| self.is_at(text, from + at, *first)) {
                    return true;
                }
            }
            from += stretch.len();
        }
        false
    }

    fn is_at(&self, text: &[u8], at: usize, first: u8) -> bool {
        let pair = self.pairs.get(usize::from(first & 0x3f));
        let second = text.get(at + 1).copied().unwrap_or_default();
        if pair.is_none_or(|pair| pair >> (second & 0x3f) & 1 == 0) {
            return false;
        }
        let len = match first {
            ..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        let c = text.get(at..at + len);
        let c = c.and_then(|bytes| std::str::from_utf8(bytes).ok()?.chars().next());
        c.is_some_and(|c| self.has(u32::from(c)))
    }
}

/// The last of the parts that a character is composed of.
fn last_part(c: char) -> Option<char> {
    let (mut parts, mut last) = (0, c);
    decompose_canonical(c, |part| {
        parts += 1;
        last = part;
    });
    (parts > 1).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_hold_all_of_them() {
        let is_in = |c: char| {
            let mut blocks = BLOCKS.iter();
            blocks.any(|(first, last)| (*first..=*last).contains(&u32::from(c)))
        };
        for c in '\u{80}'..=char::MAX {
            assert!(is_in(c) || irregular(c).is_none(), "{c:?}");
        }
        assert!(IRREGULAR.len() > 1_500);
    }

    #[test]
    fn only_what_shares_a_letter_is_another_spelling() {
        let of = |run: &str| Spellings::of(&[run.chars().collect()]);
        let has = |run: &str, c: char| of(run).has(u32::from(c));
        for (run, c) in [
            ("e", 'É'),
            ("s", 'ß'),
            ("o", 'œ'),
            ("x", '\u{301}'),
            ("が", '\u{3099}'),
            ("각", '\u{11a8}'),
            ("5", '５'),
        ] {
            assert!(has(run, c), "{run} {c}");
            assert!(of(run).is_in(format!("── {c}").as_bytes()), "{run} {c}");
        }
        for (run, c) in [
            ("x", 'é'),
            ("e", '─'),
            ("e", '日'),
            ("か", '\u{3099}'),
            ("s", 'š'),
        ] {
            assert_eq!(has(run, c), c == 'š', "{run} {c}");
        }
        assert!(!of("e").is_in("日本語 😀 ┌─┐ “”".as_bytes()));
        assert!(of("e").is_in(&["─".repeat(100).as_bytes(), b"\xc3\xa9"].concat()));
        assert!(!of("e").is_in(b"\xff\xc3"));
    }
}
