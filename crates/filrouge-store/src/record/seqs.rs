//! Sets of seqs, stored as ranges. A redaction names the redacted items by a set of seqs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::codec::{ByteReader, Malformed, WriteBytes};

/// A set of seqs: ascending ranges, with a gap between each range and the next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedRanges")]
pub struct Seqs {
    seqs: Vec<(u64, u64)>,
}

/// Unchecked ranges as deserialized.
#[derive(Deserialize)]
struct UncheckedRanges {
    seqs: Vec<(u64, u64)>,
}

impl TryFrom<UncheckedRanges> for Seqs {
    type Error = &'static str;

    fn try_from(ranges: UncheckedRanges) -> Result<Self, Self::Error> {
        let seqs = Self::from_ranges(ranges.seqs).filter(|seqs| !seqs.seqs.is_empty());
        seqs.ok_or("malformed seqs")
    }
}

/// Writes the ranges as [`Seqs::parse_range`] parses them, with spaces between them.
impl fmt::Display for Seqs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges().enumerate() {
            let space = if index == 0 { "" } else { " " };
            match first == last {
                true => write!(f, "{space}{first}")?,
                false => write!(f, "{space}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl Seqs {
    /// The set of these ranges (first and last seq each), in any order. `None` when a range is empty or begins before
    /// seq 1.
    pub fn from_ranges(ranges: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let mut ranges: Vec<(u64, u64)> = ranges.into_iter().collect();
        ranges.sort_unstable();
        let mut merged = Self::default();
        for (first, last) in ranges {
            if first == 0 || last < first {
                return None;
            }
            match merged.seqs.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.seqs.push((first, last)),
            }
        }
        Some(merged)
    }

    /// Parses a range as people write it: `N`, or `N-M`. `None` when it is neither, is empty or begins before seq 1.
    pub fn parse_range(word: &str) -> Option<(u64, u64)> {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let range = (first.parse().ok()?, last.parse().ok()?);
        Self::from_ranges([range]).map(|_| range)
    }

    /// The seqs that are in this set or in the other one.
    #[must_use]
    pub(crate) fn union(&self, other: &Self) -> Self {
        Self::from_ranges(self.ranges().chain(other.ranges())).unwrap_or_default()
    }

    /// The ranges, each as its first and last seq.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.seqs.iter().copied()
    }

    /// Every seq, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.ranges().flat_map(|(first, last)| first..=last)
    }

    /// Whether the set contains `seq`.
    pub fn contains(&self, seq: u64) -> bool {
        self.covers(seq, seq)
    }

    /// Whether the set contains every seq from `first` to `last`.
    pub fn covers(&self, first: u64, last: u64) -> bool {
        let index = self.seqs.partition_point(|(_, end)| *end < first);
        self.seqs
            .get(index)
            .is_some_and(|(start, end)| *start <= first && last <= *end)
    }

    /// The number of seqs.
    pub fn count(&self) -> u64 {
        self.ranges().fold(0, |sum: u64, (first, last)| {
            sum.saturating_add(last - first).saturating_add(1)
        })
    }

    /// The highest seq; 0 for an empty set.
    pub fn last(&self) -> u64 {
        self.seqs.last().map_or(0, |(_, last)| *last)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.number(self.seqs.len() as u64);
        for (first, last) in self.ranges() {
            out.number(first);
            out.number(last - first + 1);
        }
    }

    pub(super) fn read(r: &mut ByteReader<'_>) -> Result<Self, Malformed> {
        let mut seqs = Self::default();
        for _ in 0..r.number()? {
            let (first, count) = (r.number()?, r.number()?);
            let last = first
                .checked_add(count)
                .and_then(|end| end.checked_sub(1))
                .ok_or(Malformed)?;
            let is_separate = seqs.seqs.is_empty() || first > seqs.last().saturating_add(1);
            if first == 0 || count == 0 || !is_separate {
                return Err(Malformed);
            }
            seqs.seqs.push((first, last));
        }
        if seqs.seqs.is_empty() {
            return Err(Malformed);
        }
        Ok(seqs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write_and_read(ranges: &[(u64, u64)]) -> Result<Seqs, Malformed> {
        let mut bytes = Vec::new();
        bytes.number(ranges.len() as u64);
        for (first, count) in ranges {
            bytes.number(*first);
            bytes.number(*count);
        }
        let mut r = ByteReader(&bytes);
        let seqs = Seqs::read(&mut r)?;
        assert!(r.is_empty());
        Ok(seqs)
    }

    #[test]
    fn a_set_has_only_one_encoding() {
        assert_eq!(
            write_and_read(&[(1, 2), (4, 1)]).ok(),
            Seqs::from_ranges([(4, 4), (2, 2), (1, 1)])
        );
        for malformed in [
            &[][..],
            &[(0, 1)],
            &[(1, 0)],
            &[(1, 2), (3, 1)],
            &[(5, 1), (1, 1)],
            &[(1, 3), (2, 1)],
            &[(2, u64::MAX)],
        ] {
            assert_eq!(write_and_read(malformed), Err(Malformed), "{malformed:?}");
        }
        assert_eq!(Seqs::from_ranges([(0, 3)]), None);
        assert_eq!(Seqs::from_ranges([(3, 2)]), None);
    }

    proptest! {
        #[test]
        fn a_set_contains_its_ranges(ranges in proptest::collection::vec((1..60_u64, 0..5_u64), 1..9)) {
            let ranges: Vec<_> = ranges.iter().map(|(first, more)| (*first, first + more)).collect();
            let seqs = Seqs::from_ranges(ranges.clone()).unwrap();
            let is_in_range = |seq: u64| ranges.iter().any(|(first, last)| (*first..=*last).contains(&seq));
            for seq in 0..70 {
                prop_assert_eq!(seqs.contains(seq), is_in_range(seq));
                prop_assert_eq!(seqs.covers(seq, seq + 2), (seq..=seq + 2).all(is_in_range));
            }
            prop_assert_eq!(seqs.count(), (0..70).filter(|s| is_in_range(*s)).count() as u64);
            prop_assert_eq!(seqs.iter().collect::<Vec<_>>(), (0..70).filter(|s| is_in_range(*s)).collect::<Vec<_>>());
            let mut bytes = Vec::new();
            seqs.write(&mut bytes);
            prop_assert_eq!(Seqs::read(&mut ByteReader(&bytes)), Ok(seqs));
        }
    }
}
