//! Events of a session, from which key figures are computed (DESIGN §6): numbered, indexed by key, each row under its
//! own MAC.

use filrouge_types::{EventKey, RawJson, SessionEvent};

use super::SessionPk;
use crate::codec::{ByteReader, Malformed, WriteBytes};
use crate::keyring::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};

/// One event as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Its number in the session: dense, from 1.
    pub number: u64,
    /// The event.
    pub event: SessionEvent,
    key_id: KeyId,
    mac: [u8; MAC_BYTES],
}

impl EventRow {
    /// Signs an event with the active key.
    pub fn sealed(number: u64, event: SessionEvent, keyring: &Keyring, pk: SessionPk) -> Self {
        let row = Self {
            number,
            event,
            key_id: 0,
            mac: [0; MAC_BYTES],
        };
        row.signed(keyring, pk)
    }

    /// The length in bytes of the content that callers wrote.
    pub fn content_len(&self) -> usize {
        let detail = self.event.detail.as_ref().map_or(0, |d| d.as_str().len());
        self.event.key.as_str().len() + self.event.kind.len() + detail
    }

    fn body(&self) -> Vec<u8> {
        let mut out = vec![crate::codec::FORMAT];
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out.text(self.event.key.as_str());
        out.text(&self.event.kind);
        out.time(self.event.at);
        out.optional(self.event.detail.as_ref().map(RawJson::as_str));
        out.time(self.event.created_at);
        out
    }

    /// Decodes stored bytes; `None` when they are malformed.
    pub fn decode(number: u64, bytes: &[u8]) -> Option<Self> {
        ByteReader::read_all(bytes, |r| {
            r.format()?;
            let key_id = KeyId::from_be_bytes(r.array()?);
            let event = SessionEvent {
                key: EventKey::new(r.text()?).map_err(|_| Malformed)?,
                kind: r.text()?.into(),
                at: r.time()?,
                detail: r.optional()?.map(RawJson::from_checked),
                created_at: r.time()?,
            };
            let mac = r.array()?;
            Ok(Self {
                number,
                event,
                key_id,
                mac,
            })
        })
    }
}

sealed_row!(EventRow, Event, fn signed, |self| self.number.to_be_bytes());
