//! The sessions of all sources, each once.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::LibraryError;
use crate::{Header, Listing, Skipped, Source};

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
    by_id: HashMap<ById, usize>,
}

/// A header that is looked up by its id, which is not kept twice.
#[derive(Debug, Clone)]
struct ById(Arc<Header>);

impl Borrow<str> for ById {
    fn borrow(&self) -> &str {
        &self.0.id
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for ById {}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As `str` does, by which it is looked up.
        Hash::hash(&*self.0.id, state);
    }
}

/// The newest catalog, with the listings it was made of. As long as sources tell the same headers, it holds.
#[derive(Default)]
pub(super) struct Memory(Mutex<Option<Remembered>>);

struct Remembered {
    listings: Vec<Result<Arc<Listing>, String>>,
    catalog: Arc<Catalog>,
}

impl Memory {
    /// Of listings that were made less than `max_age` ago.
    pub(super) fn catalog(&self, sources: &[Arc<dyn Source>], max_age: Duration) -> Arc<Catalog> {
        let listings: Vec<_> = sources.iter().map(|one| listing(one, max_age)).collect();
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

fn listing(source: &Arc<dyn Source>, max_age: Duration) -> Result<Arc<Listing>, String> {
    let named = |why| format!("{} ({}): {why}", source.name(), source.generation());
    let listed = match max_age {
        Duration::ZERO => source.list(),
        _ => source.list_within(max_age).map(|(_, listing)| listing),
    };
    listed.map_err(named)
}

fn same(old: &[Result<Arc<Listing>, String>], new: &[Result<Arc<Listing>, String>]) -> bool {
    let pairs = old.iter().zip(new);
    old.len() == new.len() && pairs.into_iter().all(|(old, new)| same_listing(old, new))
}

fn same_listing(old: &Result<Arc<Listing>, String>, new: &Result<Arc<Listing>, String>) -> bool {
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

fn merge(listings: &[Result<Arc<Listing>, String>]) -> Catalog {
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
        catalog.by_id.insert(ById(entry.header.clone()), at);
    }
    catalog
}

impl Catalog {
    fn add(&mut self, source: usize, listing: &Listing) {
        self.truncated |= listing.truncated;
        self.skipped.extend_from_slice(&listing.skipped);
        for header in &listing.headers {
            match self.by_id.entry(ById(header.clone())) {
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
