//! How far an index has read a ledger, as it is kept in the index: version, commit number, link and store, as `postcard`
//! writes them. The link detects a store that was restored to an older state and then written to.

use filrouge_store::MAC_BYTES;
use filrouge_store::ledger::Position;

/// The version of the form, and of what the documents of a ledger are: another one is built anew.
const VERSION: u8 = 3;

/// Before the first commit.
pub(super) const BEGINNING: Position = Position {
    commit_no: 0,
    link: [0; MAC_BYTES],
};

pub(super) fn encode(position: &Position, store: &str) -> Vec<u8> {
    let Position { commit_no, link } = position;
    // Nothing that is written into memory fails.
    postcard::to_allocvec(&(VERSION, commit_no, link, store)).unwrap_or_default()
}

/// The position; `None` for that of another store or version. An index that is new is at the beginning.
pub(super) fn decode(bytes: Option<&[u8]>, store: &str) -> Option<Position> {
    let Some(bytes) = bytes else {
        return Some(BEGINNING);
    };
    let (version, commit_no, link, of): (u8, _, _, &str) = postcard::from_bytes(bytes).ok()?;
    (version == VERSION && of == store).then_some(Position { commit_no, link })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written_and_others_are_not() {
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
