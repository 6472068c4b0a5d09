//! Vectors as they are stored, a byte for each dimension, and the scan over all of them.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Before the bytes of the dimensions stands what each of them is multiplied by.
const SCALE: usize = size_of::<f32>();
/// Summed up at once: as many as the compiler needs to take several in one instruction.
const LANES: usize = 32;

/// A vector of unit length with eight bits for each element, as an index keeps it. Products of two of one length are
/// compared as they are: elements are measured by what they are on the average, not by the largest of each vector.
#[must_use]
pub fn quantized(exact: &[f32]) -> Vec<i8> {
    #[allow(clippy::cast_precision_loss, reason = "no vector is that long")]
    let scale = (exact.len() as f32).sqrt() * 20.0;
    // `as` keeps within the bounds, and makes what is no number 0.
    #[allow(clippy::cast_possible_truncation, reason = "meant")]
    let element = |x: &f32| (x * scale).round().clamp(-127.0, 127.0) as i8;
    exact.iter().map(element).collect()
}

/// A vector of unit length with eight bits for each dimension; some 0.4 % of a dimension's largest is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vector(Box<[u8]>);

impl Vector {
    /// Takes a vector of unit length, or of zeroes.
    #[must_use]
    pub fn of(exact: &[f32]) -> Self {
        let largest = exact.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let scale = largest / 127.0;
        let mut bytes = Vec::with_capacity(SCALE + exact.len());
        bytes.extend(scale.to_le_bytes());
        // Of zeroes nothing is left to divide by; `as` makes what is no number 0.
        bytes.extend(
            exact
                .iter()
                .map(|x| ((x / scale).round() as i8).cast_unsigned()),
        );
        Self(bytes.into())
    }

    /// The bytes to store; [`Stored::read`] takes them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The vector as it is compared.
    #[must_use]
    pub fn stored(&self) -> Stored<'_> {
        // It was written by `of`, with the scale before it.
        Stored::read(&self.0).unwrap_or(Stored {
            scale: 0.0,
            values: &[],
        })
    }
}

/// A [`Vector`] where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    scale: f32,
    values: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Reads what [`Vector::as_bytes`] has given; `None` for what it cannot have given.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (scale, values) = bytes.split_first_chunk::<SCALE>()?;
        let scale = f32::from_le_bytes(*scale);
        // No number of a vector of unit length is larger than 1.
        (0.0..=1.0)
            .contains(&scale)
            .then_some(Self { scale, values })
    }

    /// How long the vector is.
    #[must_use]
    pub const fn dimensions(&self) -> usize {
        self.values.len()
    }

    /// The cosine of the angle between two vectors of as many dimensions: 1 for the same direction, 0 for nothing in
    /// common. `None` when they cannot be compared.
    #[must_use]
    pub fn similarity(&self, other: &Self) -> Option<f32> {
        (self.dimensions() == other.dimensions()).then(|| self.cosine(other))
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "rounding to 24 bits changes no order that means anything"
    )]
    fn cosine(&self, other: &Self) -> f32 {
        dot(self.values, other.values) as f32 * self.scale * other.scale
    }
}

/// At most 127² × dimensions: 100,000 of them have room.
fn dot(one: &[u8], other: &[u8]) -> i32 {
    let product =
        |(a, b): (&u8, &u8)| i32::from(i16::from(a.cast_signed()) * i16::from(b.cast_signed()));
    let (mut ones, mut others) = (one.chunks_exact(LANES), other.chunks_exact(LANES));
    let mut sum = 0_i32;
    for (one, other) in ones.by_ref().zip(others.by_ref()) {
        sum += one.iter().zip(other).map(product).sum::<i32>();
    }
    let rest = ones.remainder().iter().zip(others.remainder());
    sum + rest.map(product).sum::<i32>()
}

/// The nearest rows of a scan.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking<K> {
    /// The nearest first, each with its similarity; of equal ones the earlier row.
    pub best: Vec<(K, f32)>,
    /// Rows of another number of dimensions, which cannot be compared.
    pub skipped: usize,
}

/// One of the best so far; the order is of similarity, of equal ones the earlier is greater.
struct Found<K> {
    similarity: f32,
    row: Reverse<usize>,
    key: K,
}

