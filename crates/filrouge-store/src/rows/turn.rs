//! The row of a turn.

use filrouge_types::{Timestamp, TurnId, TurnStatus};

use super::SessionPk;
use crate::codec::{ByteReader, Malformed, WriteBytes};
use crate::keyring::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};

/// The format byte of a turn with neither of the two optional numbers. Each of them adds its flag.
const FORMAT: u8 = 1;
/// The flag of a redacted turn.
const REDACTED: u8 = 1;
/// The flag of a turn with late items.
const LATE: u8 = 2;

/// The state of a turn. The turn's header and contents are in its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRow {
    /// Its id.
    pub turn_id: TurnId,
    /// Its ordinal in the session.
    pub ordinal: u64,
    /// Its version: 1, or the version of the replaced turn plus 1.
    pub record_version: u64,
    /// Its status.
    pub status: TurnStatus,
    /// The seq of its first item.
    pub first_seq: u64,
    /// The seq of its newest item, without late ones. In a closed turn this item carries the close event.
    pub last_seq: u64,
    /// The seq of its newest late item, which was added after the turn's end; 0 if there is none.
    pub late_seq: u64,
    /// The number of its items.
    pub items: u64,
    /// The seqs of its final items: first the neutral one, then the translated one. 0 if the item does not exist.
    pub finals: [u64; 2],
    /// The seq of the redaction that names all items of the turn; 0 if the turn is not redacted.
    pub redacted_by: u64,
    /// The time of the last write to the turn.
    pub last_write_at: Timestamp,
    pub(super) key_id: KeyId,
    pub(super) mac: [u8; MAC_BYTES],
}

impl TurnRow {
    /// An unsealed row of a turn that begins at `first_seq`.
    pub const fn new(
        turn_id: TurnId,
        ordinal: u64,
        record_version: u64,
        first_seq: u64,
        now: Timestamp,
    ) -> Self {
        Self {
            turn_id,
            ordinal,
            record_version,
            status: TurnStatus::Open,
            first_seq,
            last_seq: first_seq,
            late_seq: 0,
            items: 0,
            finals: [0, 0],
            redacted_by: 0,
            last_write_at: now,
            key_id: 0,
            mac: [0; MAC_BYTES],
        }
    }

    /// The row's key in its session: the ordinal, shifted left by 8 bits, plus the version minus 1.
    pub const fn place(&self) -> u64 {
        (self.ordinal << 8) | (self.record_version - 1)
    }

    /// The seq of its newest item.
    pub fn newest_seq(&self) -> u64 {
        self.last_seq.max(self.late_seq)
    }

    /// Whether the other row describes the same turn state, regardless of the time of its last write, its key and its
    /// MAC.
    pub fn has_same_state(&self, other: &Self) -> bool {
        let with_other_signature = Self {
            last_write_at: other.last_write_at,
            key_id: other.key_id,
            mac: other.mac,
            ..self.clone()
        };
        with_other_signature == *other
    }

    fn body(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(80);
        let redacted = if self.redacted_by == 0 { 0 } else { REDACTED };
        let late = if self.late_seq == 0 { 0 } else { LATE };
        out.byte(FORMAT + redacted + late);
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out.byte(self.status.code());
        for n in [self.first_seq, self.last_seq - self.first_seq, self.items] {
            out.number(n);
        }
        for final_seq in self.finals {
            // Stores 1 plus the distance from the turn's first item, which needs fewer bytes than the seq; 0 for none.
            out.number(
                final_seq
                    .checked_sub(self.first_seq)
                    .map_or(0, |distance| distance + 1),
            );
        }
        if self.redacted_by != 0 {
            out.number(self.redacted_by);
        }
        if self.late_seq != 0 {
            out.number(self.late_seq - self.last_seq);
        }
        out.time(self.last_write_at);
        out
    }

    /// Decodes stored bytes; `None` when they are malformed.
    pub fn decode(turn_id: TurnId, place: u64, bytes: &[u8]) -> Option<Self> {
        ByteReader::read_all(bytes, |r| {
            let flags = r.byte()?.checked_sub(FORMAT).ok_or(Malformed)?;
            if flags > REDACTED + LATE {
                return Err(Malformed);
            }
            let key_id = KeyId::from_be_bytes(r.array()?);
            let status = TurnStatus::from_code(r.byte()?).ok_or(Malformed)?;
            let first_seq = r.number()?;
            let last_seq = first_seq.checked_add(r.number()?).ok_or(Malformed)?;
            let items = r.number()?;
            let mut finals = [0; 2];
            for final_seq in &mut finals {
                *final_seq = match r.number()? {
                    0 => 0,
                    distance => first_seq.checked_add(distance - 1).ok_or(Malformed)?,
                };
            }
            let mut optional = |flag: u8| match flags & flag {
                0 => Ok(0),
                _ => r.number().ok().filter(|n| *n != 0).ok_or(Malformed),
            };
            let redacted_by = optional(REDACTED)?;
            let late_seq = match optional(LATE)? {
                0 => 0,
                distance => last_seq.checked_add(distance).ok_or(Malformed)?,
            };
            Ok(Self {
                turn_id,
                ordinal: place >> 8,
                record_version: (place & 0xff) + 1,
                status,
                first_seq,
                last_seq,
                late_seq,
                items,
                finals,
                redacted_by,
                last_write_at: r.time()?,
                key_id,
                mac: r.array()?,
            })
        })
    }
}

sealed_row!(TurnRow, Turn, pub fn sealed,
    |self| self.place().to_be_bytes(), *self.turn_id.as_bytes());
