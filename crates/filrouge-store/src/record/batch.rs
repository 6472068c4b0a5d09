//! Packs a caller's items into records outside the transaction, so that the transaction only links them.

use std::cell::RefCell;
use std::collections::BTreeSet;

use filrouge_types::{
    Channel, ErrorCode, Failure, Item, ItemBody, ItemId, Role, Timestamp, TurnId, Variant,
};

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::fields::encode_fields;
use crate::chain::{self, SALT_BYTES};
use crate::codec::WriteBytes;
use crate::keyring::Entropy;

/// The maximum number of items of one record. It limits the cost of reading one item.
pub(super) const RECORD_ITEMS: usize = 64;
/// The number of unpacked bytes at which a record ends. It limits the cost of reading one item.
pub(super) const RECORD_BYTES: usize = 128 * 1024;

/// The maximum unpacked bytes of one record. No item within the limits of DESIGN §8 is larger.
pub(super) const RAW_MAX: usize = 256 << 20;

/// The minimum length in bytes of a body that is compressed.
const COMPRESS_FROM: usize = 256;
/// The zstd level, chosen by measurement (docs/adr/0002).
const ZSTD_LEVEL: i32 = 1;

/// The compression of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not compressed.
    None,
    /// One zstd frame.
    Zstd,
}

/// The inputs of a packed item's link.
#[derive(Debug, Clone)]
pub(super) struct PackedItem {
    pub(super) fields: Vec<u8>,
    pub(super) commitment: [u8; 32],
}

/// Whether an item and a stored item are equal, including their contents. If the stored item was redacted, only the
/// item ids, roles, channels and variants are compared.
pub fn is_repeated(item: &ItemBody, stored: &Item) -> bool {
    fn identifying_fields(item: &ItemBody) -> (&Option<ItemId>, Role, &Channel, Variant) {
        (&item.item_id, item.role, &item.channel, item.variant)
    }
    match stored.redacted {
        true => identifying_fields(item) == identifying_fields(&stored.body),
        false => *item == stored.body,
    }
}

/// The fingerprint of an item's fields and content, without its events. Equal items have equal fingerprints.
pub fn item_fingerprint(item: &ItemBody) -> [u8; 16] {
    chain::fingerprint(&[&encode_fields(item, &[]), item.parts.as_str().as_bytes()])
}

/// Consecutive items packed together, not yet placed in a session.
#[derive(Debug, Clone)]
pub struct PackedRecord {
    pub(super) items: Vec<PackedItem>,
    pub(super) compression: Compression,
    pub(super) raw_len: usize,
    pub(super) body: Vec<u8>,
}

/// A caller's items, packed into records with their commitments. They are packed outside the transaction, so that the
/// transaction only links them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Batch {
    /// The records, in order.
    #[serde(skip)]
    pub records: Vec<PackedRecord>,
    /// The packed entries, so that a write can build its outcome without reading the items back.
    entries: Vec<Entry>,
}

/// One item, with the turn events that it records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The item.
    pub item: ItemBody,
    /// The changes of the turn that this item records.
    pub events: Vec<Event>,
}

impl From<ItemBody> for Entry {
    fn from(item: ItemBody) -> Self {
        Self {
            item,
            events: Vec::new(),
        }
    }
}

impl Batch {
    /// The packed entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The distinct agents that the items name.
    pub fn agents(&self) -> BTreeSet<&str> {
        let agents = self.entries.iter().map(|e| e.item.agent.as_deref());
        agents.flatten().collect()
    }

    /// Packs `entries` with their commitments, whose salts come from `entropy`.
    ///
    /// # Errors
    /// [`ErrorCode::Internal`] when the random source or the compressor fails.
    pub fn pack(entries: Vec<Entry>, entropy: &dyn Entropy) -> Result<Self, Failure> {
        let mut salts = vec![0; entries.len() * SALT_BYTES];
        entropy.fill(&mut salts)?;
        let mut records = Vec::new();
        let mut items = Vec::new();
        let mut raw = Vec::new();
        for (entry, salt) in entries.iter().zip(salts.as_chunks::<SALT_BYTES>().0) {
            items.push(pack_item(&mut raw, entry, salt));
            if items.len() == RECORD_ITEMS || raw.len() >= RECORD_BYTES {
                records.push(pack_record(std::mem::take(&mut items), &raw)?);
                raw.clear();
            }
        }
        if !items.is_empty() {
            records.push(pack_record(items, &raw)?);
        }
        Ok(Self { records, entries })
    }

    /// The item at `index`, in the form in which it was written at `seq`, with its events; `None` if the batch has
    /// fewer items.
    pub(crate) fn written_item(
        &self,
        index: usize,
        seq: u64,
        turn_id: TurnId,
        created_at: Timestamp,
    ) -> Option<(Item, Vec<Event>)> {
        let Entry { item: body, events } = self.entries.get(index)?.clone();
        let item = Item {
            seq,
            turn_id: Some(turn_id),
            created_at,
            redacted: false,
            body,
        };
        Some((item, events))
    }

    /// The number of items.
    pub fn count(&self) -> u64 {
        self.entries.len() as u64
    }

    /// The number of bytes that the packed items occupy in a store.
    pub fn stored_len(&self) -> usize {
        self.records.iter().map(|r| r.body.len()).sum()
    }

    /// The items, in order.
    pub fn items(&self) -> impl Iterator<Item = &ItemBody> {
        self.entries.iter().map(|entry| &entry.item)
    }
}

/// Appends an item to the unpacked body of a record.
fn pack_item(raw: &mut Vec<u8>, entry: &Entry, salt: &[u8; SALT_BYTES]) -> PackedItem {
    let item = &entry.item;
    let parts = item.parts.as_str().as_bytes();
    let events: Vec<Event> = entry.events.iter().map(|e| e.salted(salt)).collect();
    let fields = encode_fields(item, &events);
    raw.bytes(&fields);
    raw.byte(0);
    raw.extend_from_slice(salt);
    raw.bytes(parts);
    PackedItem {
        fields,
        commitment: chain::commitment(salt, parts),
    }
}

thread_local! {
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// Packs the unpacked body of a record.
fn pack_record(items: Vec<PackedItem>, raw: &[u8]) -> Result<PackedRecord, Failure> {
    if raw.len() > RAW_MAX {
        let detail = format!("an item has at most {RAW_MAX} bytes");
        return Err(Failure::new(ErrorCode::LimitExceeded, detail));
    }
    let (compression, body) = pack_body(raw)?;
    Ok(PackedRecord {
        items,
        compression,
        raw_len: raw.len(),
        body,
    })
}

/// Compresses a body, unless the compressed form is not shorter.
pub(super) fn pack_body(raw: &[u8]) -> Result<(Compression, Vec<u8>), Failure> {
    if raw.len() < COMPRESS_FROM {
        return Ok((Compression::None, raw.to_vec()));
    }
    let packed = COMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Some(zstd::bulk::Compressor::new(ZSTD_LEVEL)?);
        }
        slot.as_mut()
            .map_or_else(|| Ok(raw.to_vec()), |c| c.compress(raw))
    });
    let packed = packed
        .map_err(|e| Failure::new(ErrorCode::Internal, format!("compression failed: {e}")))?;
    Ok(if packed.len() < raw.len() {
        (Compression::Zstd, packed)
    } else {
        (Compression::None, raw.to_vec())
    })
}
