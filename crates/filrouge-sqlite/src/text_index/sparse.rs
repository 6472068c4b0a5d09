//! Sets of numbers that lie far apart, all alike: ascending, by their distances in Golomb-Rice code.
//!
//! A set is how many bits of a distance stand as they are, `u8`; how many numbers, `u16`; and for each but the first one,
//! which the reader knows, the distance less 1: what is left of it without those bits as so many ones and a zero, then
//! those bits, the lowest first. From 32 ones on 64 bits of it follow in the place of zero and bits.

use crate::error::malformed;
use filrouge_types::Failure;

/// So many numbers a set has at most.
pub(super) const NUMBERS: usize = 1_024;
/// From so many ones on a distance is written out.
const ONES: u32 = 32;

/// Ascending numbers, at most [`NUMBERS`], as bytes.
pub(super) fn encode(numbers: &[u64]) -> Vec<u8> {
    let low = low_bits(numbers);
    let count = u16::try_from(numbers.len()).unwrap_or(u16::MAX);
    let mut out = Writer::new(numbers.len());
    out.bytes.push(low as u8);
    out.bytes.extend(count.to_le_bytes());
    for pair in numbers.windows(2) {
        let [before, number] = *pair else { continue };
        let distance = number.wrapping_sub(before).wrapping_sub(1);
        match u32::try_from(distance >> low) {
            Ok(ones) if ones < ONES => {
                out.put((1 << ones) - 1, ones + 1);
                out.put(distance & ((1 << low) - 1), low);
            }
            _ => {
                out.put((1 << ONES) - 1, ONES);
                out.put(distance & u64::from(u32::MAX), 32);
                out.put(distance >> 32, 32);
            }
        }
    }
    out.finish()
}

/// The number of bits that makes them shortest, about.
fn low_bits(numbers: &[u64]) -> u32 {
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
        return 0;
    };
    let distances = numbers.len().saturating_sub(1).max(1) as u64;
    let mean = last.saturating_sub(*first) / distances;
    // Of distances that are drawn by chance the best is the logarithm of 0.69 of their mean, to the nearest.
    mean.checked_ilog2().unwrap_or(0).min(32)
}

struct Writer {
    bytes: Vec<u8>,
    held: u64,
    count: u32,
}

impl Writer {
    fn new(room: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(room + 16),
            held: 0,
            count: 0,
        }
    }

    /// At most 33 bits.
    fn put(&mut self, bits: u64, count: u32) {
        self.held |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.held.to_le_bytes()[0]);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.held.to_le_bytes()[0]);
        }
        self.bytes
    }
}

/// Shows `each` the numbers of a set, of which `first` is the first one, until it says no.
pub(super) fn decode(
    first: u64,
    set: &[u8],
    mut each: impl FnMut(u64) -> bool,
) -> Result<(), Failure> {
    let bad = || malformed("junction");
    let ([low, a, b], bits) = set.split_first_chunk().ok_or_else(bad)?;
    let (low, count) = (u32::from(*low), u16::from_le_bytes([*a, *b]));
    if low > 32 {
        return Err(bad());
    }
    let mut from = Reader {
        bytes: bits,
        held: 0,
        count: 0,
    };
    let mut number = first;
    for at in 0..count {
        if at > 0 {
            let distance = from.distance(low).ok_or_else(bad)?;
            number = number.wrapping_add(distance).wrapping_add(1);
        }
        if !each(number) {
            break;
        }
    }
    Ok(())
}

struct Reader<'a> {
    bytes: &'a [u8],
    held: u64,
    count: u32,
}

impl Reader<'_> {
    /// Holds 56 bits or more, or all that are left.
    fn fill(&mut self) {
        if let Some(eight) = self.bytes.first_chunk::<8>() {
            self.held |= u64::from_le_bytes(*eight) << self.count;
            let taken = (63 - self.count) >> 3;
            self.bytes = self.bytes.get(taken as usize..).unwrap_or_default();
            self.count += taken * 8;
            return;
        }
        while self.count <= 56 {
            let Some((byte, rest)) = self.bytes.split_first() else {
                return;
            };
            self.held |= u64::from(*byte) << self.count;
            self.count += 8;
            self.bytes = rest;
        }
    }

    /// At most 32 bits of those that are held.
    fn take(&mut self, count: u32) -> Option<u64> {
        let bits = self.held & ((1 << count) - 1);
        self.count = self.count.checked_sub(count)?;
        self.held >>= count;
        Some(bits)
    }

    fn distance(&mut self, low: u32) -> Option<u64> {
        self.fill();
        let ones = self.held.trailing_ones();
        if ones < ONES {
            self.take(ones + 1)?;
            if self.count < low {
                self.fill();
            }
            return Some(u64::from(ones) << low | self.take(low)?);
        }
        self.take(ONES)?;
        self.fill();
        let lower = self.take(32)?;
        self.fill();
        Some(lower | self.take(32)? << 32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sets_come_back(mut numbers in proptest::collection::vec(prop_oneof![0..3_000_u64, 0..1_u64 << 40, any::<u64>()], 1..300)) {
            numbers.sort_unstable();
            numbers.dedup();
            let mut back = Vec::new();
            let done = decode(numbers[0], &encode(&numbers), |number| {
                back.push(number);
                true
            });
            prop_assert!(done.is_ok());
            prop_assert_eq!(back, numbers);
        }

        #[test]
        fn whatever_is_stored_is_read_or_refused(first: u64, set: Vec<u8>) {
            let _ = decode(first, &set, |_| true);
        }
    }

    #[test]
    fn what_is_drawn_by_chance_takes_little_more_than_it_must() {
        let mut state = 1_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        };
        let mut numbers: Vec<u64> = (0..4_000).map(|_| next() % 160_000).collect();
        numbers.sort_unstable();
        numbers.dedup();
        // One in forty: 6.8 bits each.
        assert!(encode(&numbers).len() * 8 < numbers.len() * 7);
    }
}
