//! Builds records of items that were chained elsewhere, with unchanged salts, commitments, times and links.

use filrouge_types::{ErrorCode, Failure};

use super::batch::{RAW_MAX, RECORD_BYTES, RECORD_ITEMS, pack_body};
use super::fields::encode_fields;
use super::{ChainedItem, CommitmentProof, Head, RecordRow};
use crate::chain::{self, Link, LinkScope};
use crate::codec::WriteBytes;
use crate::keyring::{Keyring, MAC_BYTES};

/// Builds one record from the beginning of `items`: from the first item and the following ones with the same turn and
/// time, within the size limits of a record. `previous` is the link before the first item. Returns the row and the link
/// of its last item, or `Err` with the seq of an item whose link does not match its data.
///
/// # Errors
/// The outer error: the compressor fails, or `limit_exceeded` for an item that exceeds the size of a record.
pub fn adopted(
    items: &[ChainedItem],
    previous: Link,
    scope: &LinkScope,
    keyring: &Keyring,
) -> Result<Result<(RecordRow, Link), u64>, Failure> {
    let Some(first) = items.first().map(|i| &i.item) else {
        return Ok(Err(0));
    };
    let (mut raw, mut last, mut count) = (Vec::new(), previous, 0_usize);
    // An item without a turn gets a separate record.
    let like = |i: &&ChainedItem| {
        i.item.turn_id == first.turn_id
            && i.item.created_at == first.created_at
            && (first.turn_id.is_some() || i.item.seq == first.seq)
    };
    for (one, seq) in items.iter().take_while(like).zip(first.seq..) {
        let fields = encode_fields(&one.item.body, &one.events);
        raw.bytes(&fields);
        let commitment = put_content(&mut raw, one);
        let turn = first.turn_id.as_ref();
        last = scope.link(&last, seq, turn, first.created_at, &fields, &commitment);
        if one.item.seq != seq || one.link != last {
            return Ok(Err(seq));
        }
        count += 1;
        if count == RECORD_ITEMS || raw.len() >= RECORD_BYTES {
            break;
        }
    }
    if raw.len() > RAW_MAX {
        let what = format!("an item has at most {RAW_MAX} bytes");
        return Err(Failure::new(ErrorCode::LimitExceeded, what));
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
        head: head.signed(keyring, first.seq, count, &last),
        body,
    };
    Ok(Ok((row, last)))
}

/// Computes the link of an item after `previous`, from its seq, fields and content.
pub(crate) fn relinked(one: &ChainedItem, previous: &Link, scope: &LinkScope) -> Link {
    let item = &one.item;
    let fields = encode_fields(&one.item.body, &one.events);
    let commitment = match one.proof {
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

fn put_content(raw: &mut Vec<u8>, one: &ChainedItem) -> [u8; 32] {
    match one.proof {
        CommitmentProof::Salt(salt) => {
            let parts = one.item.body.parts.as_str().as_bytes();
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
