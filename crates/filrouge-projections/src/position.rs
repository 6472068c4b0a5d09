//! A position in the ledger, as a projection's note stores it. The links show whether the store was restored to an
//! older state and then written to.

use filrouge_store::MAC_BYTES;
use filrouge_store::hex;
use filrouge_store::ledger::{LanePosition, Position};
use filrouge_types::{ErrorCode, Failure};
use serde::{Deserialize, Serialize};

use crate::target::Stamp;

/// The number and the link of the newest commit that was read in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct StoredLane {
    commit: u64,
    #[serde(with = "hex")]
    link: [u8; MAC_BYTES],
}

/// A position in each lane of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct StoredPosition(Vec<StoredLane>);

impl From<&Position> for StoredPosition {
    fn from(position: &Position) -> Self {
        let lanes = position.iter().map(|(_, at)| StoredLane {
            commit: at.commit_no,
            link: at.link,
        });
        Self(lanes.collect())
    }
}

impl From<&StoredPosition> for Position {
    fn from(stored: &StoredPosition) -> Self {
        let lanes = stored.0.iter().map(|lane| LanePosition {
            commit_no: lane.commit,
            link: lane.link,
        });
        Self::new(lanes.collect())
    }
}

impl StoredPosition {
    /// The stamp of a generation that is filled up to this position.
    ///
    /// # Errors
    /// `internal` if the position cannot be written as text.
    pub(crate) fn stamp(&self) -> Result<Stamp, Failure> {
        let position = serde_json::to_string(self);
        Ok(Stamp {
            commits: Position::from(self).commit_count(),
            position: position.map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?,
        })
    }

    /// The position of a stamp: the ledger's beginning without a stamp, and for one that somebody else wrote.
    pub(crate) fn of_stamp(stamp: Option<&Stamp>) -> Self {
        let position = stamp.map(|stamp| serde_json::from_str(&stamp.position));
        position.and_then(Result::ok).unwrap_or_default()
    }
}

/// Whether `position` is at `other` or later in every lane.
pub(crate) fn has_reached(position: &Position, other: &Position) -> bool {
    other
        .iter()
        .all(|(lane, at)| position.lane(lane).commit_no >= at.commit_no)
}

/// The later one of two positions in each lane.
pub(crate) fn furthest(mut position: Position, other: &Position) -> Position {
    for (lane, at) in other.iter() {
        if at.commit_no > position.lane(lane).commit_no {
            position.set(lane, at);
        }
    }
    position
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_compared_by_lane() {
        let position = |commits: &[u64]| {
            let lanes = commits.iter().map(|commit| LanePosition {
                commit_no: *commit,
                link: [u8::try_from(*commit).unwrap(); MAC_BYTES],
            });
            Position::new(lanes.collect())
        };
        let (one, other) = (position(&[10, 5]), position(&[8, 6, 1]));
        assert!(!has_reached(&one, &other) && !has_reached(&other, &one));
        let both = furthest(one.clone(), &other);
        assert_eq!(both, position(&[10, 6, 1]));
        assert!(has_reached(&both, &one) && has_reached(&both, &other));

        let stamp = StoredPosition::from(&both).stamp().unwrap();
        assert_eq!(stamp.commits, 17);
        let stored = StoredPosition::of_stamp(Some(&stamp));
        assert_eq!(Position::from(&stored), both);
        for foreign in ["", "{}", "[1]"] {
            let stamp = Stamp {
                position: foreign.to_owned(),
                ..stamp.clone()
            };
            let stored = StoredPosition::of_stamp(Some(&stamp));
            assert_eq!(stored, StoredPosition::default());
        }
    }
}
