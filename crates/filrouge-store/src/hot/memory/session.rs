//! An ephemeral session, as stored by the hot store in memory.

use std::collections::HashMap;

use super::super::{Change, Edition, Field, HotSession};

/// The approximate overhead of a field in bytes.
const FIELD_BYTES: u64 = 96;

/// A session; it has no version before its first commit.
#[derive(Default)]
pub(super) struct Session {
    edition: Option<Edition>,
    fields: HashMap<Vec<u8>, Vec<u8>>,
    bytes: u64,
}

fn size(name: &[u8], value: &[u8]) -> u64 {
    (name.len() + value.len()) as u64 + FIELD_BYTES
}

impl Session {
    pub(super) fn edition(&self) -> Option<Edition> {
        self.edition
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn loaded(&self) -> Option<HotSession> {
        let fields = self.fields.iter().map(|(name, value)| Field {
            name: name.clone(),
            value: value.clone(),
        });
        Some(HotSession {
            edition: self.edition?,
            fields: fields.collect(),
        })
    }

    /// A lower bound of the session's size in bytes after a change.
    pub(super) fn bytes_after(&self, change: &Change) -> u64 {
        let held = |name: &[u8]| self.fields.get(name).map_or(0, |value| size(name, value));
        let gone: u64 = change.removes.iter().map(|name| held(name)).sum();
        let mut bytes = self.bytes.saturating_sub(gone);
        for Field { name, value } in &change.puts {
            bytes = (bytes + size(name, value)).saturating_sub(held(name));
        }
        bytes
    }

    pub(super) fn commit(&mut self, incarnation: u64, nonce: u64, change: Change) -> Edition {
        for name in &change.removes {
            if let Some(value) = self.fields.remove(name) {
                self.bytes -= size(name, &value);
            }
        }
        for Field { name, value } in change.puts {
            let (length, bytes) = (name.len(), size(&name, &value));
            self.bytes += bytes;
            if let Some(old) = self.fields.insert(name, value) {
                self.bytes -= (length + old.len()) as u64 + FIELD_BYTES;
            }
        }
        let next = match self.edition {
            Some(last) => Edition {
                incarnation: last.incarnation,
                version: last.version + 1,
                nonce,
            },
            None => Edition {
                incarnation,
                version: 1,
                nonce,
            },
        };
        *self.edition.insert(next)
    }
}
