//! Records: the stored form of consecutive items of one turn, sealed before the transaction and
//! chained inside it (docs/format.md).

use std::cell::RefCell;
use std::fmt;

use filrouge_types::{
    Channel, ErrorCode, Failure, Item, ItemId, NewItem, RawJson, Role, Timestamp, TurnId, Variant,
};

use crate::chain::{self, Link, LinkScope, SALT_BYTES};
use crate::codec::{Malformed, Reader, Write};
use crate::keyring::{Domain, Entropy, KeyId, Keyring, MAC_BYTES, equal_macs};

mod event;
pub use event::{CloseEvent, Event, StartEvent};

/// Most items in one record, and most content bytes before a record is ended: bounds what reading one item costs.
const RECORD_ITEMS: usize = 64;
const RECORD_BYTES: usize = 128 * 1024;

/// Bodies below this are stored as they are.
const COMPRESS_FROM: usize = 256;
/// The zstd level, chosen by measurement (docs/adr/0002).
const ZSTD_LEVEL: i32 = 1;

/// The format byte of records written now.
pub const FORMAT: u8 = 1;

/// How a body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// As it is.
    None,
    /// One zstd frame.
    Zstd,
}

/// What the rules must know of a sealed item.
#[derive(Debug, Clone)]
pub struct SealedItem {
    /// The caller's key.
    pub item_id: Option<ItemId>,
    /// What it is.
    pub channel: Channel,
    /// The language it is in.
    pub variant: Variant,
    fields: Vec<u8>,
    commitment: [u8; 32],
    /// Only in batches with an item key, for telling a retry from another body.
    compared: Option<[u8; 16]>,
}

impl SealedItem {
    /// Whether a stored item is what was sealed here, its content included.
    #[must_use]
    pub fn equals(&self, stored: &Item) -> bool {
        self.compared == Some(compared(&NewItem {
            item_id: stored.item_id.clone(),
            role: stored.role,
            channel: stored.channel.clone(),
            variant: stored.variant,
            parts: stored.parts.clone(),
            agent: stored.agent.clone(),
            model: stored.model.clone(),
            usage: stored.usage.clone(),
            metadata: stored.metadata.clone(),
            occurred_at: stored.occurred_at,
        }))
    }
}

/// What two items must share to be one and the same: fields without events, and content.
fn compared(item: &NewItem) -> [u8; 16] {
    chain::fingerprint(&[&encode_fields(item, &[]), item.parts.as_str().as_bytes()])
}

/// Consecutive items packed together, not yet placed in a session.
#[derive(Debug, Clone)]
pub struct SealedRecord {
    /// Its items.
    pub items: Vec<SealedItem>,
    compression: Compression,
    raw_len: usize,
    body: Vec<u8>,
}

/// A caller's items, packed and committed to outside the transaction, so that a writer only links them.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The records, in order.
    pub records: Vec<SealedRecord>,
}

/// One item with the turn's events that it carries.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The item.
    pub item: NewItem,
    /// The changes of the turn that this item records.
    pub events: Vec<Event>,
}

impl From<NewItem> for Entry {
    fn from(item: NewItem) -> Self {
        Self { item, events: Vec::new() }
    }
}

impl Batch {
    /// Packs `entries`; salts come from `entropy`.
    ///
    /// # Errors
    /// [`ErrorCode::Internal`] when the random source or the compressor fails.
    pub fn seal(entries: &[Entry], entropy: &dyn Entropy) -> Result<Self, Failure> {
        let mut salts = vec![0; entries.len() * SALT_BYTES];
        entropy.fill(&mut salts).map_err(|e| {
            Failure::new(ErrorCode::Internal, format!("the random source failed: {e}"))
        })?;
        let keyed = entries.iter().any(|e| e.item.item_id.is_some());
        let mut records = Vec::new();
        let mut items = Vec::new();
        let mut raw = Vec::new();
        for (entry, salt) in entries.iter().zip(salts.as_chunks::<SALT_BYTES>().0) {
            items.push(pack_item(&mut raw, entry, salt, keyed));
            if items.len() == RECORD_ITEMS || raw.len() >= RECORD_BYTES {
                records.push(pack_record(std::mem::take(&mut items), &raw)?);
                raw.clear();
            }
        }
        if !items.is_empty() {
            records.push(pack_record(items, &raw)?);
        }
        Ok(Self { records })
    }

