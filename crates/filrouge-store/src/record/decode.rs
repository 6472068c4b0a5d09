//! Unpacks and verifies records, each independently of its neighbors.

use std::borrow::Cow;
use std::cell::RefCell;

use filrouge_types::{Item, RawJson};

use super::batch::{Compression, RAW_MAX, RECORD_ITEMS};
use super::event::Event;
use super::fields::decode_fields;
use super::{Head, RecordRow, record_mac};
use crate::chain::{self, Link, LinkScope, SALT_BYTES};
use crate::codec::{ByteReader, Malformed};
use crate::keyring::{KeyId, Keyring, MAC_BYTES, equal_macs};

thread_local! {
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Decompresses a body to `raw_len` bytes.
fn decompress(raw_len: usize, body: &[u8]) -> std::io::Result<Vec<u8>> {
    if raw_len > RAW_MAX {
        // The length is not verified yet, so it must not cause an arbitrarily large allocation.
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Some(zstd::bulk::Decompressor::new()?);
        }
        slot.as_mut()
            .map_or_else(|| Ok(Vec::new()), |d| d.decompress(body, raw_len))
    })
}

/// The unpacked body of a record.
pub(super) fn unpack_body<'r>(head: &Head, row: &'r RecordRow) -> Result<Cow<'r, [u8]>, Malformed> {
    let raw = match head.compression {
        Compression::None => Cow::Borrowed(row.body.as_slice()),
        Compression::Zstd => {
            Cow::Owned(decompress(head.raw_len, &row.body).map_err(|_| Malformed)?)
        }
    };
    if raw.len() == head.raw_len {
        Ok(raw)
    } else {
        Err(Malformed)
    }
}

/// Whether MACs are checked. An auditor without the key can only check links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MacCheck {
    /// MACs are checked; a missing key is a failure.
    Keyed,
    /// Links are checked, MACs are not.
    Unverified,
}

/// A fault of a record, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordFault {
    /// The first affected seq.
    pub seq: u64,
    /// The fault.
    pub kind: RecordFaultKind,
}

/// The kinds of faults in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordFaultKind {
    /// The bytes do not follow the format.
    #[error("the record is malformed")]
    Malformed,
    /// The MAC does not match.
    #[error("the record was changed (its MAC does not match)")]
    Mac,
    /// The key is not in the keyring.
    #[error("key {0} is not in the keyring")]
    KeyMissing(KeyId),
    /// An item has no content, and no redaction names the item.
    #[error("the content is missing and no redaction names it")]
    Contentless,
    /// The previous link does not match.
    #[error("the chain is broken: the item does not follow the one before it")]
    Gap,
    /// Items are missing.
    #[error("the item is missing")]
    Missing,
}

/// A record's items, verified.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// The items, with the events that they record.
    pub items: Vec<(Item, Vec<Event>)>,
    /// The seqs of items without content, each with the seq of the redaction to which the item points. A caller that
    /// returns the items must first check that this redaction names them.
    pub redacted: Vec<(u64, u64)>,
    /// The link before the first item.
    pub previous_link: Link,
    /// The link of the last item.
    pub last_link: Link,
}

/// Unpacks and verifies one record, independently of its neighbors.
///
/// # Errors
/// [`RecordFault`] when the bytes, the MAC or a content differ from what was written.
pub fn decode(
    row: &RecordRow,
    scope: &LinkScope,
    keyring: &Keyring,
    check: MacCheck,
) -> Result<Decoded, RecordFault> {
    let mut items = Vec::with_capacity(usize::try_from(row.count).unwrap_or(0).min(RECORD_ITEMS));
    let mut redacted = Vec::new();
    let (previous_link, last_link) = decode_each(row, scope, keyring, check, |chained| {
        if let CommitmentProof::Erased { redaction_seq, .. } = chained.proof {
            redacted.push((chained.item.seq, redaction_seq));
        }
        items.push((chained.item, chained.events));
    })?;
    Ok(Decoded {
        items,
        redacted,
        previous_link,
        last_link,
    })
}

/// Like [`decode`], but returns the items with the inputs of their links.
///
/// # Errors
/// As [`decode`].
pub fn decode_chained(
    row: &RecordRow,
    scope: &LinkScope,
    keyring: &Keyring,
    check: MacCheck,
) -> Result<(Link, Vec<ChainedItem>), RecordFault> {
    let mut items = Vec::new();
    let (previous, _) = decode_each(row, scope, keyring, check, |chained| items.push(chained))?;
    Ok((previous, items))
}

