//! An ephemeral session: its fields, and which state they are.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::{Change, Edition, Field};

/// What a field takes besides its name and value, about.
const FIELD_BYTES: u64 = 96;

/// A session; one that has just been made has no state yet.
#[derive(Default)]
pub(super) struct Session {
    edition: Option<Edition>,
    fields: HashMap<Arc<[u8]>, Arc<[u8]>>,
    bytes: u64,
}

/// A field whose bytes are shared.
pub(super) struct SharedField {
    name: Arc<[u8]>,
    value: Arc<[u8]>,
}

impl SharedField {
    pub(super) fn copied(&self) -> Field {
        Field {
            name: self.name.to_vec(),
            value: self.value.to_vec(),
        }
    }
}

/// A change whose bytes lie where they are kept from then on.
pub(super) struct SharedChange {
    removes: Vec<Vec<u8>>,
    puts: HashMap<Arc<[u8]>, Arc<[u8]>>,
}

impl From<Change> for SharedChange {
    fn from(change: Change) -> Self {
        let puts = change.puts.into_iter();
        Self {
            removes: change.removes,
            puts: puts.map(|f| (f.name.into(), f.value.into())).collect(),
        }
    }
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

    pub(super) fn fields(&self) -> Vec<SharedField> {
        let shared = |(name, value): (&Arc<[u8]>, &Arc<[u8]>)| SharedField {
            name: name.clone(),
            value: value.clone(),
        };
        self.fields.iter().map(shared).collect()
    }

    /// At least how many bytes it takes after a change.
    pub(super) fn bytes_after(&self, change: &SharedChange) -> u64 {
        let held = |name: &[u8]| self.fields.get(name).map_or(0, |value| size(name, value));
        let gone: u64 = change.removes.iter().map(|name| held(name)).sum();
        let mut bytes = self.bytes.saturating_sub(gone);
        for (name, value) in &change.puts {
            bytes = (bytes + size(name, value)).saturating_sub(held(name));
        }
        bytes
    }

    pub(super) fn commit(&mut self, incarnation: u64, word: u64, change: SharedChange) -> Edition {
        for name in &change.removes {
            if let Some(value) = self.fields.remove(name.as_slice()) {
                self.bytes -= size(name, &value);
            }
        }
        for (name, value) in change.puts {
            self.bytes += size(&name, &value);
            if let Some(old) = self.fields.insert(name.clone(), value) {
                self.bytes -= size(&name, &old);
            }
        }
        let next = match self.edition {
            Some(last) => Edition {
                incarnation: last.incarnation,
                version: last.version + 1,
                word,
            },
            None => Edition {
                incarnation,
                version: 1,
                word,
            },
        };
        *self.edition.insert(next)
    }
}
