//! The sessions of all sources, each once.

use std::collections::HashMap;
use std::collections::hash_map;
use std::sync::{Arc, Mutex};

use super::LibraryError;
use crate::locked::locked;
use crate::{Header, Listing, Skipped, Source, SourceError};

/// A session and the source it is of.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its header.
    pub header: Arc<Header>,
    /// The place of its source in [`super::Library::sources`].
    pub source: usize,
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
    /// How many sessions an earlier source has, too: those are read there.
    pub shadowed: usize,
    by_id: HashMap<Box<str>, usize>,
}

/// The newest catalog, with the listings it was made of. As long as sources list the same headers, it holds.
#[derive(Default)]
pub(super) struct Memory(Mutex<Option<Remembered>>);

struct Remembered {
    listings: Vec<Listed>,
    catalog: Arc<Catalog>,
}

/// The sessions of one source, or why it cannot be listed.
pub(super) type Listed = Result<Arc<Listing>, String>;

impl Memory {
    /// The catalog of these listings.
    pub(super) fn catalog(&self, listings: Vec<Listed>) -> Arc<Catalog> {
        let mut remembered = locked(&self.0);
        if let Some(known) = remembered.as_ref()
            && same(&known.listings, &listings)
        {
            return known.catalog.clone();
        }
        let catalog = Arc::new(merge(&listings));
        *remembered = Some(Remembered {
            listings,
            catalog: catalog.clone(),
        });
        catalog
    }
}

/// What is said of a source that cannot be listed.
pub(super) fn unlisted(source: &dyn Source, why: &SourceError) -> String {
    format!("{} ({}): {why}", source.name(), source.generation())
}

fn same(old: &[Listed], new: &[Listed]) -> bool {
    let pairs = old.iter().zip(new);
    old.len() == new.len() && pairs.into_iter().all(|(old, new)| same_listing(old, new))
}

fn same_listing(old: &Listed, new: &Listed) -> bool {
    match (old, new) {
        (Ok(old), Ok(new)) if Arc::ptr_eq(old, new) => true,
        (Ok(old), Ok(new)) => {
            let mut headers = old.headers.iter().zip(&new.headers);
            old.headers.len() == new.headers.len()
                && headers.all(|(a, b)| Arc::ptr_eq(a, b) || a == b)
                && old.truncated == new.truncated
                && old.skipped == new.skipped
        }
        (Err(old), Err(new)) => old == new,
        _ => false,
    }
}

fn merge(listings: &[Listed]) -> Catalog {
    let mut catalog = Catalog::default();
    for (source, one) in listings.iter().enumerate() {
        match one {
            Ok(listing) => catalog.add(source, listing),
            Err(why) => catalog.unavailable.push(why.clone()),
        }
    }
    let place = |a: &Entry, b: &Entry| a.header.place().cmp(&b.header.place());
    catalog.entries.sort_by(place);
    for (at, entry) in catalog.entries.iter().enumerate() {
        catalog.by_id.insert(entry.header.id.clone(), at);
    }
    catalog
}

impl Catalog {
    fn add(&mut self, source: usize, listing: &Listing) {
        self.truncated |= listing.truncated;
        self.skipped.extend_from_slice(&listing.skipped);
        for header in &listing.headers {
            match self.by_id.entry(header.id.clone()) {
                hash_map::Entry::Occupied(_) => self.shadowed += 1,
                hash_map::Entry::Vacant(place) => {
                    place.insert(0);
                    let header = header.clone();
                    self.entries.push(Entry { header, source });
                }
            }
        }
    }

    /// The session of an id.
    ///
    /// # Errors
    /// [`LibraryError::NoSession`].
    pub fn get(&self, id: &str) -> Result<&Entry, LibraryError> {
        let found = self.by_id.get(id).and_then(|i| self.entries.get(*i));
        found.ok_or_else(|| LibraryError::NoSession(id.to_owned()))
    }

    /// The sessions that `id` has started, ordered by (created, id).
    pub fn children<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Entry> {
        let is_child = move |e: &&Entry| e.header.parent_id.as_deref() == Some(id);
        self.entries.iter().filter(is_child)
    }
}
