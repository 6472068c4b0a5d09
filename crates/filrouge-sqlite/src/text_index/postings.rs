//! Lists of ascending numbers: the documents that hold a word.
//!
//! A list is its form and what is of that form: the distance of each number from the one before it, in LEB128, the first
//! one's from a number that the reader knows; or, where that is shorter, the first one's and a bit for each number from it
//! on. Of what many documents hold, a distance takes a byte, and a bit for each of them much less.

use crate::error::malformed;
use filrouge_types::Failure;

const DISTANCES: u8 = 0;
const BITS: u8 = 1;

/// Puts ascending numbers from `base` on behind what is in `out`.
pub(super) fn encode(base: u64, numbers: &[u64], out: &mut Vec<u8>) {
    let begin = out.len();
    out.push(DISTANCES);
    distances(base, numbers, out);
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
        return;
    };
    let room = usize::try_from((last - first) / 8).unwrap_or(usize::MAX);
    // A first distance takes up to ten bytes, in either form.
    if room.saturating_add(11) >= out.len() - begin {
        return;
    }
    out.truncate(begin);
    out.push(BITS);
    leb(first.wrapping_sub(base), out);
    let bits = out.len();
    out.resize(bits + room + 1, 0);
    for number in numbers {
        let at = usize::try_from((number - first) / 8).unwrap_or(usize::MAX);
        if let Some(byte) = out.get_mut(bits.saturating_add(at)) {
            *byte |= 1 << ((number - first) % 8);
        }
    }
}

/// Puts the distances of ascending numbers from `base` on behind what is in `out`.
pub(super) fn distances(base: u64, numbers: &[u64], out: &mut Vec<u8>) {
    let mut before = base;
    for number in numbers {
        leb(number.wrapping_sub(before), out);
        before = *number;
    }
}

fn leb(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Shows `each` the numbers of a list from `base` on until it says no.
pub(super) fn decode(
    base: u64,
    list: &[u8],
    mut each: impl FnMut(u64) -> bool,
) -> Result<(), Failure> {
    match list.split_first() {
        Some((&DISTANCES, list)) => each_distance(base, list, each),
        Some((&BITS, list)) => {
            // The first number ends with the first byte that has no eighth bit.
            let end = list.iter().position(|byte| *byte < 0x80);
            let split = end.and_then(|end| list.split_at_checked(end + 1));
            let (start, bits) = split.ok_or_else(|| malformed("posting"))?;
            let mut first = base;
            each_distance(base, start, |number| {
                first = number;
                true
            })?;
            for (word, bits) in (0_u64..).zip(bits.chunks(8)) {
                let mut eight = [0; 8];
                eight.iter_mut().zip(bits).for_each(|(to, of)| *to = *of);
                let mut left = u64::from_le_bytes(eight);
                let at = first.wrapping_add(word * 64);
                while left != 0 {
                    if !each(at.wrapping_add(u64::from(left.trailing_zeros()))) {
                        return Ok(());
                    }
                    left &= left - 1;
                }
            }
            Ok(())
        }
        _ => Err(malformed("posting")),
    }
}

/// Shows `each` the numbers of distances until it says no.
pub(super) fn each_distance(
    base: u64,
    list: &[u8],
    mut each: impl FnMut(u64) -> bool,
) -> Result<(), Failure> {
    let (mut number, mut distance, mut shift) = (base, 0_u64, 0_u32);
    for byte in list {
        if *byte < 0x80 && shift == 0 {
            number = number.wrapping_add(u64::from(*byte));
        } else {
            let bits = u64::from(byte & 0x7F).checked_shl(shift);
            distance |= bits.ok_or_else(|| malformed("posting"))?;
            shift += 7;
            if *byte >= 0x80 {
                continue;
            }
            number = number.wrapping_add(distance);
            (distance, shift) = (0, 0);
        }
        if !each(number) {
            return Ok(());
        }
    }
    match shift {
        0 => Ok(()),
        _ => Err(malformed("posting")),
    }
}

/// Puts the numbers of a list behind what is in `out`.
pub(super) fn read(base: u64, list: &[u8], out: &mut Vec<u64>) -> Result<(), Failure> {
    decode(base, list, |number| {
        out.push(number);
        true
    })
}

/// Puts the numbers of distances behind what is in `out`.
pub(super) fn read_distances(base: u64, list: &[u8], out: &mut Vec<u64>) -> Result<(), Failure> {
    each_distance(base, list, |number| {
        out.push(number);
        true
    })
}

/// Sorts numbers that came from several lists, each one once.
pub(super) fn settle(numbers: &mut Vec<u64>) {
    if !numbers.is_sorted_by(|a, b| a < b) {
        numbers.sort_unstable();
        numbers.dedup();
    }
}

/// Keeps of `kept` what is in `other`; both ascending.
pub(super) fn intersect(kept: &mut Vec<u64>, other: &[u64]) {
    let mut rest = other;
    kept.retain(|number| {
        // Steps that double until the number is passed: most lists are much longer than what is left.
        let mut step = 1;
        while rest.get(step).is_some_and(|at| at < number) {
            step *= 2;
        }
        let within = rest.get(..rest.len().min(step + 1)).unwrap_or(rest);
        let skipped = within.partition_point(|at| at < number);
        rest = rest.get(skipped..).unwrap_or(&[]);
        rest.first() == Some(number)
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
        settle(&mut numbers);
        numbers
    }

    proptest! {
        #[test]
        fn lists_come_back(numbers: Vec<u64>, near in proptest::collection::vec(0..300_u64, 0..200), base in 0..1_u64 << 60) {
            for (base, numbers) in [(0, sorted(numbers)), (base, sorted(near))] {
                let numbers: Vec<u64> = numbers.iter().map(|n| n + base).collect();
                let (mut list, mut back) = (b"before".to_vec(), Vec::new());
                encode(base, &numbers, &mut list);
                prop_assert!(read(base, &list[6..], &mut back).is_ok());
                prop_assert_eq!(&back, &numbers);
                // Not more than the shorter of the forms would take.
                let span = numbers.last().unwrap_or(&0) - numbers.first().unwrap_or(&0);
                prop_assert!((list.len() - 6) as u64 <= span / 8 + 12);
            }
        }

        #[test]
        fn whatever_is_stored_is_read_or_refused(base: u64, mut list: Vec<u8>) {
            let _ = decode(base, &list, |_| true);
            list.insert(0, BITS);
            let _ = decode(base, &list, |_| true);
        }

        #[test]
        fn what_is_in_both(a in proptest::collection::vec(0..60_u64, 0..40), b in proptest::collection::vec(0..60_u64, 0..40)) {
            let (mut a, b) = (sorted(a), sorted(b));
            let both: Vec<u64> = a.iter().copied().filter(|n| b.contains(n)).collect();
            intersect(&mut a, &b);
            prop_assert_eq!(a, both);
        }
    }
}
