//! From the words of documents to the documents of words.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use filrouge_store::text_index::DocumentNo;

use super::junctions::each_term;
use super::words::number;

/// Words with their numbers.
type Spelled = Vec<(u64, Box<str>)>;

/// Postings that are being made.
#[derive(Default)]
pub(super) struct Builder {
    /// The slots of words by their numbers.
    known: HashMap<u64, u32, BuildHasherDefault<Plain>>,
    slots: Vec<Slot>,
    /// The words of the slots, one after the other.
    words: String,
    /// Words whose number another one has.
    others: Spelled,
    /// The slots of each document, one after the other, each once.
    held: Vec<u32>,
    /// The documents in their order, and how many of `held` precede them.
    documents: Vec<(DocumentNo, usize)>,
    text: usize,
}

struct Slot {
    number: u64,
    /// Where the word ends in `words`.
    end: usize,
    len: usize,
    /// The newest document that holds it, as its place and one more.
    last: u32,
    count: u32,
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
        self.documents.len()
    }

    /// Bytes of their texts.
    pub(super) fn text(&self) -> usize {
        self.text
    }

    /// The least and the greatest document.
    pub(super) fn range(&self) -> Option<(DocumentNo, DocumentNo)> {
        Some((self.documents.first()?.0, self.documents.last()?.0))
    }

    /// Adds a document, whose number is greater than those before it.
    pub(super) fn add(&mut self, no: DocumentNo, folded: &str) {
        let place = self.begin(no, folded.len());
        each_term(folded, &mut |word| self.put(word, place));
    }

    /// As [`Self::add`], by its words.
    pub(super) fn add_words<'w>(
        &mut self,
        no: DocumentNo,
        words: impl Iterator<Item = &'w str>,
        text: usize,
    ) {
        let place = self.begin(no, text);
        words.for_each(|word| self.put(word, place));
    }

    fn begin(&mut self, no: DocumentNo, text: usize) -> u32 {
        self.documents.push((no, self.held.len()));
        self.text += text;
        u32::try_from(self.documents.len()).unwrap_or(u32::MAX)
    }

    fn put(&mut self, word: &str, place: u32) {
        let number = number(word);
        let next = u32::try_from(self.slots.len()).unwrap_or(u32::MAX - 1);
        let known = *self.known.entry(number).or_insert(next);
        if known == next {
            self.words.push_str(word);
            self.slots.push(Slot {
                number,
                end: self.words.len(),
                len: word.len(),
                last: 0,
                count: 0,
            });
        }
        let Some(slot) = self.slots.get_mut(known as usize) else {
            return;
        };
        if self.words.get(slot.end - slot.len..slot.end) != Some(word) {
            let other = (slot.number, word.into());
            if !self.others.contains(&other) {
                self.others.push(other);
            }
        }
        if slot.last != place {
            slot.last = place;
            slot.count += 1;
            self.held.push(known);
        }
    }

    /// Shows `each` every word with its number, in the order of these, and its documents; words that share a number have
    /// those of both.
    pub(super) fn finish<E>(
        self,
        mut each: impl FnMut(u64, &str, &[DocumentNo]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (places, starts) = self.places();
        let mut order: Vec<(u64, usize)> = self.slots.iter().map(|s| s.number).zip(0..).collect();
        order.sort_unstable();
        let mut others = self.others;
        others.sort_unstable();
        let mut others = others.into_iter().peekable();
        let mut numbers = Vec::new();
        for (number, at) in order {
            let (Some(slot), Some(start)) = (self.slots.get(at), starts.get(at)) else {
                continue;
            };
            let places = places.get(*start..start + slot.count as usize);
            let of = places.unwrap_or(&[]).iter();
            let of = of.map(|place| self.documents.get(*place as usize));
            numbers.clear();
            numbers.extend(of.flatten().map(|d| d.0));
            let word = self.words.get(slot.end - slot.len..slot.end);
            each(number, word.unwrap_or_default(), &numbers)?;
            while let Some((_, other)) = others.next_if(|(of, _)| *of == number) {
                each(number, &other, &numbers)?;
            }
        }
        Ok(())
    }

    /// The places of the documents of each slot, one slot after the other, and where each slot's begin.
    fn places(&self) -> (Vec<u32>, Vec<usize>) {
        let mut next = Vec::with_capacity(self.slots.len());
        let mut sum = 0_usize;
        for slot in &self.slots {
            next.push(sum);
            sum += slot.count as usize;
        }
        let starts = next.clone();
        let mut places = vec![0_u32; sum];
        let ends = self.documents.iter().skip(1).map(|d| d.1);
        let ends = ends.chain([self.held.len()]);
        for ((place, (_, start)), end) in (0_u32..).zip(&self.documents).zip(ends) {
            for slot in self.held.get(*start..end).unwrap_or(&[]) {
                if let Some(at) = next.get_mut(*slot as usize) {
                    if let Some(free) = places.get_mut(*at) {
                        *free = place;
                    }
                    *at += 1;
                }
            }
        }
        (places, starts)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

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
        builder.known.insert(number("two"), 0);
        builder.add(2, "two one two");
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
