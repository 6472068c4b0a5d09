//! Notes: small named values of the store, outside any session. The store digest in the newest commit covers the MACs
//! of all notes and heads, so that a note cannot be changed, removed or put back in an older version without detection.

use crate::codec::{ByteReader, WriteBytes};
use crate::keyring::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};

/// The maximum length of a note's value in bytes.
pub const NOTE_MAX: usize = 1 << 20;

/// A note as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteRow {
    /// The note's name.
    pub name: Box<str>,
    /// The number of times the note was written, from 1.
    pub version: u64,
    /// The note's value.
    pub value: Vec<u8>,
    key_id: KeyId,
    /// The MAC over all fields above.
    pub mac: [u8; MAC_BYTES],
}

impl NoteRow {
    /// Signs a note with the active key.
    pub fn sealed(name: Box<str>, version: u64, value: Vec<u8>, keyring: &Keyring) -> Self {
        let mut row = Self {
            name,
            version,
            value,
            key_id: keyring.active(),
            mac: [0; MAC_BYTES],
        };
        row.mac = row.compute_mac(keyring).unwrap_or_default();
        row
    }

    fn compute_mac(&self, keyring: &Keyring) -> Option<[u8; MAC_BYTES]> {
        let mut name = Vec::new();
        name.text(&self.name);
        keyring.mac(self.key_id, Domain::Note, &[&name, &self.body()])
    }

    /// Whether the stored MAC is correct; `None` when the key is missing.
    #[must_use]
    pub fn mac_matches(&self, keyring: &Keyring) -> Option<bool> {
        Some(equal_macs(&self.compute_mac(keyring)?, &self.mac))
    }

    fn body(&self) -> Vec<u8> {
        let mut out = vec![crate::codec::FORMAT];
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out.number(self.version);
        out.bytes(&self.value);
        out
    }

    /// The stored bytes, without the name, which is the row's key.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.body();
        out.extend_from_slice(&self.mac);
        out
    }

    /// Decodes stored bytes; `None` when they are malformed.
    pub fn decode(name: &str, bytes: &[u8]) -> Option<Self> {
        ByteReader::read_all(bytes, |r| {
            r.format()?;
            let key_id = KeyId::from_be_bytes(r.array()?);
            let version = r.number()?;
            let value = r.bytes()?.to_vec();
            let mac = r.array()?;
            Ok(Self {
                name: name.into(),
                version,
                value,
                key_id,
                mac,
            })
        })
    }
}
