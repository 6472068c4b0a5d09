//! Lists of ascending numbers: the documents that contain a word.
//!
//! A list contains the difference of each number from the previous one, in LEB128; the first difference is relative to
//! a base that the reader knows.

use crate::error::malformed;
use filrouge_types::Result;

/// Appends ascending numbers to `out`; the first is encoded relative to `base`.
pub(super) fn encode(base: u64, numbers: &[u64], out: &mut Vec<u8>) {
    let mut previous = base;
    for number in numbers {
        encode_leb128(number.wrapping_sub(previous), out);
        previous = *number;
    }
}

fn encode_leb128(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Calls `each` with the numbers of a list, in order, until `each` returns false. `base` is that of [`encode`].
pub(super) fn decode(base: u64, list: &[u8], mut each: impl FnMut(u64) -> bool) -> Result<()> {
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

/// Appends the numbers of a list to `out`.
pub(super) fn read(base: u64, list: &[u8], out: &mut Vec<u64>) -> Result<()> {
    decode(base, list, |number| {
        out.push(number);
        true
    })
}

/// Sorts numbers from several lists, and removes duplicates.
pub(super) fn sort_and_dedup(numbers: &mut Vec<u64>) {
    if !numbers.is_sorted_by(|a, b| a < b) {
        numbers.sort_unstable();
        numbers.dedup();
    }
}

/// Removes the numbers from `kept` that `other` does not contain; both are ascending.
pub(super) fn intersect(kept: &mut Vec<u64>, other: &[u64]) {
    let mut remaining = other;
    kept.retain(|number| {
        // Most lists are much longer than `kept`. So the step doubles until the element there is not below `number`,
        // and a binary search follows (galloping search).
        let mut step = 1;
        while remaining.get(step).is_some_and(|element| element < number) {
            step *= 2;
        }
        let range = remaining
            .get(..remaining.len().min(step + 1))
            .unwrap_or(remaining);
        let skipped = range.partition_point(|element| element < number);
        remaining = remaining.get(skipped..).unwrap_or(&[]);
        remaining.first() == Some(number)
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
        sort_and_dedup(&mut numbers);
        numbers
    }

    proptest! {
        #[test]
        fn lists_round_trip(numbers: Vec<u64>, near in proptest::collection::vec(0..300_u64, 0..200), base in 0..1_u64 << 60) {
            for (base, numbers) in [(0, sorted(numbers)), (base, sorted(near))] {
                let numbers: Vec<u64> = numbers.iter().map(|n| n + base).collect();
                let (mut list, mut decoded) = (b"before".to_vec(), Vec::new());
                encode(base, &numbers, &mut list);
                prop_assert!(read(base, &list[6..], &mut decoded).is_ok());
                prop_assert_eq!(&decoded, &numbers);
            }
        }

        #[test]
        fn any_bytes_decode_or_are_refused(base: u64, list: Vec<u8>) {
            let _ = decode(base, &list, |_| true);
        }

        #[test]
        fn intersect_keeps_common_numbers(a in proptest::collection::vec(0..60_u64, 0..40), b in proptest::collection::vec(0..60_u64, 0..40)) {
            let (mut a, b) = (sorted(a), sorted(b));
            let both: Vec<u64> = a.iter().copied().filter(|n| b.contains(n)).collect();
            intersect(&mut a, &b);
            prop_assert_eq!(a, both);
        }
    }
}
