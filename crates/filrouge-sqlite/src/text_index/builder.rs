//! From the grams of documents to the documents of grams.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use filrouge_store::text_index::{DocumentNo, each_gram};

/// Grams of three ASCII characters are below this (their two lowest bits are 0).
const ASCII_GRAMS: usize = 1 << 21;

/// Postings that are being made.
#[derive(Default)]
pub(super) struct Builder {
    /// By ASCII gram: its slot and one more.
    ascii: Vec<u32>,
    wide: HashMap<u64, u32, BuildHasherDefault<Mixer>>,
    slots: Vec<Slot>,
    /// The slots of each document, one after the other, each once.
    held: Vec<u32>,
    /// The documents in their order, and how many of `held` precede them.
    documents: Vec<(DocumentNo, usize)>,
    text: usize,
}

struct Slot {
    gram: u64,
    /// The newest document that holds it, as its place and one more.
    last: u32,
    count: u32,
}

/// Grams of other letters are mixed already.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(26);
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
        each_gram(folded, &mut |gram| self.put(gram, place));
    }

    /// As [`Self::add`], by its grams.
    pub(super) fn add_grams(&mut self, no: DocumentNo, grams: &[u64], text: usize) {
        let place = self.begin(no, text);
        for gram in grams {
            self.put(*gram, place);
        }
    }

    fn begin(&mut self, no: DocumentNo, text: usize) -> u32 {
        if self.ascii.is_empty() {
            self.ascii = vec![0; ASCII_GRAMS];
        }
        self.documents.push((no, self.held.len()));
        self.text += text;
        u32::try_from(self.documents.len()).unwrap_or(u32::MAX)
    }

    fn put(&mut self, gram: u64, place: u32) {
        let next = u32::try_from(self.slots.len()).unwrap_or(u32::MAX - 1);
        let ascii = usize::try_from(gram >> 2).unwrap_or(usize::MAX);
        let known = match self.ascii.get_mut(ascii) {
            Some(slot) if gram & 3 == 0 => {
                if *slot == 0 {
                    *slot = next + 1;
                }
                *slot - 1
            }
            _ => *self.wide.entry(gram).or_insert(next),
        };
        if known == next {
            self.slots.push(Slot {
                gram,
                last: 0,
                count: 0,
            });
        }
        if let Some(slot) = self.slots.get_mut(known as usize)
            && slot.last != place
        {
            slot.last = place;
            slot.count += 1;
            self.held.push(known);
        }
    }

    /// Shows `each` every gram in order with its documents.
    pub(super) fn finish<E>(
        self,
        mut each: impl FnMut(u64, &[DocumentNo]) -> Result<(), E>,
    ) -> Result<(), E> {
        // Where the places of each slot's documents begin.
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
        let mut order: Vec<(u64, usize, usize)> = self
            .slots
            .iter()
            .zip(starts)
            .map(|(slot, start)| (slot.gram, start, slot.count as usize))
            .collect();
        order.sort_unstable();
        let mut numbers = Vec::new();
        for (gram, start, count) in order {
            let places = places.get(start..start + count).unwrap_or(&[]);
            let of = places
                .iter()
                .map(|place| self.documents.get(*place as usize));
            numbers.clear();
            numbers.extend(of.flatten().map(|d| d.0));
            each(gram, &numbers)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use filrouge_store::text_index::grams;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_by_the_grams_of_each(texts in proptest::collection::vec("[a-c中文é\u{1f} ]{0,12}", 0..12)) {
            let mut expected: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            let mut builder = Builder::default();
            for (no, text) in (10_u64..).step_by(3).zip(&texts) {
                let grams = grams(text);
                for gram in &grams {
                    expected.entry(*gram).or_default().push(no);
                }
                match no % 2 {
                    0 => builder.add(no, text),
                    _ => builder.add_grams(no, &grams, text.len()),
                }
            }
            let mut made = Vec::new();
            let done: Result<(), ()> = builder.finish(|gram, numbers| {
                made.push((gram, numbers.to_vec()));
                Ok(())
            });
            prop_assert!(done.is_ok());
            prop_assert_eq!(made, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
