//! [`Builder`]: inverts documents. It collects the words of each document, and returns the documents of each word.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use filrouge_store::text_index::DocumentNo;

use super::junctions::{BUCKETS, bucket_of, bucket_word, each_bucket};
use super::words::{each_word, number};

/// Postings under construction.
#[derive(Default)]
pub(super) struct Builder {
    /// The words with their documents, by word number.
    slots: HashMap<u64, WordSlot, BuildHasherDefault<NumberHasher>>,
    /// For each bucket of junctions (see `junctions.rs`), the newest document and all documents with a junction in the
    /// bucket. Junctions are stored as words, but are collected here and not in `slots`, because most texts have more
    /// junctions than words.
    junctions: Vec<(Option<DocumentNo>, Vec<DocumentNo>)>,
    /// The lowest and the highest document number.
    range: Option<(DocumentNo, DocumentNo)>,
    /// The number of documents.
    count: usize,
    /// The number of bytes of the documents' texts.
    text_bytes: usize,
}

/// All words with one number, and the documents that contain one of them, each once and in ascending order.
struct WordSlot {
    /// The newest document, and the word's length and first bytes, are stored inline, so that most occurrences access
    /// no other memory.
    newest: DocumentNo,
    bytes: usize,
    prefix: [u8; PREFIX_BYTES],
    word: Box<str>,
    /// Other words with the same number.
    others: BTreeSet<Box<str>>,
    documents: Vec<DocumentNo>,
}

/// The number of a word's first bytes that a slot stores inline.
const PREFIX_BYTES: usize = 8;

/// Returns the first bytes of a word, padded with zeros.
fn prefix_of(word: &str) -> [u8; PREFIX_BYTES] {
    let mut prefix = [0; PREFIX_BYTES];
    let bytes = word.as_bytes();
    let count = bytes.len().min(PREFIX_BYTES);
    prefix[..count].copy_from_slice(&bytes[..count]);
    prefix
}

impl WordSlot {
    fn new(word: &str, no: DocumentNo) -> Self {
        Self {
            newest: no,
            bytes: word.len(),
            prefix: prefix_of(word),
            word: word.into(),
            others: BTreeSet::new(),
            documents: vec![no],
        }
    }

    /// Whether `word` is the slot's first word.
    fn has_first_word(&self, word: &str) -> bool {
        self.bytes == word.len()
            && self.prefix == prefix_of(word)
            && (word.len() <= PREFIX_BYTES || *self.word == *word)
    }
}

/// A hasher for the numbers of words, which are already hashes.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, n: u64) {
        // The highest bit of a number is always 0, but the hash table uses the highest bits.
        self.0 = n << 1;
    }
}

impl Builder {
    /// Returns the number of documents.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The number of bytes of the documents' texts.
    pub(super) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// The lowest and the highest document number.
    pub(super) fn range(&self) -> Option<(DocumentNo, DocumentNo)> {
        self.range
    }

    /// Adds a document with its folded text. Its number must exceed those of all documents added before.
    pub(super) fn add(&mut self, no: DocumentNo, folded: &str) {
        self.begin(no, folded.len());
        each_word(folded, &mut |word| self.add_word(number(word), word, no));
        each_bucket(folded, &mut |bucket| self.add_junction(bucket, no));
    }

    /// Like [`Self::add`], but from a list of the document's words and junctions; `text` is the number of bytes of its
    /// text.
    pub(super) fn add_words<'w>(
        &mut self,
        no: DocumentNo,
        words: impl Iterator<Item = &'w str>,
        text: usize,
    ) {
        self.begin(no, text);
        words.for_each(|word| match bucket_of(word) {
            Some(bucket) => self.add_junction(bucket, no),
            None => self.add_word(number(word), word, no),
        });
    }

    fn begin(&mut self, no: DocumentNo, text: usize) {
        self.range = Some((self.range.map_or(no, |(first, _)| first), no));
        self.count += 1;
        self.text_bytes += text;
    }

    fn add_word(&mut self, number: u64, word: &str, no: DocumentNo) {
        match self.slots.entry(number) {
            Entry::Vacant(free) => {
                free.insert(WordSlot::new(word, no));
            }
            Entry::Occupied(slot) => {
                let slot = slot.into_mut();
                if !slot.has_first_word(word) {
                    slot.others.insert(word.into());
                }
                if slot.newest != no {
                    slot.newest = no;
                    slot.documents.push(no);
                }
            }
        }
    }

    fn add_junction(&mut self, bucket: usize, no: DocumentNo) {
        self.junctions.resize_with(BUCKETS, Default::default);
        if let Some((newest, documents)) = self.junctions.get_mut(bucket)
            && *newest != Some(no)
        {
            *newest = Some(no);
            documents.push(no);
        }
    }

    /// Calls `each` with every word, its number and its documents, in the order of the numbers. For words that share a
    /// number, `each` receives the documents that contain any of them.
    pub(super) fn finish<E>(
        self,
        mut each: impl FnMut(u64, &str, &[DocumentNo]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut slots = self.slots;
        for (bucket, (newest, documents)) in self.junctions.into_iter().enumerate() {
            let Some(no) = newest else {
                continue;
            };
            let mut letters = [0; 4];
            let word = &*bucket_word(bucket).encode_utf8(&mut letters);
            let slot = slots.entry(number(word));
            let slot = slot.or_insert_with(|| WordSlot::new(word, no));
            if !slot.has_first_word(word) {
                slot.others.insert(word.into());
            }
            slot.documents.extend(documents);
            slot.documents.sort_unstable();
            slot.documents.dedup();
        }
        let mut slots: Vec<(u64, WordSlot)> = slots.into_iter().collect();
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

    use super::super::junctions::each_term;
    use super::*;

    proptest! {
        #[test]
        fn postings_equal_a_naive_inversion(texts in proptest::collection::vec("[a-c中文é\u{1f} ]{0,12}", 0..12)) {
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
            let mut inverted = Vec::new();
            let result: Result<(), ()> = builder.finish(|number, word, numbers| {
                inverted.push(((number, word.to_owned()), numbers.to_vec()));
                Ok(())
            });
            prop_assert!(result.is_ok());
            prop_assert_eq!(inverted, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn words_that_share_a_number_are_both_returned() {
        let mut builder = Builder::default();
        builder.add(1, "one");
        for word in ["two", "one", "two"] {
            builder.add_word(number("one"), word, 2);
        }
        let mut inverted = Vec::new();
        let result: Result<(), ()> = builder.finish(|number, word, numbers| {
            inverted.push((number, word.to_owned(), numbers.to_vec()));
            Ok(())
        });
        assert!(result.is_ok());
        let number_of_one = number("one");
        inverted.retain(|(number, ..)| *number == number_of_one);
        let expected = ["one", "two"].map(|word| (number_of_one, word.to_owned(), vec![1, 2]));
        assert_eq!(inverted, expected);
    }
}
