//! The position up to which an index has read a ledger, as the index stores it: version, number and link of the commit
//! in each lane, and store id, encoded with `postcard`. The links show whether the store was restored to an older state
//! and then written to.

use filrouge_store::MAC_BYTES;
use filrouge_store::ledger::{LanePosition, Position};

/// The version of the encoding, and of the code that builds a ledger's documents. An index with another version is
/// rebuilt.
const VERSION: u8 = 5;

/// The number and the link of a commit.
type StoredLane = (u64, [u8; MAC_BYTES]);

pub(super) fn encode(position: &Position, store: &str) -> Vec<u8> {
    let lanes = position.iter().map(|(_, at)| (at.commit_no, at.link));
    let lanes: Vec<StoredLane> = lanes.collect();
    // Encoding into memory cannot fail.
    postcard::to_allocvec(&(VERSION, lanes, store)).unwrap_or_default()
}

/// Decodes a position; returns `None` for a position of another store or version. `bytes` is `None` for a new index,
/// which starts at the beginning.
pub(super) fn decode(bytes: Option<&[u8]>, store: &str) -> Option<Position> {
    let Some(bytes) = bytes else {
        return Some(Position::default());
    };
    let (version, lanes, stored_store): (u8, Vec<StoredLane>, &str) =
        postcard::from_bytes(bytes).ok()?;
    let lanes = lanes
        .into_iter()
        .map(|(commit_no, link)| LanePosition { commit_no, link });
    (version == VERSION && stored_store == store).then(|| Position::new(lanes.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_position_of_this_store_and_version_is_decoded() {
        let mut link = [0; MAC_BYTES];
        link[1] = 0xab;
        let commit = LanePosition { commit_no: 7, link };
        for lanes in [vec![commit], vec![commit, LanePosition::default(), commit]] {
            let position = Position::new(lanes);
            let bytes = encode(&position, "a store");
            assert_eq!(decode(Some(&bytes), "a store"), Some(position));
            assert_eq!(decode(Some(&bytes), "store"), None);
            let mut older = bytes.clone();
            older[0] -= 1;
            for other in [&older[..], &bytes[..9], b"", b"\xff"] {
                assert_eq!(decode(Some(other), "a store"), None, "{other:?}");
            }
        }
        assert_eq!(decode(None, "a store"), Some(Position::default()));
    }
}
