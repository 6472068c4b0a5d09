//! Lists of words as text: a line end before the first word, and one after each word.

use std::collections::BTreeSet;

use memchr::{memchr, memmem, memrchr};

use super::junctions::each_term;

/// Encodes the words and junctions of a folded text as a list; each occurs once.
pub(super) fn encode(folded: &str) -> Vec<u8> {
    let mut words = BTreeSet::new();
    each_term(folded, &mut |word| {
        if !words.contains(word) {
            words.insert(Box::<str>::from(word));
        }
    });
    let mut list = vec![b'\n'];
    for word in words {
        list.extend(word.as_bytes());
        list.push(b'\n');
    }
    list
}

/// The words of a list.
pub(super) fn decode(words: &[u8]) -> impl Iterator<Item = &str> {
    let words = words.split(|byte| *byte == b'\n');
    words.filter_map(|word| {
        std::str::from_utf8(word)
            .ok()
            .filter(|word| !word.is_empty())
    })
}

/// Whether a list has a word with this part; `pattern` is [`WordPart::pattern`].
pub(super) fn contains(words: &[u8], pattern: &[u8]) -> bool {
    memmem::find(words, pattern).is_some()
}

/// Calls `each` once for each word of a list in which `finder` matches, with the word's offset in the list and the
/// word.
pub(super) fn each_match(
    words: &[u8],
    finder: &memmem::Finder<'_>,
    each: &mut impl FnMut(usize, &str),
) {
    let mut from = 0;
    while let Some(at) = words
        .get(from..)
        .and_then(|remaining| finder.find(remaining))
    {
        let at = from + at;
        // A match that starts with a line end belongs to the word after it.
        let word_at = at + usize::from(words.get(at) == Some(&b'\n'));
        let start = words.get(..word_at).and_then(|w| memrchr(b'\n', w));
        let start = start.map_or(0, |at| at + 1);
        let line_end = words
            .get(word_at..)
            .and_then(|remaining| memchr(b'\n', remaining));
        let end = line_end.map_or(words.len(), |len| word_at + len);
        let word = words.get(start..end).map(std::str::from_utf8);
        if let Some(Ok(word)) = word {
            each(start, word);
        }
        from = end.max(at + 1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text_index::words::parts;

    proptest! {
        #[test]
        fn words_are_found_by_their_parts(words in proptest::collection::vec("[abé]{1,5}", 0..20), literal in "[abé]{1,3}", begins: bool, ends: bool) {
            let list = format!("\n{}\n", words.join("\n"));
            let mut part = parts(&literal).remove(0);
            (part.begins, part.ends) = (begins, ends);
            let pattern = part.pattern();
            let mut matched = Vec::new();
            each_match(list.as_bytes(), &memmem::Finder::new(&pattern), &mut |start, word| {
                assert!(list[start..].starts_with(word));
                matched.push(word.to_owned());
            });
            let matches = |word: &&String| match (begins, ends) {
                (true, true) => **word == literal,
                (true, false) => word.starts_with(&literal),
                (false, true) => word.ends_with(&literal),
                (false, false) => word.contains(&literal),
            };
            let expected: Vec<String> = words.iter().filter(matches).cloned().collect();
            prop_assert_eq!(contains(list.as_bytes(), &pattern), !expected.is_empty());
            prop_assert_eq!(matched, expected);
        }
    }
}
