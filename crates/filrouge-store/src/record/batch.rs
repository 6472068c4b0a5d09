//! Packing: a caller's items become records outside the transaction, so that a writer only links them.

use std::cell::RefCell;
use std::collections::BTreeSet;

use filrouge_types::{
    Channel, ErrorCode, Failure, Item, ItemBody, ItemId, Role, Timestamp, TurnId, Variant,
};

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::fields::encode_fields;
use crate::chain::{self, SALT_BYTES};
use crate::codec::Write;
use crate::keyring::Entropy;

/// Most items in one record, and most content bytes before a record is ended: bounds what reading one item costs.
pub(super) const RECORD_ITEMS: usize = 64;
pub(super) const RECORD_BYTES: usize = 128 * 1024;

/// Most unpacked bytes of one record: one item beyond all limits of DESIGN §8.
pub(super) const RAW_MAX: usize = 256 << 20;

/// Bodies below this are stored as they are.
const COMPRESS_FROM: usize = 256;
/// The zstd level, chosen by measurement (docs/adr/0002).
const ZSTD_LEVEL: i32 = 1;

/// How a body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// As it is.
    None,
    /// One zstd frame.
    Zstd,
}

/// What the link of a sealed item is made of.
#[derive(Debug, Clone)]
pub(super) struct SealedItem {
    pub(super) fields: Vec<u8>,
    pub(super) commitment: [u8; 32],
}

/// Whether a stored item is this one, its content included; of a redacted one nothing but its key and kind is left to
/// compare.
#[must_use]
pub fn is_repeated(item: &ItemBody, stored: &Item) -> bool {
    fn kind(of: &ItemBody) -> (&Option<ItemId>, Role, &Channel, Variant) {
        (&of.item_id, of.role, &of.channel, of.variant)
    }
    match stored.redacted {
        true => kind(item) == kind(&stored.body),
        false => *item == stored.body,
    }
}

/// What two items must share to be one and the same: fields without events, and content.
#[must_use]
pub fn item_fingerprint(item: &ItemBody) -> [u8; 16] {
    chain::fingerprint(&[&encode_fields(item, &[]), item.parts.as_str().as_bytes()])
}

/// Consecutive items packed together, not yet placed in a session.
#[derive(Debug, Clone)]
pub struct SealedRecord {
    pub(super) items: Vec<SealedItem>,
    pub(super) compression: Compression,
    pub(super) raw_len: usize,
    pub(super) body: Vec<u8>,
}

/// A caller's items, packed and committed to outside the transaction, so that a writer only links them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Batch {
    /// The records, in order.
    #[serde(skip)]
    pub records: Vec<SealedRecord>,
    /// What was packed, so that a write can answer without reading back what it has just put.
    entries: Vec<Entry>,
}

/// One item with the turn's events that it carries.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    /// What was packed, in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The agents that its items name, each once.
    #[must_use]
    pub fn agents(&self) -> BTreeSet<&str> {
        let agents = self.entries.iter().map(|e| e.item.agent.as_deref());
        agents.flatten().collect()
    }

    /// Packs `entries`; salts come from `entropy`.
    ///
    /// # Errors
    /// [`ErrorCode::Internal`] when the random source or the compressor fails.
    pub fn seal(entries: Vec<Entry>, entropy: &dyn Entropy) -> Result<Self, Failure> {
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

    /// The item at `index` as it stands once the batch was put at `seq`, with its events.
    pub(crate) fn placed(
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

    /// How many items it holds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.entries.len() as u64
    }

    /// How many bytes it takes in a store.
    #[must_use]
    pub fn stored_len(&self) -> usize {
        self.records.iter().map(|r| r.body.len()).sum()
    }

    /// Its items, in order.
    pub fn items(&self) -> impl Iterator<Item = &ItemBody> {
        self.entries.iter().map(|entry| &entry.item)
    }
}

fn pack_item(raw: &mut Vec<u8>, entry: &Entry, salt: &[u8; SALT_BYTES]) -> SealedItem {
    let item = &entry.item;
    let parts = item.parts.as_str().as_bytes();
    let events: Vec<Event> = entry.events.iter().map(|e| e.salted(salt)).collect();
    let fields = encode_fields(item, &events);
    raw.bytes(&fields);
    raw.byte(0);
    raw.extend_from_slice(salt);
    raw.bytes(parts);
    SealedItem {
        fields,
        commitment: chain::commitment(salt, parts),
    }
}

thread_local! {
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

fn pack_record(items: Vec<SealedItem>, raw: &[u8]) -> Result<SealedRecord, Failure> {
    if raw.len() > RAW_MAX {
        let what = format!("an item has at most {RAW_MAX} bytes");
        return Err(Failure::new(ErrorCode::LimitExceeded, what));
    }
    let (compression, body) = pack_body(raw)?;
    Ok(SealedRecord {
        items,
        compression,
        raw_len: raw.len(),
        body,
    })
}

/// Compresses a body when that makes it shorter.
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