    /// How many items it holds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.records.iter().map(|r| r.items.len() as u64).sum()
    }

    /// Its items, in order.
    pub fn items(&self) -> impl Iterator<Item = &SealedItem> {
        self.records.iter().flat_map(|r| &r.items)
    }
}

fn pack_item(raw: &mut Vec<u8>, entry: &Entry, salt: &[u8; SALT_BYTES], keyed: bool) -> SealedItem {
    let item = &entry.item;
    let parts = item.parts.as_str().as_bytes();
    let fields = encode_fields(item, &entry.events);
    raw.bytes(&fields);
    raw.byte(0);
    raw.extend_from_slice(salt);
    raw.bytes(parts);
    SealedItem {
        item_id: item.item_id.clone(),
        channel: item.channel.clone(),
        variant: item.variant,
        fields,
        commitment: chain::commitment(salt, parts),
        compared: keyed.then(|| compared(item)),
    }
}

thread_local! {
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

fn pack_record(items: Vec<SealedItem>, raw: &[u8]) -> Result<SealedRecord, Failure> {
    let plain = |items| SealedRecord {
        items,
        compression: Compression::None,
        raw_len: raw.len(),
        body: raw.to_vec(),
    };
    if raw.len() < COMPRESS_FROM {
        return Ok(plain(items));
    }
    let packed = COMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Some(zstd::bulk::Compressor::new(ZSTD_LEVEL)?);
        }
        slot.as_mut().map_or_else(|| Ok(raw.to_vec()), |c| c.compress(raw))
    });
    let packed = packed
        .map_err(|e| Failure::new(ErrorCode::Internal, format!("compression failed: {e}")))?;
    if packed.len() >= raw.len() {
        return Ok(plain(items));
    }
    Ok(SealedRecord { items, compression: Compression::Zstd, raw_len: raw.len(), body: packed })
}

fn unpack(raw_len: usize, body: &[u8]) -> std::io::Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Some(zstd::bulk::Decompressor::new()?);
        }
        slot.as_mut().map_or_else(|| Ok(Vec::new()), |d| d.decompress(body, raw_len))
    })
}

const HAS_ID: u8 = 1;
const HAS_AGENT: u8 = 2;
const HAS_MODEL: u8 = 4;
const HAS_USAGE: u8 = 8;
const HAS_METADATA: u8 = 16;
const HAS_OCCURRED: u8 = 32;

/// Everything of an item but its content, in the canonical order that the link covers.
fn encode_fields(item: &NewItem, events: &[Event]) -> Vec<u8> {
    let mut out = Vec::with_capacity(96);
    out.byte(item.role.code());
    match item.channel.code() {
        Some(code) => out.byte(code),
        None => {
            out.byte(u8::MAX);
            out.text(item.channel.as_str());
        }
    }
    out.byte(item.variant.code());
    let texts = [
        (HAS_ID, item.item_id.as_ref().map(ItemId::as_str)),
        (HAS_AGENT, item.agent.as_deref()),
        (HAS_MODEL, item.model.as_deref()),
        (HAS_USAGE, item.usage.as_ref().map(RawJson::as_str)),
        (HAS_METADATA, item.metadata.as_ref().map(RawJson::as_str)),
    ];
    let mut present = if item.occurred_at.is_some() { HAS_OCCURRED } else { 0 };
    for (bit, text) in &texts {
        if text.is_some() {
            present |= bit;
        }
    }
    out.byte(present);
    for text in texts.iter().filter_map(|(_, t)| *t) {
        out.text(text);
    }
    if let Some(t) = item.occurred_at {
        out.time(t);
    }
    out.number(events.len() as u64);
    for event in events {
        event.write(&mut out);
    }
    out
}

