//! Positions in the change feed. A cursor names a position in each lane, so no commit is skipped or repeated, in
//! whatever order the commits of different lanes are shown.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use filrouge_types::{ErrorCode, Failure};
use serde::{Serialize, Serializer};

use crate::lane::{Lane, Lanes};
use crate::ledger::Position;

/// A position in one lane of the feed: after some changes of a commit, or after all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneCursor {
    /// The number of the commit in the lane; 0 is the beginning.
    pub commit_no: u64,
    /// The number of the commit's changes that precede the position; `None` if all of them do.
    pub preceding: Option<usize>,
}

impl LaneCursor {
    /// The position after all changes of a commit.
    pub const fn after_commit(commit_no: u64) -> Self {
        Self {
            commit_no,
            preceding: None,
        }
    }

    /// Whether this change precedes the position. The change must be of the same lane.
    pub fn is_after(&self, change: ChangeId) -> bool {
        (change.commit_no, change.index) < self.sort_key()
    }

    /// The position after all changes of a commit follows every position within it.
    fn sort_key(&self) -> (u64, usize) {
        (self.commit_no, self.preceding.unwrap_or(usize::MAX))
    }

    fn parse(text: &str) -> Option<Self> {
        let (commit, preceding) = match text.split_once('.') {
            Some((commit, preceding)) => (commit, Some(preceding.parse().ok()?)),
            None => (text, None),
        };
        let has_only_digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let commit_no = commit.parse().ok().filter(|_| has_only_digits)?;
        Some(Self {
            commit_no,
            preceding,
        })
    }
}

impl Ord for LaneCursor {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sort_key().cmp(&other.sort_key())
    }
}

impl PartialOrd for LaneCursor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for LaneCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.preceding {
            Some(preceding) => write!(f, "{}.{preceding}", self.commit_no),
            None => write!(f, "{}", self.commit_no),
        }
    }
}

/// A position in the feed: one in each lane of the store. By default, the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeCursor {
    /// The position in each lane, by its number. Lanes that are missing at the end of the list are at
    /// their beginning.
    lanes: Vec<LaneCursor>,
}

impl ChangeCursor {
    /// The position after all commits up to `position`.
    pub fn after(position: &Position) -> Self {
        let mut cursor = Self::default();
        for (lane, position) in position.iter() {
            cursor.set(lane, LaneCursor::after_commit(position.commit_no));
        }
        cursor
    }

    /// The position in a lane.
    pub fn lane(&self, lane: Lane) -> LaneCursor {
        self.lanes.get(lane.index()).copied().unwrap_or_default()
    }

    /// Sets the position in a lane.
    pub fn set(&mut self, lane: Lane, cursor: LaneCursor) {
        if self.lanes.len() <= lane.index() {
            self.lanes
                .resize_with(lane.index() + 1, LaneCursor::default);
        }
        self.lanes[lane.index()] = cursor;
        // Without lanes at their beginning, equal positions are equal values.
        while self
            .lanes
            .last()
            .is_some_and(|last| *last == LaneCursor::default())
        {
            self.lanes.pop();
        }
    }

    /// The later one of two positions, in each lane.
    #[must_use]
    pub fn later(mut self, other: &Self) -> Self {
        for (lane, cursor) in (0..).map(Lane::new).zip(&other.lanes) {
            self.set(lane, self.lane(lane).max(*cursor));
        }
        self
    }

    /// The number of commits up to this position, those of all lanes together.
    pub fn commit_count(&self) -> u64 {
        let numbers = self.lanes.iter().map(|lane| lane.commit_no);
        numbers.fold(0, u64::saturating_add)
    }

    /// Fails if the cursor names a lane that a store with `lanes` does not have.
    pub(super) fn check_lanes(&self, lanes: Lanes) -> Result<(), Failure> {
        match self.lanes.len() <= usize::from(lanes.count()) {
            true => Ok(()),
            false => Err(invalid_cursor(self.to_string())),
        }
    }
}

/// The positions of the lanes, with `_` between them: `42` for one lane.
impl fmt::Display for ChangeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, others)) = self.lanes.split_first() else {
            return LaneCursor::default().fmt(f);
        };
        first.fmt(f)?;
        others.iter().try_for_each(|lane| write!(f, "_{lane}"))
    }
}

impl FromStr for ChangeCursor {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let mut cursor = Self::default();
        for (number, lane) in (0..Lanes::MAX + 1).zip(text.split('_')) {
            let parsed = LaneCursor::parse(lane).filter(|_| number < Lanes::MAX);
            cursor.set(
                Lane::new(number),
                parsed.ok_or_else(|| invalid_cursor(text))?,
            );
        }
        Ok(cursor)
    }
}

pub(super) fn invalid_cursor(text: impl fmt::Debug) -> Failure {
    ErrorCode::Invalid
        .failure(format!("{text:?} is no cursor of this feed"))
        .with_hint("pass a next_cursor unchanged, or leave it out to begin with the first change")
}

/// Identifies a change for as long as the store exists, whatever page it is read in. As text: `LANE-COMMIT.INDEX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeId {
    /// The lane of the change's session.
    pub lane: Lane,
    /// The number of the commit in the lane.
    pub commit_no: u64,
    /// The number of the commit's changes that precede this one.
    pub index: usize,
}

impl fmt::Display for ChangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}.{}", self.lane, self.commit_no, self.index)
    }
}

impl Serialize for ChangeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_from_its_text() {
        for text in ["0", "42", "42.1", "0_7", "3_0_9.2_4"] {
            let cursor: ChangeCursor = text.parse().unwrap();
            assert_eq!(cursor.to_string(), text);
        }
        let cursor: ChangeCursor = "3_0_9.2_4".parse().unwrap();
        assert_eq!(cursor.commit_count(), 16);
        assert_eq!(cursor.lane(Lane::new(2)).preceding, Some(2));
        assert_eq!(cursor.lane(Lane::new(7)), LaneCursor::default());
        assert_eq!("5_0_0".parse::<ChangeCursor>().unwrap().to_string(), "5");
    }

    #[test]
    fn a_text_that_is_no_cursor_is_refused() {
        let too_many = vec!["1"; 65].join("_");
        for text in ["", "x", "-1", "1_", "_1", "1__2", "1.2.3", "+1", &too_many] {
            let failure = text.parse::<ChangeCursor>().unwrap_err();
            assert_eq!(failure.code, ErrorCode::Invalid, "{text}");
        }
    }

    #[test]
    fn a_cursor_follows_the_changes_before_it() {
        let change = |commit_no, index| ChangeId {
            lane: Lane::FIRST,
            commit_no,
            index,
        };
        let within = LaneCursor {
            commit_no: 4,
            preceding: Some(2),
        };
        assert!(within.is_after(change(3, 9)) && within.is_after(change(4, 1)));
        assert!(!within.is_after(change(4, 2)) && !within.is_after(change(5, 0)));
        assert!(LaneCursor::after_commit(4).is_after(change(4, 9)));
        assert!(LaneCursor::after_commit(4) > within);
        assert_eq!(change(4, 9).to_string(), "0-4.9");
    }

    #[test]
    fn the_later_position_is_chosen_in_each_lane() {
        let cursor = |text: &str| text.parse::<ChangeCursor>().unwrap();
        let later = cursor("3_8.1").later(&cursor("4_8_2"));
        assert_eq!(later, cursor("4_8_2"));
        assert_eq!(cursor("4_8_2").later(&cursor("5.1")), cursor("5.1_8_2"));
    }
}
