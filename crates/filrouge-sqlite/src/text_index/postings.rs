//! Lists of ascending numbers: the documents that hold a word.
//!
//! A list is the distance of each number from the one before it, in LEB128, the first one's from a number that the reader
//! knows.

use crate::error::malformed;
use filrouge_types::Failure;

/// Puts ascending numbers from `base` on behind what is in `out`.
pub(super) fn encode(base: u64, numbers: &[u64], out: &mut Vec<u8>) {
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
            }
        }

        #[test]
        fn whatever_is_stored_is_read_or_refused(base: u64, list: Vec<u8>) {
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
