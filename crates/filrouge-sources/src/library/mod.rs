//! Combines all sources into one library. The MCP tools and the command line query it (DESIGN §10, §12).
//!
//! Each query is a plain function that takes a [`Library`], in a file of its own. Its caller formats the answer.

pub(crate) mod cache;
mod catalog;
pub mod clean;
pub mod compacted;
mod error;
pub mod export;
pub mod extras;
mod facts;
mod filter;
mod forks;
pub mod history;
pub mod lineage;
pub mod list;
mod listed;
pub mod notices;
pub mod own;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
pub mod stats;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use filrouge_types::{Recorded, lock};

pub use catalog::{Catalog, Entry};
pub use error::LibraryError;
pub use filter::ProjectFilter;
pub use listed::Listed;

use crate::{Conversation, Skipped, Source, SourceError};
use cache::Cache;
use error::Result;
use extras::Extras;
use facts::{Facts, FactsResult};
use listed::LastListing;

/// All sources together. Cheap to clone; clones share the caches.
#[derive(Clone)]
pub struct Library {
    sources: Arc<[Arc<dyn Source>]>,
    /// The number of sources that use the caches: the first ones in `sources`. Those that [`Library::with`] added
    /// follow, and are never cached.
    shared: usize,
    /// The last listings of the sources that use the caches.
    last_listings: Arc<[LastListing]>,
    /// The maximum age of a listing that a query may use.
    max_listing_age: Duration,
    cache: Arc<Cache<Conversation>>,
    facts: Arc<Cache<Facts>>,
    /// The state of the query that this library serves; see [`Library::for_one_query`].
    query: Option<Arc<QueryState>>,
}

/// The state of one query, which all clones of its library share.
#[derive(Default)]
struct QueryState {
    catalog: OnceLock<Arc<Catalog>>,
    /// The facts of the sessions that the query has read, by session id; also of sources that are never cached, because
    /// the facts are dropped with the query.
    facts: Mutex<HashMap<Box<str>, FactsResult>>,
    /// Set once the caller has disconnected or cancelled.
    stopped: Option<Arc<AtomicBool>>,
}

impl Library {
    /// Combines sources. When two sessions have the same id, that of the first source is used. Therefore pass the
    /// newest generation of a program first, and the ledger last. `cache_bytes` bounds the memory cache of
    /// conversations.
    pub fn new(sources: Vec<Arc<dyn Source>>, cache_bytes: usize) -> Self {
        Self {
            shared: sources.len(),
            last_listings: sources.iter().map(|_| LastListing::default()).collect(),
            max_listing_age: Duration::ZERO,
            sources: sources.into(),
            cache: Arc::new(Cache::new(cache_bytes)),
            facts: Arc::new(Cache::new(facts::CACHE_BYTES)),
            query: None,
        }
    }

    /// Returns this library with `source` added as the last one. No data of that source are cached, because the
    /// library's other users must not see it.
    pub fn with(&self, source: Arc<dyn Source>) -> Self {
        let sources = self.sources.iter().cloned().chain([source]).collect();
        self.with_sources(sources)
    }

    /// Returns this library with only its first `sources` sources.
    pub fn with_first_sources(&self, sources: usize) -> Self {
        let first = self.sources.iter().take(sources).cloned().collect();
        self.with_sources(first)
    }

    fn with_sources(&self, sources: Arc<[Arc<dyn Source>]>) -> Self {
        Self {
            shared: self.shared.min(sources.len()),
            sources,
            query: None,
            ..self.clone()
        }
    }

    /// Returns this library with listings that may be up to `max_listing_age` old: repeated queries reuse a listing for
    /// that time. By default the time is zero, and each query lists the sources that it needs.
    #[must_use]
    pub const fn with_max_listing_age(mut self, max_listing_age: Duration) -> Self {
        self.max_listing_age = max_listing_age;
        self
    }

    /// The sources in order.
    pub fn sources(&self) -> &[Arc<dyn Source>] {
        &self.sources
    }

