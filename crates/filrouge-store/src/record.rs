//! Records: the stored form of consecutive items of one turn, sealed before the transaction and
//! chained inside it (docs/format.md).

use filrouge_types::{Timestamp, TurnId};

use crate::chain::{self, Link, LinkScope};
use crate::codec::{ByteReader, FORMAT, Malformed, WriteBytes};
use crate::keyring::{Domain, KeyId, Keyring, MAC_BYTES};

mod adopt;
mod batch;
mod decode;
mod erase;
#[cfg(test)]
mod erase_tests;
mod event;
mod fields;
mod seqs;
#[cfg(test)]
mod tests;

pub use adopt::adopt_record;
pub(crate) use adopt::compute_link;
pub use batch::{Batch, Compression, Entry, PackedRecord, is_repeated, item_fingerprint};
pub use decode::{
    ChainedItem, CommitmentProof, Decoded, MacCheck, RecordFault, RecordFaultKind, decode,
    decode_chained,
};
pub use erase::erase_contents;
pub use event::{CloseEvent, Event, StartEvent, salted};
pub use seqs::Seqs;

/// A record as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRow {
    /// The seq of its first item.
    pub first_seq: u64,
    /// The number of its items.
    pub count: u64,
    /// The fixed part: format, algorithms, key id, time, turn, previous link and MAC.
    pub head: Vec<u8>,
    /// The packed items.
    pub body: Vec<u8>,
}

impl RecordRow {
    /// The seq of its last item.
    pub const fn last_seq(&self) -> u64 {
        self.first_seq.saturating_add(self.count.saturating_sub(1))
    }

    /// The length of its unpacked items in bytes, not verified. It limits the size of a read.
    pub fn unpacked_len(&self) -> usize {
        Head::read(&self.head)
            .map_or(0, |h| h.raw_len)
            .max(self.body.len())
    }

    /// The turn of its items, not verified: use it to select records, never return it to a caller.
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
    /// Encodes the fields except the MAC, which covers them.
    fn encode_unsigned(&self) -> Vec<u8> {
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
        out
    }

    /// Encodes the stored bytes, signed with the record's key. The caller guarantees that the key is in the keyring.
    fn encode_signed(&self, keyring: &Keyring, first_seq: u64, count: u64, last: &Link) -> Vec<u8> {
        let mut bytes = self.encode_unsigned();
        let mac = record_mac(keyring, self.key_id, first_seq, count, &bytes, last);
        bytes.extend_from_slice(&mac.unwrap_or_default());
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let read = |r: &mut ByteReader<'_>| {
            let (format, algorithm) = (r.byte()?, r.byte()?);
            let key_id = KeyId::from_be_bytes(r.array()?);
            let encryption = r.byte()?;
            if (format, algorithm, encryption) != (FORMAT, chain::SHA256, 0) {
                return Err(Malformed);
            }
            Ok(Self {
                key_id,
                compression: match r.flag()? {
                    false => Compression::None,
                    true => Compression::Zstd,
                },
                raw_len: usize::try_from(r.number()?).map_err(|_| Malformed)?,
                created_at: r.time()?,
                turn_id: match r.flag()? {
                    false => None,
                    true => Some(TurnId::from_bytes(r.array()?)),
                },
                previous: r.array()?,
                mac: r.array()?,
            })
        };
        ByteReader::read_all(bytes, read).ok_or(Malformed)
    }
}

/// The MAC over the record's seqs, its fixed part (with the link before it) and its last link, which covers the items.
fn record_mac(
    keyring: &Keyring,
    key: KeyId,
    first_seq: u64,
    count: u64,
    unsigned: &[u8],
    last: &Link,
) -> Option<[u8; MAC_BYTES]> {
    let seqs = [first_seq.to_be_bytes(), count.to_be_bytes()];
    keyring.mac(key, Domain::Record, &[seqs.as_flattened(), unsigned, last])
}

/// The context of a new record in its session. The rules create it inside the transaction.
pub struct RecordPlacement<'a> {
    /// The session's link scope.
    pub scope: &'a LinkScope,
    /// The turn.
    pub turn_id: Option<TurnId>,
    /// The store's time.
    pub created_at: Timestamp,
    /// The keys.
    pub keyring: &'a Keyring,
}

impl RecordPlacement<'_> {
    /// Links a sealed record after `previous` at `first_seq`; returns the row and the new last link.
    pub fn place(
        &self,
        record: &PackedRecord,
        first_seq: u64,
        previous: Link,
    ) -> (RecordRow, Link) {
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
        let head = Head {
            key_id: self.keyring.active(),
            compression: record.compression,
            raw_len: record.raw_len,
            created_at: self.created_at,
            turn_id: self.turn_id,
            previous,
            mac: [0; MAC_BYTES],
        };
        (
            RecordRow {
                first_seq,
                count,
                head: head.encode_signed(self.keyring, first_seq, count, &last),
                body: record.body.clone(),
            },
            last,
        )
    }
}
