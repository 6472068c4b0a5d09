//! How far an index has read a ledger, as it is kept in the index: `2 COMMIT LINK STORE`, in ASCII, the link in
//! hexadecimal digits. The link tells a store that was put back to an older state and went on otherwise.

use filrouge_store::MAC_BYTES;
use filrouge_store::ledger::Position;

/// The version of the form, and of what the documents of a ledger are: another one is built anew.
const VERSION: &str = "2";

/// Before the first commit.
pub(super) const BEGINNING: Position = Position {
    commit_no: 0,
    link: [0; MAC_BYTES],
};

pub(super) fn encode(position: &Position, store: &str) -> Vec<u8> {
    let link: String = position.link.iter().map(|b| format!("{b:02x}")).collect();
    format!("{VERSION} {} {link} {store}", position.commit_no).into_bytes()
}

/// The position; `None` for that of another store or version. An index that is new is at the beginning.
pub(super) fn decode(bytes: Option<&[u8]>, store: &str) -> Option<Position> {
    let Some(bytes) = bytes else {
        return Some(BEGINNING);
    };
    let mut words = std::str::from_utf8(bytes).ok()?.splitn(4, ' ');
    if words.next()? != VERSION {
        return None;
    }
    let commit_no = words.next()?.parse().ok()?;
    let link = u128::from_str_radix(words.next()?, 16).ok()?.to_be_bytes();
    (words.next()? == store).then_some(Position { commit_no, link })
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
        for other in [
            &b"1 7 ab s"[..],
            b"2 7",
            b"",
            b"\xff",
            b"2 x 00 s",
            b"2 7 zz s",
        ] {
            assert_eq!(decode(Some(other), "s"), None, "{other:?}");
        }
    }
}
