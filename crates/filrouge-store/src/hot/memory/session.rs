//! An ephemeral session, as stored by the hot store in memory.

use std::collections::HashMap;

use super::super::{Edition, Field, FieldChanges, HotSession};

/// The approximate overhead of a field in bytes.
const FIELD_BYTES: u64 = 96;

/// A session. It has no version before its first commit.
#[derive(Default)]
pub(super) struct Session {
    edition: Option<Edition>,
    fields: HashMap<Vec<u8>, Vec<u8>>,
    bytes: u64,
}

/// The size of a field in bytes, with its overhead.
fn field_size(name: &[u8], value: &[u8]) -> u64 {
    (name.len() + value.len()) as u64 + FIELD_BYTES
}

impl Session {
    pub(super) fn edition(&self) -> Option<Edition> {
        self.edition
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn to_hot_session(&self) -> Option<HotSession> {
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
    pub(super) fn bytes_after(&self, change: &FieldChanges) -> u64 {
        let stored_size = |name: &[u8]| {
            self.fields
                .get(name)
                .map_or(0, |value| field_size(name, value))
        };
        let removed: u64 = change.removes.iter().map(|name| stored_size(name)).sum();
        let mut bytes = self.bytes.saturating_sub(removed);
        for Field { name, value } in &change.puts {
            bytes = (bytes + field_size(name, value)).saturating_sub(stored_size(name));
        }
        bytes
    }

    pub(super) fn commit(&mut self, incarnation: u64, nonce: u64, change: FieldChanges) -> Edition {
        for name in &change.removes {
            if let Some(value) = self.fields.remove(name) {
                self.bytes -= field_size(name, &value);
            }
        }
        for Field { name, value } in change.puts {
            let (length, bytes) = (name.len(), field_size(&name, &value));
            self.bytes += bytes;
            if let Some(old) = self.fields.insert(name, value) {
                self.bytes -= (length + old.len()) as u64 + FIELD_BYTES;
            }
        }
        let next = Edition::after(self.edition, incarnation, nonce);
        *self.edition.insert(next)
    }
}
