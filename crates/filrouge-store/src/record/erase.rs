//! Redacts a stored record: removes contents and salts, and keeps commitments and thereby all links (docs/format.md).

use filrouge_types::{ErrorCode, Failure};

use super::batch::pack_body;
use super::decode::unpacked;
use super::seqs::Seqs;
use super::{Decoded, Head, RecordRow};
use crate::chain::{self, SALT_BYTES};
use crate::codec::{ByteReader, Malformed, WriteBytes};
use crate::keyring::Keyring;

/// The record without the contents of the items in `named`; `None` if none of them still has content. The items then
/// point to the redaction at `redaction_seq`. `decoded` proves that the record was verified, because a modified record
/// must not be signed again.
///
/// # Errors
/// [`ErrorCode::Internal`] when the compressor fails.
pub fn erased(
    row: &RecordRow,
    decoded: &Decoded,
    named: &Seqs,
    redaction_seq: u64,
    keyring: &Keyring,
) -> Result<Option<RecordRow>, Failure> {
    let goes = |(item, _): &(filrouge_types::Item, _)| !item.redacted && named.contains(item.seq);
    if !decoded.items.iter().any(goes) {
        return Ok(None);
    }
    let malformed = |Malformed| Failure::new(ErrorCode::Internal, "a verified record is malformed");
    let mut head = Head::read(&row.head).map_err(malformed)?;
    let old = unpacked(&head, row).map_err(malformed)?;
    let raw = without(&old, row.first_seq, named, redaction_seq).map_err(malformed)?;
    head.raw_len = raw.len();
    let body;
    (head.compression, body) = pack_body(&raw)?;
    head.key_id = keyring.active();
    Ok(Some(RecordRow {
        first_seq: row.first_seq,
        count: row.count,
        head: head.signed(keyring, row.first_seq, row.count, &decoded.last),
        body,
    }))
}

/// The unpacked body without the contents of the items in `named`.
fn without(
    old: &[u8],
    first_seq: u64,
    named: &Seqs,
    redaction_seq: u64,
) -> Result<Vec<u8>, Malformed> {
    let mut reader = ByteReader(old);
    let mut out = Vec::with_capacity(old.len());
    let mut seq = first_seq;
    while !reader.is_empty() {
        out.bytes(reader.bytes()?);
        let state = reader.byte()?;
        if state == 0 {
            let salt: [u8; SALT_BYTES] = reader.array()?;
            let parts = reader.bytes()?;
            if named.contains(seq) {
                out.byte(1);
                out.extend_from_slice(&chain::commitment(&salt, parts));
                out.number(redaction_seq);
            } else {
                out.byte(0);
                out.extend_from_slice(&salt);
                out.bytes(parts);
            }
        } else {
            out.byte(state);
            out.extend_from_slice(reader.fixed(32)?);
            out.number(reader.number()?);
        }
        seq += 1;
    }
    Ok(out)
}