    /// All sessions of all sources, each id once. A source that cannot be listed is reported in
    /// [`Catalog::unavailable`].
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog_within(self.max_listing_age)
    }

    /// Like [`Library::catalog`], but from listings that may be up to `max_age` old.
    pub fn catalog_within(&self, max_age: Duration) -> Arc<Catalog> {
        let listing = |(index, source): (usize, &Arc<dyn Source>)| {
            let listed = self.listed(index, max_age);
            (source.name(), listed.map(|listed| listed.listing))
        };
        let listings = self.sources.iter().enumerate().map(listing);
        let catalog = || Arc::new(Catalog::combine(listings));
        match &self.query {
            Some(query) => query.catalog.get_or_init(catalog).clone(),
            None => catalog(),
        }
    }

    /// Lists the source at this index in [`Library::sources`]; the listing may be up to `max_age` old. An index without
    /// a source gives an empty listing.
    ///
    /// # Errors
    /// As [`Source::list`].
    pub fn listed(&self, source: usize, max_age: Duration) -> Result<Listed, SourceError> {
        let Some(listed_source) = self.sources.get(source) else {
            let listing = Arc::default();
            let began = Instant::now();
            return Ok(Listed { began, listing });
        };
        // A source without a path, such as the ledger, is listed for each query.
        let is_cached = source < self.shared && listed_source.path().is_some();
        let last = self.last_listings.get(source).filter(|_| is_cached);
        match last {
            Some(last) => last.listing_within(&**listed_source, max_age),
            None => Listed::list(&**listed_source),
        }
    }

    /// Reads a conversation; from the cache if the session's fingerprint has not changed.
    ///
    /// # Errors
    /// [`LibraryError::Unreadable`], or [`LibraryError::NoSession`] when the session was removed meanwhile.
    pub fn conversation(&self, entry: &Entry) -> Result<Arc<Conversation>> {
        let source = self.source(entry)?;
        let read = || cache::read_shared(source, entry);
        match entry.source < self.shared {
            true => self
                .cache
                .get(entry, source.fingerprint(&entry.header), read),
            false => read(),
        }
    }

    /// A session's turns and items, where its source records them.
    fn recorded(&self, entry: &Entry) -> Result<Option<Recorded>> {
        let recorded = self.source(entry)?.recorded(&entry.header.id);
        recorded.map_err(|why| cache::library_error(entry, why))
    }

    /// What a session has beside its messages, and the records of it that were left out.
    fn extras(&self, entry: &Entry, mask: bool) -> Result<(Extras, Vec<Skipped>)> {
        let metadata = self.source(entry)?.metadata(&entry.header.id);
        let (metadata, skipped) = metadata.map_err(|why| cache::library_error(entry, why))?;
        Ok((Extras::parse(&metadata, mask), skipped))
    }

    /// The facts of a session: those that this query has already read; otherwise the cached ones, if the session has
    /// not changed; otherwise newly computed ones.
    fn facts(&self, entry: &Entry) -> FactsResult {
        self.check_cancelled()?;
        let Some(query) = &self.query else {
            return self.read_facts(entry);
        };
        let id = &entry.header.id;
        let known = lock(&query.facts).get(id).cloned();
        known.unwrap_or_else(|| {
            let facts = self.read_facts(entry);
            lock(&query.facts).insert(id.clone(), facts.clone());
            facts
        })
    }

    /// Whether what is read of the session is cached until the session changes.
    fn caches(&self, entry: &Entry) -> bool {
        let source = self.sources.get(entry.source);
        let source = source.filter(|_| entry.source < self.shared);
        source.is_some_and(|source| source.fingerprint(&entry.header).is_some())
    }

    /// Like [`Self::facts`], without the facts that this query has already read.
    fn read_facts(&self, entry: &Entry) -> FactsResult {
        let source = self.source(entry)?;
        // The conversations read for facts are not cached, because they would evict all others.
        let compute = || {
            let conversation = cache::read_uncached(source, entry)?;
            Ok(Arc::new(Facts::compute(&entry.header, &conversation)))
        };
        match entry.source < self.shared {
            true => self
                .facts
                .get(entry, source.fingerprint(&entry.header), compute),
            false => compute(),
        }
    }

    /// Returns a copy of this library that serves one query. The copy lists its sources at most once, and reads no
    /// session twice for statistics and lineage. It does not see later changes, so drop it after the query. Once
    /// `stopped` is true, long operations fail with [`LibraryError::Cancelled`].
    pub fn for_one_query(&self, stopped: Option<Arc<AtomicBool>>) -> Self {
        let query = QueryState {
            stopped,
            ..QueryState::default()
        };
        Self {
            query: Some(Arc::new(query)),
            ..self.clone()
        }
    }

    /// A clone of this library if it already serves one query, or else a new copy that does.
    fn for_query(&self) -> Self {
        match &self.query {
            Some(_) => self.clone(),
            None => self.for_one_query(None),
        }
    }

    /// Fails once the query's caller has disconnected or cancelled it.
    ///
    /// # Errors
    /// [`LibraryError::Cancelled`].
    fn check_cancelled(&self) -> Result<()> {
        let stopped = self.query.as_ref().and_then(|query| query.stopped.as_ref());
        match stopped {
            Some(stopped) if stopped.load(Ordering::Relaxed) => Err(LibraryError::Cancelled),
            _ => Ok(()),
        }
    }

    fn source(&self, entry: &Entry) -> Result<&dyn Source> {
        let source = self.sources.get(entry.source).map(|s| &**s);
        source.ok_or_else(|| LibraryError::NoSession(entry.header.id.to_string()))
    }
}
