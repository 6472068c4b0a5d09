//! Redacts a stored record: removes contents and salts, and keeps commitments and thereby all links (docs/format.md).

use filrouge_types::{ErrorCode, Failure};

use super::batch::pack_body;
use super::decode::unpack_body;
use super::seqs::Seqs;
use super::{Decoded, Head, RecordRow};
use crate::chain::{self, SALT_BYTES};
use crate::codec::{ByteReader, Malformed, WriteBytes};
use crate::keyring::Keyring;

/// Removes the contents of the items in `named` from a record, and makes these items point to the redaction at
/// `redaction_seq`. `None` if none of them still has content. `decoded` proves that the record was verified, because a
/// modified record must not be signed again.
///
/// # Errors
/// [`ErrorCode::Internal`] when the compressor fails.
pub fn erase_contents(
    row: &RecordRow,
    decoded: &Decoded,
    named: &Seqs,
    redaction_seq: u64,
    keyring: &Keyring,
) -> Result<Option<RecordRow>, Failure> {
    let is_erased =
        |(item, _): &(filrouge_types::Item, _)| !item.redacted && named.contains(item.seq);
    if !decoded.items.iter().any(is_erased) {
        return Ok(None);
    }
    let malformed = |Malformed| Failure::new(ErrorCode::Internal, "a verified record is malformed");
    let mut head = Head::read(&row.head).map_err(malformed)?;
    let old_body = unpack_body(&head, row).map_err(malformed)?;
    let raw =
        without_contents(&old_body, row.first_seq, named, redaction_seq).map_err(malformed)?;
    head.raw_len = raw.len();
    let body;
    (head.compression, body) = pack_body(&raw)?;
    head.key_id = keyring.active();
    Ok(Some(RecordRow {
        first_seq: row.first_seq,
        count: row.count,
        head: head.encode_signed(keyring, row.first_seq, row.count, &decoded.last_link),
        body,
    }))
}

/// The unpacked body without the contents of the items in `named`.
fn without_contents(
    old_body: &[u8],
    first_seq: u64,
    named: &Seqs,
    redaction_seq: u64,
) -> Result<Vec<u8>, Malformed> {
    let mut reader = ByteReader(old_body);
    let mut out = Vec::with_capacity(old_body.len());
    let mut seq = first_seq;
    while !reader.is_empty() {
        out.bytes(reader.bytes()?);
        // 0: salt and content follow. 1: a commitment and the seq of a redaction follow.
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