/// Passes each item of a record to `visit`; returns the link before the first item and the last link.
fn decode_each(
    row: &RecordRow,
    scope: &LinkScope,
    keyring: &Keyring,
    check: MacCheck,
    mut visit: impl FnMut(ChainedItem),
) -> Result<(Link, Link), RecordFault> {
    let fault = |kind| RecordFault {
        seq: row.first_seq,
        kind,
    };
    let head = Head::read(&row.head).map_err(|Malformed| fault(RecordFaultKind::Malformed))?;
    let raw = unpack_body(&head, row).map_err(|Malformed| fault(RecordFaultKind::Malformed))?;
    let mut reader = ByteReader(&raw);
    let mut last_link = head.previous;
    for seq in row.first_seq..row.first_seq.saturating_add(row.count) {
        let chained = decode_item(&mut reader, seq, &head, scope, &last_link)?;
        last_link = chained.link;
        visit(chained);
    }
    if !reader.is_empty() || row.count == 0 {
        return Err(fault(RecordFaultKind::Malformed));
    }
    if check == MacCheck::Keyed {
        let mac = record_mac(
            keyring,
            head.key_id,
            row.first_seq,
            row.count,
            &row.head[..row.head.len() - MAC_BYTES],
            &last_link,
        )
        .ok_or_else(|| fault(RecordFaultKind::KeyMissing(head.key_id)))?;
        if !equal_macs(&mac, &head.mac) {
            return Err(fault(RecordFaultKind::Mac));
        }
    }
    Ok((head.previous, last_link))
}

/// An item with all inputs of its link except the previous link, so that a third party can recompute the link (DESIGN
/// §9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainedItem {
    /// The item.
    pub item: Item,
    /// The events that the item records.
    pub events: Vec<Event>,
    /// The salt or, after a redaction, the commitment.
    pub proof: CommitmentProof,
    /// The item's link.
    pub link: Link,
}

/// The data that yields an item's commitment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitmentProof {
    /// The item has its content. The commitment is computed from the content and this salt.
    Salt([u8; SALT_BYTES]),
    /// The content was redacted, so the record stores the commitment instead.
    Erased {
        /// The commitment.
        commitment: [u8; 32],
        /// The seq of the redaction to which the item points; not verified.
        redaction_seq: u64,
    },
}

fn decode_item(
    reader: &mut ByteReader<'_>,
    seq: u64,
    head: &Head,
    scope: &LinkScope,
    previous: &Link,
) -> Result<ChainedItem, RecordFault> {
    let malformed = |Malformed| RecordFault {
        seq,
        kind: RecordFaultKind::Malformed,
    };
    let fields = reader.bytes().map_err(malformed)?;
    let (commitment, parts, proof) = match reader.byte().map_err(malformed)? {
        0 => {
            let salt: [u8; SALT_BYTES] = reader.array().map_err(malformed)?;
            let parts = reader.text().map_err(malformed)?;
            let commitment = chain::commitment(&salt, parts.as_bytes());
            (commitment, Some(parts), CommitmentProof::Salt(salt))
        }
        1 => {
            let commitment = reader.array().map_err(malformed)?;
            let redaction_seq = reader.number().map_err(malformed)?;
            let proof = CommitmentProof::Erased {
                commitment,
                redaction_seq,
            };
            (commitment, None, proof)
        }
        _ => return Err(malformed(Malformed)),
    };
    let link = scope.link(
        previous,
        seq,
        head.turn_id.as_ref(),
        head.created_at,
        fields,
        &commitment,
    );
    let (mut body, events) = decode_fields(fields).map_err(malformed)?;
    if events.iter().any(|e| e.redacts_at_or_after(seq)) {
        return Err(malformed(Malformed));
    }
    if let Some(parts) = parts {
        body.parts = RawJson::from_checked(parts);
    }
    let item = Item {
        seq,
        turn_id: head.turn_id,
        created_at: head.created_at,
        redacted: parts.is_none(),
        body,
    };
    Ok(ChainedItem {
        item,
        events,
        proof,
        link,
    })
}
