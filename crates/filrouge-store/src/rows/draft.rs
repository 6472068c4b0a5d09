//! Drafts of open turns: a header that every heartbeat rewrites, and append-only chunks (DESIGN §3).

use filrouge_types::{Timestamp, TurnId};

use super::SessionPk;
use crate::codec::{ByteReader, WriteBytes};
use crate::draft::{Delta, StreamId, decode, encode};
use crate::keyring::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};

/// The header of an open turn's draft: the recording and the numbers of the draft's chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftRow {
    /// The turn's place. The session's number and the place are the row's key.
    pub place: u64,
    /// The turn.
    pub turn_id: TurnId,
    /// The recording.
    pub stream: StreamId,
    /// The name of the recording process ([`crate::Ledger::writer`]).
    pub writer: Box<str>,
    /// The time at which the recording began.
    pub begun_at: Timestamp,
    /// The time of the recording's newest heartbeat.
    pub beat_at: Timestamp,
    /// The number of the draft's first chunk. The chunks from this number on contain the complete draft.
    pub first_chunk: u64,
    /// The number of the draft's newest chunk; `first_chunk - 1` when the draft has no chunk.
    pub last_chunk: u64,
    key_id: KeyId,
    mac: [u8; MAC_BYTES],
}

impl DraftRow {
    /// The unsealed row of a new recording.
    pub const fn new(
        place: u64,
        turn_id: TurnId,
        stream: StreamId,
        writer: Box<str>,
        now: Timestamp,
    ) -> Self {
        Self {
            place,
            turn_id,
            stream,
            writer,
            begun_at: now,
            beat_at: now,
            first_chunk: 1,
            last_chunk: 0,
            key_id: 0,
            mac: [0; MAC_BYTES],
        }
    }

    fn body(&self) -> Vec<u8> {
        let mut out = vec![crate::codec::FORMAT];
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out.extend_from_slice(self.turn_id.as_bytes());
        out.extend_from_slice(&self.stream.0);
        out.text(&self.writer);
        out.time(self.begun_at);
        out.time(self.beat_at);
        out.number(self.first_chunk);
        out.number(self.last_chunk);
        out
    }

    /// Decodes stored bytes; `None` when they are malformed.
    pub fn decode(place: u64, bytes: &[u8]) -> Option<Self> {
        ByteReader::read_all(bytes, |r| {
            r.format()?;
            Ok(Self {
                place,
                key_id: KeyId::from_be_bytes(r.array()?),
                turn_id: TurnId::from_bytes(r.array()?),
                stream: StreamId(r.array()?),
                writer: r.text()?.into(),
                begun_at: r.time()?,
                beat_at: r.time()?,
                first_chunk: r.number()?,
                last_chunk: r.number()?,
                mac: r.array()?,
            })
        })
    }
}

sealed_row!(DraftRow, Draft, pub fn sealed, |self| self.place.to_be_bytes());

/// The deltas that one write added to a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftChunk {
    /// Its number in the recording, from 1.
    pub number: u64,
    deltas: Vec<u8>,
    key_id: KeyId,
    mac: [u8; MAC_BYTES],
}

impl DraftChunk {
    /// Signs deltas with the active key.
    pub fn sealed(
        number: u64,
        deltas: &[Delta],
        keyring: &Keyring,
        draft: (SessionPk, &DraftRow),
    ) -> Self {
        let mut chunk = Self {
            number,
            deltas: encode(deltas),
            key_id: keyring.active(),
            mac: [0; MAC_BYTES],
        };
        chunk.mac = chunk.compute_mac(keyring, draft).unwrap_or_default();
        chunk
    }

    fn compute_mac(
        &self,
        keyring: &Keyring,
        (pk, draft): (SessionPk, &DraftRow),
    ) -> Option<[u8; MAC_BYTES]> {
        let key = [
            pk.to_be_bytes(),
            draft.place.to_be_bytes(),
            draft.stream.0,
            self.number.to_be_bytes(),
        ];
        let pieces: [&[u8]; 3] = [b"chunk", key.as_flattened(), &self.deltas];
        keyring.mac(self.key_id, Domain::Draft, &pieces)
    }

    /// Whether the stored MAC is correct; `None` when the key is missing.
    #[must_use]
    pub fn mac_matches(&self, keyring: &Keyring, draft: (SessionPk, &DraftRow)) -> Option<bool> {
        Some(equal_macs(&self.compute_mac(keyring, draft)?, &self.mac))
    }

    /// The deltas; `None` when they are malformed.
    pub fn deltas(&self) -> Option<Vec<Delta>> {
        decode(&self.deltas).ok()
    }

    /// The stored bytes, without the number, which is in the row's key.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.deltas.len() + 24);
        out.byte(crate::codec::FORMAT);
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out.extend_from_slice(&self.mac);
        out.extend_from_slice(&self.deltas);
        out
    }

    /// Decodes stored bytes; `None` when they are malformed.
    pub fn decode(number: u64, bytes: &[u8]) -> Option<Self> {
        ByteReader::read_all(bytes, |r| {
            r.format()?;
            Ok(Self {
                number,
                key_id: KeyId::from_be_bytes(r.array()?),
                mac: r.array()?,
                deltas: r.rest().to_vec(),
            })
        })
    }
}
