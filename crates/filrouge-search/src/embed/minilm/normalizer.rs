//! Normalizes a text as BERT's uncased models require before they cut it into pieces: splits the text into words, in
//! lower case and without accents.

use regex_syntax::hir::{Class, ClassUnicode, HirKind};
use unicode_normalization::UnicodeNormalization;

/// Classes of characters, from the Unicode tables of `regex-syntax`.
pub(super) struct Normalizer {
    /// Nonspacing marks such as accents, general category Mn.
    marks: ClassUnicode,
    /// Punctuation: general category P.
    punctuation: ClassUnicode,
    /// Control, format and private-use characters: general category C without the unassigned ones.
    control: ClassUnicode,
}

impl Normalizer {
    /// Returns `None` if a table of `regex-syntax` is missing.
    pub(super) fn new() -> Option<Self> {
        Some(Self {
            marks: unicode_class(r"\p{Mn}")?,
            punctuation: unicode_class(r"\p{P}")?,
            control: unicode_class(r"[\p{Cc}\p{Cf}\p{Co}]")?,
        })
    }

    /// Passes the normalized words of a text to `each`, in order, until `each` returns false. Each punctuation mark and
    /// each Chinese character is a separate word.
    pub(super) fn each_word(&self, text: &str, mut each: impl FnMut(&str) -> bool) {
        let mut word = String::new();
        let normalized = text
            .chars()
            .filter(|c| !self.is_removed(*c))
            .nfd()
            .filter(|c| !is_in(&self.marks, *c))
            .flat_map(char::to_lowercase);
        for c in normalized {
            let is_punctuation =
                c.is_ascii_punctuation() || !c.is_ascii() && is_in(&self.punctuation, c);
            let is_separate = is_chinese(c) || is_punctuation;
            if is_separate || c.is_whitespace() {
                if !word.is_empty() && !each(&word) {
                    return;
                }
                word.clear();
            }
            if is_separate && !each(c.encode_utf8(&mut [0; 4])) {
                return;
            }
            if !is_separate && !c.is_whitespace() {
                word.push(c);
            }
        }
        if !word.is_empty() {
            each(&word);
        }
    }

    fn is_removed(&self, c: char) -> bool {
        match c {
            '\t' | '\n' | '\r' | ' '..='~' => false,
            '\u{fffd}' => true,
            c => is_in(&self.control, c),
        }
    }
}

fn unicode_class(pattern: &str) -> Option<ClassUnicode> {
    match regex_syntax::parse(pattern).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        _ => None,
    }
}

fn is_in(class: &ClassUnicode, c: char) -> bool {
    let ranges = class.ranges();
    let after = ranges.partition_point(|range| range.end() < c);
    ranges.get(after).is_some_and(|range| range.start() <= c)
}

/// Whether BERT treats a character as a Chinese ideograph. Kana and Hangul are no ideographs: they form words as
/// letters do.
const fn is_chinese(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2b73f}' | '\u{2b740}'..='\u{2b81f}' | '\u{2b920}'..='\u{2ceaf}'
        | '\u{f900}'..='\u{faff}' | '\u{2f800}'..='\u{2fa1f}')
}
