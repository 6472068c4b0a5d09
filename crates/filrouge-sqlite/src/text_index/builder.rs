//! From the words of documents to the documents of words.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use filrouge_store::text_index::DocumentNo;

use super::junctions::each_term;
use super::words::number;

/// Postings that are being made.
#[derive(Default)]
pub(super) struct Builder {
    /// By the numbers of words.
    slots: HashMap<u64, Slot, BuildHasherDefault<Plain>>,
    /// The least and the greatest document.
    range: Option<(DocumentNo, DocumentNo)>,
    count: usize,
    text: usize,
}

/// A word with the documents that hold it, each once and in order.
struct Slot {
    word: Box<str>,
    /// Words that share its number.
    others: BTreeSet<Box<str>>,
    documents: Vec<DocumentNo>,
}

/// Numbers of words are mixed already.
#[derive(Default)]
struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, n: u64) {
        // Their highest bit is 0; the table looks at the highest ones.
        self.0 = n << 1;
    }
}

impl Builder {
    /// How many documents are in it.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Bytes of their texts.
    pub(super) fn text(&self) -> usize {
        self.text
    }

    /// The least and the greatest document.
    pub(super) fn range(&self) -> Option<(DocumentNo, DocumentNo)> {
        self.range
    }

    /// Adds a document, whose number is greater than those before it.
    pub(super) fn add(&mut self, no: DocumentNo, folded: &str) {
        self.begin(no, folded.len());
        each_term(folded, &mut |word| self.put(number(word), word, no));
    }

    /// As [`Self::add`], by its words.
    pub(super) fn add_words<'w>(
        &mut self,
        no: DocumentNo,
        words: impl Iterator<Item = &'w str>,
        text: usize,
    ) {
        self.begin(no, text);
        words.for_each(|word| self.put(number(word), word, no));
    }

    fn begin(&mut self, no: DocumentNo, text: usize) {
        self.range = Some((self.range.map_or(no, |(first, _)| first), no));
        self.count += 1;
        self.text += text;
    }

    fn put(&mut self, number: u64, word: &str, no: DocumentNo) {
        let slot = self.slots.entry(number).or_insert_with(|| Slot {
            word: word.into(),
            others: BTreeSet::new(),
            documents: Vec::new(),
        });
        if *slot.word != *word {
            slot.others.insert(word.into());
        }
        if slot.documents.last() != Some(&no) {
            slot.documents.push(no);
        }
    }

    /// Shows `each` every word with its number, in the order of these, and its documents; words that share a number have
    /// those of both.
    pub(super) fn finish<E>(
        self,
        mut each: impl FnMut(u64, &str, &[DocumentNo]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut slots: Vec<(u64, Slot)> = self.slots.into_iter().collect();
        slots.sort_unstable_by_key(|(number, _)| *number);
        for (number, slot) in slots {
            for word in [&slot.word].into_iter().chain(&slot.others) {
                each(number, word, &slot.documents)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_by_the_words_of_each(texts in proptest::collection::vec("[a-c中文é\u{1f} ]{0,12}", 0..12)) {
            let mut expected: BTreeMap<(u64, String), Vec<u64>> = BTreeMap::new();
            let mut builder = Builder::default();
            for (no, text) in (10_u64..).step_by(3).zip(&texts) {
                let mut words = BTreeSet::new();
                each_term(text, &mut |word| {
                    words.insert(word.to_owned());
                });
                for word in &words {
                    expected.entry((number(word), word.clone())).or_default().push(no);
                }
                let words = words.iter().map(String::as_str);
                match no % 2 {
                    0 => builder.add(no, text),
                    _ => builder.add_words(no, words, text.len()),
                }
            }
            let mut made = Vec::new();
            let done: Result<(), ()> = builder.finish(|number, word, numbers| {
                made.push(((number, word.to_owned()), numbers.to_vec()));
                Ok(())
            });
            prop_assert!(done.is_ok());
            prop_assert_eq!(made, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn words_that_share_a_number_are_both_spelled() {
        let mut builder = Builder::default();
        builder.add(1, "one");
        for word in ["two", "one", "two"] {
            builder.put(number("one"), word, 2);
        }
        let mut made = Vec::new();
        let done: Result<(), ()> = builder.finish(|number, word, numbers| {
            made.push((number, word.to_owned(), numbers.to_vec()));
            Ok(())
        });
        assert!(done.is_ok());
        let one = number("one");
        made.retain(|(number, ..)| *number == one);
        let expected = ["one", "two"].map(|word| (one, word.to_owned(), vec![1, 2]));
        assert_eq!(made, expected);
    }
}
