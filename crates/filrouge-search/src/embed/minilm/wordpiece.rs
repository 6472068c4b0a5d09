//! Cuts texts into pieces of words and returns the numbers of the pieces: BERT's WordPiece, with the vocabulary of the
//! uncased models.

use std::collections::HashMap;

use super::normalizer::Normalizer;
use crate::embed::EmbedError;

/// The maximum number of characters of a word; a longer word becomes one unknown piece, as in the model's training.
const MAX_WORD_CHARS: usize = 100;

/// A vocabulary: the pieces of words, each with its number.
pub(super) struct WordPiece {
    normalizer: Normalizer,
    /// Pieces at the start of a word.
    starts: HashMap<Box<str>, i32>,
    /// Pieces within a word, without the `##` that marks them in the file.
    insides: HashMap<Box<str>, i32>,
    /// The number of `[UNK]`, the piece for unknown words.
    unknown: i32,
    /// The number of `[CLS]`, the marker before a text.
    start_marker: i32,
    /// The number of `[SEP]`, the marker after a text.
    end_marker: i32,
}

impl WordPiece {
    /// Reads `vocab.txt`: one piece per line, numbered from 0.
    pub(super) fn read(vocabulary: &str) -> Result<Self, EmbedError> {
        let invalid = |problem: &str| EmbedError::Malformed(format!("the vocabulary {problem}"));
        let (mut starts, mut insides) = (HashMap::new(), HashMap::new());
        for (number, line) in (0_i32..).zip(vocabulary.lines()) {
            match line.strip_prefix("##") {
                Some(inside) if !inside.is_empty() => insides.insert(inside.into(), number),
                _ => starts.insert(Box::from(line), number),
            };
        }
        let special = |name: &str| {
            let number = starts.get(name).copied();
            number.ok_or_else(|| invalid(&format!("has no {name}")))
        };
        Ok(Self {
            unknown: special("[UNK]")?,
            start_marker: special("[CLS]")?,
            end_marker: special("[SEP]")?,
            normalizer: Normalizer::new()
                .ok_or_else(|| invalid("finds no classes of characters"))?,
            starts,
            insides,
        })
    }

    /// Returns the pieces of a text between the two end markers: at most `limit` pieces, including the markers. The
    /// rest of the text is omitted. Names of special pieces in a text, such as `[SEP]`, are treated like other text.
    pub(super) fn pieces(&self, text: &str, limit: usize) -> Vec<i32> {
        let mut pieces = vec![self.start_marker];
        let max_without_end = limit.saturating_sub(1);
        self.normalizer.each_word(text, |word| {
            self.push_pieces(word, &mut pieces);
            pieces.len() < max_without_end
        });
        pieces.truncate(max_without_end);
        pieces.push(self.end_marker);
        pieces
    }

    /// Appends the pieces of a word to `pieces`. From the left, each piece is the longest that the vocabulary has. A
    /// word with an unknown part becomes one unknown piece.
    fn push_pieces(&self, word: &str, pieces: &mut Vec<i32>) {
        let length_before = pieces.len();
        if word.chars().nth(MAX_WORD_CHARS).is_some() {
            pieces.push(self.unknown);
            return;
        }
        let (mut vocabulary, mut rest) = (&self.starts, word);
        while !rest.is_empty() {
            let ends = rest.char_indices().rev().map(|(at, c)| at + c.len_utf8());
            let longest = ends
                .map(|end| rest.split_at(end))
                .find_map(|(piece, rest)| vocabulary.get(piece).map(|number| (*number, rest)));
            let Some((number, remainder)) = longest else {
                pieces.truncate(length_before);
                pieces.push(self.unknown);
                return;
            };
            pieces.push(number);
            (vocabulary, rest) = (&self.insides, remainder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small vocabulary, in which the line number of a piece is its number.
    const SMALL_VOCABULARY: &str =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\nthe\n,\n中\n##a\na\n[\n]\nsep\ncafe\n##e";

    fn piece_names(text: &str, limit: usize) -> Vec<&'static str> {
        let names: Vec<&str> = SMALL_VOCABULARY.lines().collect();
        let pieces = WordPiece::read(SMALL_VOCABULARY)
            .unwrap()
            .pieces(text, limit);
        pieces
            .iter()
            .map(|n| names[usize::try_from(*n).unwrap()])
            .collect()
    }

    #[test]
    fn words_are_cut_into_the_longest_pieces() {
        for (text, pieces) in [
            ("", "[CLS] [SEP]"),
            ("The UNAFFABLE,the", "[CLS] the un ##aff ##able , the [SEP]"),
            // A word with an unknown part becomes one unknown piece.
            ("unaffablex the", "[CLS] [UNK] the [SEP]"),
            ("中中a", "[CLS] 中 中 a [SEP]"),
            ("Café cafe\u{301}e", "[CLS] cafe cafe ##e [SEP]"),
            ("t\u{200b}h\u{0}e\u{fffd}", "[CLS] the [SEP]"),
            ("[SEP]", "[CLS] [ sep ] [SEP]"),
        ] {
            assert_eq!(piece_names(text, 256).join(" "), pieces, "{text:?}");
        }
        let long = "a".repeat(MAX_WORD_CHARS);
        assert_eq!(piece_names(&long, 256).len(), 2 + MAX_WORD_CHARS);
        assert_eq!(piece_names(&(long + "a"), 256), ["[CLS]", "[UNK]", "[SEP]"]);
    }

    #[test]
    fn a_long_text_is_truncated() {
        let text = "the unaffable ".repeat(1000);
        assert_eq!(
            piece_names(&text, 6).join(" "),
            "[CLS] the un ##aff ##able [SEP]"
        );
        assert_eq!(piece_names(&text, 5).join(" "), "[CLS] the un ##aff [SEP]");
        assert_eq!(piece_names(&text, 256).len(), 256);
    }

    #[test]
    fn a_vocabulary_without_marks_is_refused() {
        let result = WordPiece::read("[UNK]\n[CLS]\nthe").map(|_| ());
        let why = "the vocabulary has no [SEP]".to_owned();
        assert_eq!(result, Err(EmbedError::Malformed(why)));
    }
}
