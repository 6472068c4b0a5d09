//! The records of copies: a MAC before the JSON, so that nothing that was changed or put elsewhere in the hot store is
//! answered (P7).

use filrouge_store::hot::HotKey;
use filrouge_store::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};

/// The format of the records: another one when the public JSON of a turn changes. Records of another format are no copies.
const FORMAT: u8 = 1;
/// Bytes before the JSON: the key's id and the MAC.
const HEAD: usize = 4 + MAC_BYTES;

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

/// The record of a turn.
pub(super) fn seal(keyring: &Keyring, key: &HotKey, ordinal: u64, json: &[u8]) -> Vec<u8> {
    let id = keyring.active();
    // The active key is in the ring.
    let mac = mac(keyring, id, key, ordinal, json).unwrap_or_default();
    let mut record = Vec::with_capacity(HEAD + json.len());
    record.extend_from_slice(&id.to_be_bytes());
    record.extend_from_slice(&mac);
    record.extend_from_slice(json);
    record
}

/// The JSON of a record; `None` when it is not what was put for this turn.
pub(super) fn open(
    keyring: &Keyring,
    key: &HotKey,
    ordinal: u64,
    mut record: Vec<u8>,
) -> Option<Vec<u8>> {
    let (id, rest) = record.split_first_chunk::<4>()?;
    let (found, json) = rest.split_first_chunk::<MAC_BYTES>()?;
    let made = mac(keyring, KeyId::from_be_bytes(*id), key, ordinal, json)?;
    if !equal_macs(&made, found) {
        return None;
    }
    record.drain(..HEAD);
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_opens_only_where_and_as_it_was_put() {
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
        let made = ring.mac(ring.active(), Domain::Copy, &pieces).unwrap();
        other[4..HEAD].copy_from_slice(&made);
        assert_eq!(opened(&ring, &key, 7, &other), None, "another format");
        for at in 0..record.len() {
            let mut changed = record.clone();
            changed[at] ^= 1;
            assert_eq!(opened(&ring, &key, 7, &changed), None, "byte {at}");
            assert_eq!(opened(&ring, &key, 7, &record[..at]), None, "cut at {at}");
        }
    }
}
