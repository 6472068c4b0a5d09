//! Compares an update of a session with the documents that an index has of it.

use std::collections::HashMap;
use std::ptr;

use super::{Coverage, NewDocument, SessionUpdate};

/// A stored document: its key, unit and digest.
pub type StoredDocument<'t> = (&'t str, u64, u64);

impl SessionUpdate {
    /// Compares the update with the stored documents. Returns the positions of the stored documents to remove, and the
    /// documents to add.
    #[must_use]
    pub fn difference<'t>(
        &self,
        stored: impl Iterator<Item = StoredDocument<'t>>,
    ) -> (Vec<usize>, Vec<&NewDocument>) {
        let mut new_by_key: HashMap<&str, &NewDocument> =
            self.documents.iter().map(|d| (&*d.key, d)).collect();
        let mut removed = Vec::new();
        for (position, (key, unit, digest)) in stored.enumerate() {
            match new_by_key.get(key) {
                Some(new) if (new.unit, new.digest) == (unit, digest) => {
                    new_by_key.remove(key);
                }
                None if !self.coverage.contains_unit(unit) => {}
                _ => removed.push(position),
            }
        }
        let is_new =
            |d: &&NewDocument| new_by_key.get(&*d.key).is_some_and(|new| ptr::eq(*new, *d));
        (removed, self.documents.iter().filter(is_new).collect())
    }
}

impl Coverage {
    /// Whether the update covers documents of this unit.
    fn contains_unit(&self, unit: u64) -> bool {
        match self {
            Self::All => true,
            Self::Units(units) => units.contains(&unit),
        }
    }
}
