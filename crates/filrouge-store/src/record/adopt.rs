//! Builds records of items that were chained elsewhere, with unchanged salts, commitments, times and links.

use filrouge_types::{ErrorCode, Failure};

use super::batch::{RAW_MAX, RECORD_BYTES, RECORD_ITEMS, pack_body};
use super::fields::encode_fields;
use super::{ChainedItem, CommitmentProof, Head, RecordRow};
use crate::chain::{self, Link, LinkScope};
use crate::codec::WriteBytes;
use crate::keyring::{Keyring, MAC_BYTES};

/// Builds one record from the first of `items` and those that follow it with the same turn and time, within the size
/// limits of a record. `previous` is the link before the first item. Returns the row and the link of its last item, or
/// `Err` with the seq of an item whose link does not match its data.
///
/// # Errors
/// The outer error: the compressor fails, or `limit_exceeded` for an item that exceeds the size of a record.
pub fn adopt_record(
    items: &[ChainedItem],
    previous: Link,
    scope: &LinkScope,
    keyring: &Keyring,
) -> Result<Result<(RecordRow, Link), u64>, Failure> {
    let Some(first) = items.first().map(|i| &i.item) else {
        return Ok(Err(0));
    };
    let (mut raw, mut last_link, mut count) = (Vec::new(), previous, 0_usize);
    // An item without a turn gets its own record.
    let is_same_record = |i: &&ChainedItem| {
        i.item.turn_id == first.turn_id
            && i.item.created_at == first.created_at
            && (first.turn_id.is_some() || i.item.seq == first.seq)
    };
    for (chained, seq) in items.iter().take_while(is_same_record).zip(first.seq..) {
        let fields = encode_fields(&chained.item.body, &chained.events);
        raw.bytes(&fields);
        let commitment = write_content(&mut raw, chained);
        let turn = first.turn_id.as_ref();
        last_link = scope.link(
            &last_link,
            seq,
            turn,
            first.created_at,
            &fields,
            &commitment,
        );
        if chained.item.seq != seq || chained.link != last_link {
            return Ok(Err(seq));
        }
        count += 1;
        if count == RECORD_ITEMS || raw.len() >= RECORD_BYTES {
            break;
        }
    }
    if raw.len() > RAW_MAX {
        let detail = format!("an item has at most {RAW_MAX} bytes");
        return Err(Failure::new(ErrorCode::LimitExceeded, detail));
    }
    let (compression, body) = pack_body(&raw)?;
    let head = Head {
        key_id: keyring.active(),
        compression,
        raw_len: raw.len(),
        created_at: first.created_at,
        turn_id: first.turn_id,
        previous,
        mac: [0; MAC_BYTES],
    };
    let count = count as u64;
    let row = RecordRow {
        first_seq: first.seq,
        count,
        head: head.encode_signed(keyring, first.seq, count, &last_link),
        body,
    };
    Ok(Ok((row, last_link)))
}

/// Computes the link of an item after `previous`, from its seq, fields and content.
pub(crate) fn compute_link(chained: &ChainedItem, previous: &Link, scope: &LinkScope) -> Link {
    let item = &chained.item;
    let fields = encode_fields(&chained.item.body, &chained.events);
    let commitment = match chained.proof {
        CommitmentProof::Salt(salt) => {
            chain::commitment(&salt, item.body.parts.as_str().as_bytes())
        }
        CommitmentProof::Erased { commitment, .. } => commitment,
    };
    let turn = item.turn_id.as_ref();
    scope.link(
        previous,
        item.seq,
        turn,
        item.created_at,
        &fields,
        &commitment,
    )
}

/// Appends an item's content, or its commitment after a redaction; returns the commitment.
fn write_content(raw: &mut Vec<u8>, chained: &ChainedItem) -> [u8; 32] {
    match chained.proof {
        CommitmentProof::Salt(salt) => {
            let parts = chained.item.body.parts.as_str().as_bytes();
            raw.byte(0);
            raw.extend_from_slice(&salt);
            raw.bytes(parts);
            chain::commitment(&salt, parts)
        }
        CommitmentProof::Erased {
            commitment,
            redaction_seq,
        } => {
            raw.byte(1);
            raw.extend_from_slice(&commitment);
            raw.number(redaction_seq);
            commitment
        }
    }
}
