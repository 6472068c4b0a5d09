//! Numbers that tell texts apart, the same in every process and every version of the program.

use filrouge_sources::{Fingerprint, Header};

/// Changes when documents are made in another way: then every session is read again.
const MADE: u64 = 5;

/// A digest of bytes, eight at a time.
pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    let words = words.iter().chain([&last]);
    let sum = words.fold(bytes.len() as u64 ^ 0x9e37_79b9_7f4a_7c15, |sum, word| {
        fold(sum ^ u64::from_le_bytes(*word), 0xa076_1d64_78bd_642f)
            .rotate_left(23)
            .wrapping_add(sum)
    });
    fold(sum, 0xe703_7ed1_a0b4_28db)
}

/// Both halves of a product, one over the other.
const fn fold(one: u64, other: u64) -> u64 {
    let product = one as u128 * other as u128;
    (product as u64) ^ ((product >> 64) as u64)
}

/// What is kept of a session's fingerprint: it is met again only with the same header, and where documents are made in the same
/// way. `None` without a fingerprint.
pub(crate) fn stamp(fingerprint: Option<Fingerprint>, header: &Header) -> Option<[u64; 2]> {
    let texts = [
        &header.title,
        &header.agent,
        &header.project_id,
        &header.project_name,
        &header.worktree,
    ];
    let (fingerprint, times) = (fingerprint?, [header.updated, header.created]);
    let Fingerprint(one, other) = Fingerprint::of(&(MADE, fingerprint, times, texts));
    Some([one, other])
}

#[cfg(test)]
mod tests {
    use super::*;
    use filrouge_sources::library::made::header;

    #[test]
    fn every_byte_counts() {
        let text = b"the quick brown fox jumps over the lazy dog";
        let mut seen = std::collections::HashSet::from([of_bytes(text)]);
        for at in 0..text.len() {
            let mut other = *text;
            other[at] ^= 1;
            assert!(seen.insert(of_bytes(&other)), "{at}");
            assert!(seen.insert(of_bytes(&text[..at])), "{at}");
        }
        // Written into indexes: never another one.
        assert_eq!(of_bytes(b"filrouge"), of_bytes(&b"filrouge"[..]));
        assert_ne!(of_bytes(b"a"), of_bytes(b"a\0"));
    }

    #[test]
    fn a_fingerprint_is_met_with_its_header_alone() {
        let mut one = header("a", 5);
        let stamp = |header: &Header| stamp(header.fingerprint, header);
        assert_eq!(stamp(&one), None);
        one.fingerprint = Some(Fingerprint(7, 0));
        let kept = stamp(&one).unwrap();
        assert_eq!(stamp(&one.clone()), Some(kept));
        let mut others = vec![one.clone(); 6];
        others[0].title = None;
        others[1].updated = 6;
        others[2].agent = Some("x".into());
        others[3].project_id = Some("x".into());
        others[4].project_name = Some("x".into());
        others[5].fingerprint = Some(Fingerprint(8, 1));
        for other in others {
            let met = stamp(&other).unwrap();
            assert!(met[0] != kept[0] && met[1] != kept[1], "{other:?}");
        }
    }
}
