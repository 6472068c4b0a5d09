//! Unpacking and verifying records, each by itself.

use std::cell::RefCell;
use std::fmt;

use filrouge_types::{Item, RawJson};

use super::batch::{Compression, RAW_MAX, RECORD_ITEMS};
use super::event::Event;
use super::fields::decode_fields;
use super::{Head, RecordRow, record_mac};
use crate::chain::{self, Link, LinkScope, SALT_BYTES};
use crate::codec::{Malformed, Reader};
use crate::keyring::{KeyId, Keyring, MAC_BYTES, equal_macs};

thread_local! {
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

fn unpack(raw_len: usize, body: &[u8]) -> std::io::Result<Vec<u8>> {
    if raw_len > RAW_MAX {
        // The length is not yet verified: it must not decide how much memory is taken.
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

/// Whether MACs are checked, or an auditor without the key reads by links alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// MACs are checked; a missing key is a failure.
    Keyed,
    /// Links are checked, MACs are not.
    Unverified,
}

/// What is wrong with a record, and at which seq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The first seq concerned.
    pub seq: u64,
    /// What is wrong.
    pub what: FaultKind,
}

/// The kinds of faults in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The bytes do not follow the format.
    Malformed,
    /// The MAC does not fit.
    Mac,
    /// The key is not in the ring.
    KeyMissing(KeyId),
    /// A content is missing and no redaction names it.
    Contentless,
    /// The link before does not continue.
    Gap,
    /// Items are missing.
    Missing,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("the record is malformed"),
            Self::Mac => f.write_str("the record was changed (its MAC does not fit)"),
            Self::KeyMissing(id) => write!(f, "key {id} is not in the keyring"),
            Self::Contentless => f.write_str("the content is missing and no redaction names it"),
            Self::Gap => {
                f.write_str("the chain is broken: this is not what followed the item before")
            }
            Self::Missing => f.write_str("the item is missing"),
        }
    }
}

/// A record's items, verified.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// The items, with the turn's events they carry.
    pub items: Vec<(Item, Vec<Event>)>,
    /// The link before the first item.
    pub previous: Link,
    /// The link of the last item.
    pub last: Link,
}

/// Unpacks and verifies one record, by itself.
///
/// # Errors
/// [`Fault`]: the bytes, the MAC or a content are not what was written.
pub fn decode(
    row: &RecordRow,
    scope: &LinkScope,
    keyring: &Keyring,
    check: Check,
) -> Result<Decoded, Fault> {
    let fault = |what| Fault {
        seq: row.first_seq,
        what,
    };
    let head = Head::read(&row.head).map_err(|Malformed| fault(FaultKind::Malformed))?;
    let unpacked;
    let raw = match head.compression {
        Compression::None => row.body.as_slice(),
        Compression::Zstd => {
            unpacked = unpack(head.raw_len, &row.body).map_err(|_| fault(FaultKind::Malformed))?;
            &unpacked
        }
    };
    if raw.len() != head.raw_len {
        return Err(fault(FaultKind::Malformed));
    }
    let mut reader = Reader(raw);
    let mut items = Vec::with_capacity(usize::try_from(row.count).unwrap_or(0).min(RECORD_ITEMS));
    let mut last = head.previous;
    for seq in row.first_seq..row.first_seq.saturating_add(row.count) {
        let (item, events, link) = decode_item(&mut reader, seq, &head, scope, &last)?;
        items.push((item, events));
        last = link;
    }
    if !reader.is_empty() || items.is_empty() {
        return Err(fault(FaultKind::Malformed));
    }
    if check == Check::Keyed {
        let mac = record_mac(
            keyring,
            head.key_id,
            row.first_seq,
            row.count,
            &row.head[..row.head.len() - MAC_BYTES],
            &last,
        )
        .ok_or_else(|| fault(FaultKind::KeyMissing(head.key_id)))?;
        if !equal_macs(&mac, &head.mac) {
            return Err(fault(FaultKind::Mac));
        }
    }
    if let Some((item, _)) = items.iter().find(|(i, _)| i.redacted) {
        return Err(Fault {
            seq: item.seq,
            what: FaultKind::Contentless,
        });
    }
    Ok(Decoded {
        items,
        previous: head.previous,
        last,
    })
}

fn decode_item(
    reader: &mut Reader<'_>,
    seq: u64,
    head: &Head,
    scope: &LinkScope,
    previous: &Link,
) -> Result<(Item, Vec<Event>, Link), Fault> {
    let malformed = |Malformed| Fault {
        seq,
        what: FaultKind::Malformed,
    };
    let fields = reader.bytes().map_err(malformed)?;
    let (commitment, parts) = match reader.byte().map_err(malformed)? {
        0 => {
            let salt: [u8; SALT_BYTES] = reader.array().map_err(malformed)?;
            let parts = reader.text().map_err(malformed)?;
            (chain::commitment(&salt, parts.as_bytes()), Some(parts))
        }
        1 => (reader.array().map_err(malformed)?, None),
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
    let (new, events) = decode_fields(fields).map_err(malformed)?;
    let item = Item {
        seq,
        item_id: new.item_id,
        turn_id: head.turn_id,
        role: new.role,
        channel: new.channel,
        variant: new.variant,
        parts: parts.map_or_else(|| RawJson::from_checked("[]"), RawJson::from_checked),
        agent: new.agent,
        model: new.model,
        usage: new.usage,
        metadata: new.metadata,
        occurred_at: new.occurred_at,
        created_at: head.created_at,
        redacted: parts.is_none(),
    };
    Ok((item, events, link))
}
