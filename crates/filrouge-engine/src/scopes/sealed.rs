//! The records of a copy. A copy consists of a session's recent turns in the hot store, one record per turn. A record
//! is a key id, a MAC and the turn's JSON. A record that was changed or moved in the hot store is not returned (P7).

use filrouge_store::hot::HotKey;
use filrouge_store::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};

/// The version of the records' format; change it whenever the public JSON of a turn changes. Records of another version
/// are rejected.
const FORMAT: u8 = 1;
/// Bytes that precede the JSON: the key's id and the MAC.
const HEADER_BYTES: usize = 4 + MAC_BYTES;

fn mac(
    keyring: &Keyring,
    id: KeyId,
    key: &HotKey,
    ordinal: u64,
    json: &[u8],
) -> Option<[u8; MAC_BYTES]> {
    keyring.mac(
        id,
        Domain::Copy,
        &[&key.0, &[FORMAT], &ordinal.to_be_bytes(), json],
    )
}

/// Seals a turn's JSON as a record.
pub(super) fn seal(keyring: &Keyring, key: &HotKey, ordinal: u64, json: &[u8]) -> Vec<u8> {
    let id = keyring.active();
    // `mac` returns `None` only for a key that is not in the ring; the active one is.
    let mac = mac(keyring, id, key, ordinal, json).unwrap_or_default();
    [&id.to_be_bytes()[..], &mac[..], json].concat()
}

/// The JSON in a record; `None` if the record was sealed for another turn, in another format or with an unknown key, or
/// was changed since.
pub(super) fn open(
    keyring: &Keyring,
    key: &HotKey,
    ordinal: u64,
    mut record: Vec<u8>,
) -> Option<Vec<u8>> {
    let (id, rest) = record.split_first_chunk::<4>()?;
    let (recorded_mac, json) = rest.split_first_chunk::<MAC_BYTES>()?;
    let expected_mac = mac(keyring, KeyId::from_be_bytes(*id), key, ordinal, json)?;
    if !equal_macs(&expected_mac, recorded_mac) {
        return None;
    }
    record.drain(..HEADER_BYTES);
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_opens_only_if_it_is_unchanged_and_under_its_own_key_and_ordinal() {
        let ring = Keyring::single([1; 32]);
        let (key, other) = (HotKey([1; 16]), HotKey([2; 16]));
        let record = seal(&ring, &key, 7, br#"{"a":1}"#);
        let opened = |ring: &Keyring, key: &HotKey, ordinal, record: &[u8]| {
            open(ring, key, ordinal, record.to_vec())
        };
        assert_eq!(opened(&ring, &key, 7, &record).unwrap(), br#"{"a":1}"#);
        assert_eq!(opened(&ring, &other, 7, &record), None);
        assert_eq!(opened(&ring, &key, 8, &record), None);
        assert_eq!(opened(&Keyring::single([2; 32]), &key, 7, &record), None);
        let mut other = record.clone();
        let pieces: [&[u8]; 4] = [&key.0, &[FORMAT + 1], &7_u64.to_be_bytes(), br#"{"a":1}"#];
        let other_mac = ring.mac(ring.active(), Domain::Copy, &pieces).unwrap();
        other[4..HEADER_BYTES].copy_from_slice(&other_mac);
        assert_eq!(opened(&ring, &key, 7, &other), None, "another format");
        for at in 0..record.len() {
            let mut changed = record.clone();
            changed[at] ^= 1;
            assert_eq!(opened(&ring, &key, 7, &changed), None, "byte {at}");
            assert_eq!(
                opened(&ring, &key, 7, &record[..at]),
                None,
                "truncated at {at}"
            );
        }
    }
}