impl<K> Found<K> {
    fn order(&self, other: &Self) -> Ordering {
        let similarity = self.similarity.total_cmp(&other.similarity);
        similarity.then(self.row.cmp(&other.row))
    }
}

impl<K> PartialEq for Found<K> {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
}

impl<K> Eq for Found<K> {}

impl<K> PartialOrd for Found<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Found<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other)
    }
}

/// The `most` rows that are nearest to a query: looks at every row, and keeps no more than these.
#[must_use]
pub fn rank<'a, K>(
    query: Stored<'_>,
    rows: impl IntoIterator<Item = (K, Stored<'a>)>,
    most: usize,
) -> Ranking<K> {
    let mut best = BinaryHeap::new();
    let (mut worst, mut skipped) = (f32::NEG_INFINITY, 0);
    for (row, (key, stored)) in rows.into_iter().enumerate() {
        let Some(similarity) = query.similarity(&stored) else {
            skipped += 1;
            continue;
        };
        // What is no nearer than the last of enough is not among them: it comes later.
        if most == 0 || best.len() == most && similarity <= worst {
            continue;
        }
        let row = Reverse(row);
        best.push(Reverse(Found {
            similarity,
            row,
            key,
        }));
        if best.len() > most {
            best.pop();
        }
        worst = best.peek().map_or(worst, |last| last.0.similarity);
    }
    let mut best: Vec<_> = best.into_iter().map(|Reverse(found)| found).collect();
    best.sort_unstable_by(|a, b| b.order(a));
    let told = best.into_iter().map(|found| (found.key, found.similarity));
    Ranking {
        best: told.collect(),
        skipped,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unit(mut vector: Vec<f32>) -> Vec<f32> {
        crate::embed::to_unit_length(&mut vector).unwrap();
        vector
    }

    proptest! {
        /// A byte each is enough, whatever the number of dimensions.
        #[test]
        fn cosines_are_nearly_the_exact_ones(
            pairs in prop::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 1..100)
        ) {
            let (one, other): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let (one, other) = (unit(one), unit(other));
            let exact: f32 = one.iter().zip(&other).map(|(a, b)| a * b).sum();
            let (one, other) = (Vector::of(&one), Vector::of(&other));
            let told = one.stored().similarity(&other.stored()).unwrap();
            prop_assert!((told - exact).abs() < 0.02, "{told} {exact}");
        }

        /// The same as sorting all rows.
        #[test]
        fn the_best_are_those_of_a_sort(
            rows in prop::collection::vec((-3_i8..4, -3_i8..4), 0..40), most in 0_usize..12
        ) {
            let query = Vector::of(&[1.0, 0.5]);
            let vectors: Vec<_> = rows
                .iter()
                .map(|(x, y)| Vector::of(&unit(vec![f32::from(*x), f32::from(*y)])))
                .collect();
            let all = || vectors.iter().map(Vector::stored).enumerate();
            let mut sorted: Vec<_> = all()
                .map(|(row, stored)| (row, query.stored().similarity(&stored).unwrap()))
                .collect();
            sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
            sorted.truncate(most);
            let told = rank(query.stored(), all(), most);
            prop_assert_eq!(told, Ranking { best: sorted, skipped: 0 });
        }

        #[test]
        fn foreign_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(stored) = Stored::read(&bytes) {
                prop_assert_eq!(stored.dimensions(), bytes.len() - SCALE);
                prop_assert!(stored.similarity(&stored).is_some_and(|s| !s.is_nan()));
            }
        }
    }

    #[test]
    fn what_cannot_be_compared_is_counted() {
        let (three, two) = (Vector::of(&[1.0, 0.0, 0.0]), Vector::of(&[1.0, 0.0]));
        let nothing = Vector::of(&[0.0; 3]);
        let rows = [("two", &two), ("nothing", &nothing), ("same", &three)];
        let rows = rows.map(|(name, vector)| (name, Stored::read(vector.as_bytes()).unwrap()));
        let told = rank(three.stored(), rows, 9);
        let names: Vec<_> = told.best.iter().map(|(name, _)| *name).collect();
        assert_eq!((names, told.skipped), (vec!["same", "nothing"], 1));
        assert!((told.best[0].1 - 1.0).abs() < 1e-6);
        assert_eq!(told.best[1].1, 0.0);
    }
}
