//! The sessions of all sources, each once.

use std::collections::HashMap;
use std::sync::Arc;

use super::LibraryError;
use crate::{Header, Skipped, Source};

/// A session and the source it is of.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its header.
    pub header: Arc<Header>,
    pub(super) source: usize,
}

/// All sessions of one moment.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Ordered by (created, id).
    pub entries: Vec<Entry>,
    /// What the listings left out.
    pub skipped: Vec<Skipped>,
    /// Sources that could not be listed, and why.
    pub unavailable: Vec<String>,
    /// Whether a source has more sessions than it lists.
    pub truncated: bool,
    by_id: HashMap<Box<str>, usize>,
}

pub(super) fn of(sources: &[Arc<dyn Source>]) -> Catalog {
    let mut catalog = Catalog::default();
    let mut seen = HashMap::new();
    for (source, one) in sources.iter().enumerate() {
        match one.list() {
            Ok(listing) => {
                catalog.truncated |= listing.truncated;
                catalog.skipped.extend(listing.skipped);
                for header in listing.headers {
                    if seen.insert(header.id.clone(), ()).is_none() {
                        catalog.entries.push(Entry { header, source });
                    }
                }
            }
            Err(why) => {
                let name = format!("{} ({}): {why}", one.name(), one.generation());
                catalog.unavailable.push(name);
            }
        }
    }
    let key = |e: &Entry| (e.header.created, e.header.id.clone());
    catalog.entries.sort_by_cached_key(key);
    let ids = catalog.entries.iter().enumerate();
    catalog.by_id = ids.map(|(i, e)| (e.header.id.clone(), i)).collect();
    catalog
}

impl Catalog {
    /// The session of an id.
    ///
    /// # Errors
    /// [`LibraryError::NoSession`].
    pub fn get(&self, id: &str) -> Result<&Entry, LibraryError> {
        let found = self.by_id.get(id).map(|i| &self.entries[*i]);
        found.ok_or_else(|| LibraryError::NoSession(id.to_owned()))
    }
}
