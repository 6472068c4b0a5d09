//! The position up to which an index has read a ledger, as the index stores it: version, commit number, link and store
//! id, encoded with `postcard`. The link shows whether the store was restored to an older state and then written to.

use filrouge_store::MAC_BYTES;
use filrouge_store::ledger::Position;

/// The version of the encoding, and of the code that builds a ledger's documents. An index with another version is
/// rebuilt.
const VERSION: u8 = 3;

/// The position before the first commit.
pub(super) const BEGINNING: Position = Position {
    commit_no: 0,
    link: [0; MAC_BYTES],
};

pub(super) fn encode(position: &Position, store: &str) -> Vec<u8> {
    let Position { commit_no, link } = position;
    // Encoding into memory cannot fail.
    postcard::to_allocvec(&(VERSION, commit_no, link, store)).unwrap_or_default()
}

/// Decodes a position; returns `None` for a position of another store or version. `bytes` is `None` for a new index,
/// which starts at the beginning.
pub(super) fn decode(bytes: Option<&[u8]>, store: &str) -> Option<Position> {
    let Some(bytes) = bytes else {
        return Some(BEGINNING);
    };
    let (version, commit_no, link, stored_store): (u8, _, _, &str) =
        postcard::from_bytes(bytes).ok()?;
    (version == VERSION && stored_store == store).then_some(Position { commit_no, link })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_position_of_this_store_and_version_is_decoded() {
        let mut link = [0; MAC_BYTES];
        link[1] = 0xab;
        let position = Position { commit_no: 7, link };
        let bytes = encode(&position, "a store");
        assert_eq!(decode(Some(&bytes), "a store"), Some(position));
        assert_eq!(decode(Some(&bytes), "store"), None);
        assert_eq!(decode(None, "a store"), Some(BEGINNING));
        let mut older = bytes.clone();
        older[0] -= 1;
        let written = "2 7 00ab0000000000000000000000000000 a store";
        for other in [&older[..], &bytes[..9], b"", b"\xff", written.as_bytes()] {
            assert_eq!(decode(Some(other), "a store"), None, "{other:?}");
        }
    }
}