fn decode_fields(bytes: &[u8]) -> Result<(NewItem, Vec<Event>), Malformed> {
    let mut r = Reader(bytes);
    let role = Role::from_code(r.byte()?).ok_or(Malformed)?;
    let channel = match r.byte()? {
        u8::MAX => Channel::Other(r.text()?.into()),
        code => Channel::from_code(code).ok_or(Malformed)?,
    };
    let variant = Variant::from_code(r.byte()?).ok_or(Malformed)?;
    let present = r.byte()?;
    let mut text = |bit: u8| -> Result<Option<&str>, Malformed> {
        if present & bit == 0 { Ok(None) } else { r.text().map(Some) }
    };
    let item_id = text(HAS_ID)?.map(ItemId::new).transpose().map_err(|_| Malformed)?;
    let agent = text(HAS_AGENT)?.map(Into::into);
    let model = text(HAS_MODEL)?.map(Into::into);
    let usage = text(HAS_USAGE)?.map(RawJson::from_checked);
    let metadata = text(HAS_METADATA)?.map(RawJson::from_checked);
    let occurred_at = if present & HAS_OCCURRED == 0 { None } else { Some(r.time()?) };
    let mut events = Vec::new();
    for _ in 0..r.number()? {
        events.push(Event::read(&mut r)?);
    }
    if !r.is_empty() {
        return Err(Malformed);
    }
    let item = NewItem {
        item_id,
        role,
        channel,
        variant,
        parts: RawJson::from_checked("[]"),
        agent,
        model,
        usage,
        metadata,
        occurred_at,
    };
    Ok((item, events))
}

/// A record as it stands in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRow {
    /// The seq of its first item.
    pub first_seq: u64,
    /// How many items it holds.
    pub count: u64,
    /// The fixed part: format, algorithms, key id, time, turn, previous link, MAC.
    pub head: Vec<u8>,
    /// The packed items.
    pub body: Vec<u8>,
}

impl RecordRow {
    /// The seq of its last item.
    #[must_use]
    pub const fn last_seq(&self) -> u64 {
        self.first_seq + self.count.saturating_sub(1)
    }

    /// Its turn, without verification: for choosing records, never for an answer.
    #[must_use]
    pub fn turn_id(&self) -> Option<TurnId> {
        Head::read(&self.head).ok().and_then(|h| h.turn_id)
    }
}

/// The fixed part of a record (docs/format.md §Record).
struct Head {
    key_id: KeyId,
    compression: Compression,
    raw_len: usize,
    created_at: Timestamp,
    turn_id: Option<TurnId>,
    previous: Link,
    mac: [u8; MAC_BYTES],
}

impl Head {
    fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(88);
        out.byte(FORMAT);
        out.byte(chain::SHA256);
        out.extend_from_slice(&self.key_id.to_be_bytes());
        // Encryption: none. The byte is reserved (docs/format.md).
        out.byte(0);
        out.byte(match self.compression {
            Compression::None => 0,
            Compression::Zstd => 1,
        });
        out.number(self.raw_len as u64);
        out.time(self.created_at);
        match &self.turn_id {
            Some(id) => {
                out.byte(1);
                out.extend_from_slice(id.as_bytes());
            }
            None => out.byte(0),
        }
        out.extend_from_slice(&self.previous);
        out.extend_from_slice(&self.mac);
        out
    }

    fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader(bytes);
        let (format, algorithm) = (r.byte()?, r.byte()?);
        let key_id = KeyId::from_be_bytes(r.array()?);
        let encryption = r.byte()?;
        if (format, algorithm, encryption) != (FORMAT, chain::SHA256, 0) {
            return Err(Malformed);
        }
        let compression = match r.byte()? {
            0 => Compression::None,
            1 => Compression::Zstd,
            _ => return Err(Malformed),
        };
        let raw_len = usize::try_from(r.number()?).map_err(|_| Malformed)?;
        let created_at = r.time()?;
        let turn_id = match r.byte()? {
            0 => None,
            1 => Some(TurnId::from_bytes(r.array()?)),
            _ => return Err(Malformed),
        };
        let head = Self {
            key_id,
            compression,
            raw_len,
            created_at,
            turn_id,
            previous: r.array()?,
            mac: r.array()?,
        };
        if r.is_empty() { Ok(head) } else { Err(Malformed) }
    }
}

