//! Hashes of texts and of the states of sessions. They are stored in indexes, so they are the same in every process and
//! every version of the program.

use filrouge_sources::{Fingerprint, Header};

/// The version of the code that builds documents. When it changes, every session is read and indexed again.
const DOCUMENTS_VERSION: u64 = 5;

/// Returns a digest of bytes, computed from eight bytes at a time.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    for (target, byte) in last.iter_mut().zip(rest) {
        *target = *byte;
    }
    let words = words.iter().chain([&last]);
    let sum = words.fold(bytes.len() as u64 ^ 0x9e37_79b9_7f4a_7c15, |sum, word| {
        fold_product(sum ^ u64::from_le_bytes(*word), 0xa076_1d64_78bd_642f)
            .rotate_left(23)
            .wrapping_add(sum)
    });
    fold_product(sum, 0xe703_7ed1_a0b4_28db)
}

/// Multiplies two numbers, and returns the exclusive or of both halves of the product.
const fn fold_product(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    (product as u64) ^ ((product >> 64) as u64)
}

/// Returns the stamp that an index stores for a session. It changes with the fingerprint, with the header, and with the
/// version of the code that builds documents. Returns `None` if there is no fingerprint.
pub(crate) fn stamp(fingerprint: Option<Fingerprint>, header: &Header) -> Option<[u64; 2]> {
    let texts = [
        &header.title,
        &header.agent,
        &header.project_id,
        &header.project_name,
        &header.worktree,
    ];
    let (fingerprint, times) = (fingerprint?, [header.updated, header.created]);
    let Fingerprint(one, other) =
        Fingerprint::compute(&(DOCUMENTS_VERSION, fingerprint, times, texts));
    Some([one, other])
}

#[cfg(test)]
mod tests {
    use super::*;
    use filrouge_sources::library::samples::header;

    #[test]
    fn every_byte_changes_the_digest() {
        let text = b"the quick brown fox jumps over the lazy dog";
        let mut digests = std::collections::HashSet::from([hash_bytes(text)]);
        for at in 0..text.len() {
            let mut other = *text;
            other[at] ^= 1;
            assert!(digests.insert(hash_bytes(&other)), "{at}");
            assert!(digests.insert(hash_bytes(&text[..at])), "{at}");
        }
        // Digests are stored in indexes: they must never change.
        assert_eq!(hash_bytes(b"filrouge"), 0x28da_600b_40c0_be98);
        assert_ne!(hash_bytes(b"a"), hash_bytes(b"a\0"));
    }

    #[test]
    fn a_stamp_depends_on_the_fingerprint_and_the_header() {
        let mut one = header("a", 5);
        let stamp = |header: &Header| stamp(header.fingerprint, header);
        assert_eq!(stamp(&one), None);
        one.fingerprint = Some(Fingerprint(7, 0));
        let original = stamp(&one).unwrap();
        assert_eq!(stamp(&one.clone()), Some(original));
        let mut others = vec![one.clone(); 6];
        others[0].title = None;
        others[1].updated = 6;
        others[2].agent = Some("x".into());
        others[3].project_id = Some("x".into());
        others[4].project_name = Some("x".into());
        others[5].fingerprint = Some(Fingerprint(8, 1));
        for other in others {
            let changed = stamp(&other).unwrap();
            assert!(
                changed[0] != original[0] && changed[1] != original[1],
                "{other:?}"
            );
        }
    }
}
