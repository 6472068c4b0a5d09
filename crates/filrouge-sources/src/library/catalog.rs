//! The sessions of all sources, each listed once.

use std::collections::HashMap;
use std::collections::hash_map;
use std::sync::Arc;

use super::{LibraryError, Result};
use crate::ledger::path_of;
use crate::source::shadowed;
use crate::{Header, Listing, Skipped, SourceError};

/// A session and its source.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its header.
    pub header: Arc<Header>,
    /// The index of its source in [`super::Library::sources`].
    pub source: usize,
}

/// All sessions at one moment.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Ordered by (created, id).
    pub entries: Vec<Entry>,
    /// Records that the listings left out.
    pub skipped: Vec<Skipped>,
    /// Sources that could not be listed, each with the reason.
    pub unavailable: Vec<String>,
    /// Whether a source has more sessions than it lists.
    pub truncated: bool,
    /// Reports of sessions that were found twice, in two sources or two storages of one source. The session is read
    /// from the source or storage that comes first; the report names the other one.
    pub shadowed: Vec<Skipped>,
    /// The index in `entries` of each session id.
    by_id: HashMap<Box<str>, usize>,
}

impl Catalog {
    /// Combines the listings of all sources, given with the sources' names and in their order. When two sessions have
    /// the same id, that of the first source is used.
    pub(super) fn combine(
        listings: impl Iterator<Item = (&'static str, Result<Arc<Listing>, SourceError>)>,
    ) -> Self {
        let mut catalog = Self::default();
        for (source, (name, listing)) in listings.enumerate() {
            match listing {
                Ok(listing) => catalog.add(source, name, &listing),
                Err(why) => catalog.unavailable.push(format!("{name}: {why}")),
            }
        }
        let by_creation = |a: &Entry, b: &Entry| a.header.sort_key().cmp(&b.header.sort_key());
        catalog.entries.sort_by(by_creation);
        for (index, entry) in catalog.entries.iter().enumerate() {
            catalog.by_id.insert(entry.header.id.clone(), index);
        }
        catalog
    }

    fn add(&mut self, source: usize, name: &str, listing: &Listing) {
        self.truncated |= listing.truncated;
        self.skipped.extend_from_slice(&listing.skipped);
        self.shadowed.extend_from_slice(&listing.shadowed);
        let unavailable = listing.unavailable.iter();
        self.unavailable
            .extend(unavailable.map(|why| format!("{name}: {why}")));
        for header in &listing.headers {
            match self.by_id.entry(header.id.clone()) {
                hash_map::Entry::Occupied(index) => {
                    let first = self.entries.get(*index.get());
                    let generation = first.map_or("", |entry| entry.header.generation);
                    self.shadowed.push(shadowed(header, generation));
                }
                hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(self.entries.len());
                    let header = header.clone();
                    self.entries.push(Entry { header, source });
                }
            }
        }
    }

    /// The session with this id.
    ///
    /// # Errors
    /// [`LibraryError::NoSession`]; [`LibraryError::Unreadable`] for a damaged session of the ledger.
    pub fn get(&self, id: &str) -> Result<&Entry> {
        let entry = self.by_id.get(id).and_then(|i| self.entries.get(*i));
        entry.ok_or_else(|| {
            let path = path_of(id);
            match self.skipped.iter().find(|one| one.path == path) {
                Some(damaged) => LibraryError::Unreadable(id.to_owned(), damaged.clone().into()),
                None => LibraryError::NoSession(id.to_owned()),
            }
        })
    }

    /// The sessions that the session `id` started, ordered by (created, id).
    pub fn children<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Entry> {
        let is_child = move |e: &&Entry| e.header.parent_id.as_deref() == Some(id);
        self.entries.iter().filter(is_child)
    }
}