fn record_mac(
    keyring: &Keyring,
    key: KeyId,
    first_seq: u64,
    count: u64,
    previous: &Link,
    last: &Link,
) -> Option<[u8; MAC_BYTES]> {
    let place = [first_seq.to_be_bytes(), count.to_be_bytes()];
    keyring.mac(key, Domain::Record, &[place.as_flattened(), previous, last])
}

/// Where a record is put: made by the rules, inside the transaction.
pub struct Placement<'a> {
    /// The session's link scope.
    pub scope: &'a LinkScope,
    /// The turn.
    pub turn_id: Option<TurnId>,
    /// The store's time.
    pub created_at: Timestamp,
    /// The keys.
    pub keyring: &'a Keyring,
}

impl Placement<'_> {
    /// Links a sealed record behind `previous` at `first_seq`; gives the row and the new last link.
    #[must_use]
    pub fn place(&self, record: &SealedRecord, first_seq: u64, previous: Link) -> (RecordRow, Link) {
        let mut last = previous;
        for (item, seq) in record.items.iter().zip(first_seq..) {
            last = self.scope.link(
                &last,
                seq,
                self.turn_id.as_ref(),
                self.created_at,
                &item.fields,
                &item.commitment,
            );
        }
        let count = record.items.len() as u64;
        let key_id = self.keyring.active();
        // The active key is in the ring by construction.
        let mac = record_mac(self.keyring, key_id, first_seq, count, &previous, &last)
            .unwrap_or_default();
        let head = Head {
            key_id,
            compression: record.compression,
            raw_len: record.raw_len,
            created_at: self.created_at,
            turn_id: self.turn_id,
            previous,
            mac,
        };
        (RecordRow { first_seq, count, head: head.write(), body: record.body.clone() }, last)
    }
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
            Self::Gap => f.write_str("the chain is broken: this is not what followed the item before"),
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
pub fn decode(row: &RecordRow, scope: &LinkScope, keyring: &Keyring, check: Check) -> Result<Decoded, Fault> {
    let fault = |what| Fault { seq: row.first_seq, what };
    let head = Head::read(&row.head).map_err(|Malformed| fault(FaultKind::Malformed))?;
    let unpacked;
    let raw = match head.compression {
        Compression::None => row.body.as_slice(),
        Compression::Zstd => {
            unpacked = unpack(head.raw_len, &row.body).map_err(|_| fault(FaultKind::Malformed))?;
            &unpacked
        }
    };
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
        let mac = record_mac(keyring, head.key_id, row.first_seq, row.count, &head.previous, &last)
            .ok_or_else(|| fault(FaultKind::KeyMissing(head.key_id)))?;
        if !equal_macs(&mac, &head.mac) {
            return Err(fault(FaultKind::Mac));
        }
    }
    if let Some((item, _)) = items.iter().find(|(i, _)| i.redacted) {
        return Err(Fault { seq: item.seq, what: FaultKind::Contentless });
    }
    Ok(Decoded { items, previous: head.previous, last })
}

fn decode_item(
    reader: &mut Reader<'_>,
    seq: u64,
    head: &Head,
    scope: &LinkScope,
    previous: &Link,
) -> Result<(Item, Vec<Event>, Link), Fault> {
    let malformed = |Malformed| Fault { seq, what: FaultKind::Malformed };
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
    let link = scope.link(previous, seq, head.turn_id.as_ref(), head.created_at, fields, &commitment);
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

