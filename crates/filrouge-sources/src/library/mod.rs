//! All sources as one library: what the MCP tools and the command line ask (DESIGN §10, §12).
//!
//! Everything here is plain functions on [`Library`]; who calls shows the answer. One file a question.

mod cache;
mod catalog;
pub mod clean;
pub mod compacted;
mod error;
pub mod export;
mod facts;
mod filter;
mod forks;
pub mod history;
pub mod lineage;
pub mod list;
mod listed;
#[cfg(any(test, feature = "made"))]
pub mod made;
pub mod notices;
mod once;
pub mod own;
pub mod stats;
mod sums;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use filrouge_types::Recorded;

pub use catalog::{Catalog, Entry};
pub use error::LibraryError;
pub use filter::Project;
pub use listed::Listed;

use crate::by_two::by_two;
use crate::{Conversation, Source, SourceError};
use cache::Cache;
use facts::{Answer, Facts};
use listed::Last;
use once::Once;

/// All sources together. Cheap to clone; clones share the cache.
#[derive(Clone)]
pub struct Library {
    sources: Arc<[Arc<dyn Source>]>,
    /// How many of the sources are kept in the cache: those before the ones of [`Library::with`].
    shared: usize,
    /// The last listings of those that are kept.
    last: Arc<[Last]>,
    /// How old a listing may be that a question is answered by.
    fresh: Duration,
    cache: Arc<Cache<Conversation>>,
    facts: Arc<Cache<Facts>>,
    once: Option<Arc<Once>>,
}

impl Library {
    /// Puts sources together. Of two sessions of one id the first source's is taken: give the newest generation of a
    /// program first, and the ledger last. `cache_bytes` bounds what is kept of conversations in memory.
    #[must_use]
    pub fn new(sources: Vec<Arc<dyn Source>>, cache_bytes: usize) -> Self {
        Self {
            shared: sources.len(),
            last: sources.iter().map(|_| Last::default()).collect(),
            fresh: Duration::ZERO,
            sources: sources.into(),
            cache: Arc::new(Cache::new(cache_bytes)),
            facts: Arc::new(Cache::new(facts::BYTES)),
            once: None,
        }
    }

    /// This library with one more source behind it, for one caller: nothing of that source is put in the cache.
    #[must_use]
    pub fn with(&self, source: Arc<dyn Source>) -> Self {
        let sources = self.sources.iter().cloned().chain([source]).collect();
        self.of_others(sources)
    }

    /// This library with its first sources alone.
    #[must_use]
    pub fn first(&self, sources: usize) -> Self {
        let first = self.sources.iter().take(sources).cloned().collect();
        self.of_others(first)
    }

    fn of_others(&self, sources: Arc<[Arc<dyn Source>]>) -> Self {
        Self {
            shared: self.shared.min(sources.len()),
            sources,
            once: None,
            ..self.clone()
        }
    }

    /// This library with answers by listings of up to `fresh` ago: who asks again and again lists nothing again meanwhile.
    /// No time unless told: each question lists what it needs.
    #[must_use]
    pub const fn believing_for(mut self, fresh: Duration) -> Self {
        self.fresh = fresh;
        self
    }

    /// The sources in order.
    #[must_use]
    pub fn sources(&self) -> &[Arc<dyn Source>] {
        &self.sources
    }

    /// All sessions of all sources, each id once. A source that cannot be listed is named in it.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog_within(self.fresh)
    }

    /// As [`Library::catalog`], of listings that may have been made up to `max_age` ago.
    #[must_use]
    pub fn catalog_within(&self, max_age: Duration) -> Arc<Catalog> {
        let listing = |(at, source): (usize, &Arc<dyn Source>)| {
            let listed = self.listed(at, max_age);
            (source.name(), listed.map(|listed| listed.listing))
        };
        let catalog = || Arc::new(Catalog::of(self.sources.iter().enumerate().map(listing)));
        match &self.once {
            Some(once) => once.catalog.get_or_init(catalog).clone(),
            None => catalog(),
        }
    }

    /// The sessions of the source at that place in the library, by a listing that may have been made up to `max_age` ago.
    ///
    /// # Errors
    /// As [`Source::list`].
    pub fn listed(&self, source: usize, max_age: Duration) -> Result<Listed, SourceError> {
        let Some(own) = self.sources.get(source) else {
            let listing = Arc::default();
            let began = Instant::now();
            return Ok(Listed { began, listing });
        };
        // What is in no place of its own, as the ledger is, is listed anew for each question.
        let is_kept = source < self.shared && own.path().is_some();
        let last = self.last.get(source).filter(|_| is_kept);
        match last {
            Some(last) => last.within(&**own, max_age),
            None => Listed::now(&**own),
        }
    }

    /// A conversation, from the cache when nothing had changed as it was listed.
    ///
    /// # Errors
    /// [`LibraryError::Unreadable`], or [`LibraryError::NoSession`] when it has gone meanwhile.
    pub fn conversation(&self, entry: &Entry) -> Result<Arc<Conversation>, LibraryError> {
        let source = self.source(entry)?;
        if entry.source < self.shared {
            let fingerprint = source.fingerprint(&entry.header);
            return self
                .cache
                .get(entry, fingerprint, || cache::read(source, entry));
        }
        cache::read(source, entry)
    }

    /// A session's own turns and items, where its source has them.
    fn recorded(&self, entry: &Entry) -> Result<Option<Recorded>, LibraryError> {
        let recorded = self.source(entry)?.recorded(&entry.header.id);
        recorded.map_err(|why| cache::failed(entry, why))
    }

    /// The facts of a session: as this question has seen them already, else from memory if nothing has changed.
    fn facts(&self, entry: &Entry) -> Answer {
        self.go_on()?;
        let id = &entry.header.id;
        if let Some(known) = self.once.as_ref().and_then(|once| once.facts(id)) {
            return known;
        }
        let answer = self.facts_now(entry);
        if let Some(once) = &self.once {
            once.learn(id, &answer);
        }
        answer
    }

    fn facts_now(&self, entry: &Entry) -> Answer {
        let source = self.source(entry)?;
        // Conversations are not kept for this: all others would be lost to them.
        let make = || {
            let conversation = cache::read(source, entry)?;
            Ok(Arc::new(Facts::of(&entry.header, &conversation)))
        };
        match entry.source < self.shared {
            true => self
                .facts
                .get(entry, source.fingerprint(&entry.header), make),
            false => make(),
        }
    }

    /// The facts of many sessions, in their order; two threads read what is not known.
    fn facts_of(&self, entries: &[&Entry]) -> Vec<Answer> {
        by_two(entries, 1, |entry| self.facts(entry))
    }

    /// This library for one question: it lists its sources at most once, and looks at no session twice for statistics
    /// and lineage. What changes meanwhile is not seen: drop it with the answer. Once `stopped` is set, what takes long
    /// is given up with [`LibraryError::GivenUp`].
    #[must_use]
    pub fn once(&self, stopped: Option<Arc<AtomicBool>>) -> Self {
        Self {
            once: Some(Arc::new(Once::new(stopped))),
            ..self.clone()
        }
    }

    /// The question that this library is for, or a new one.
    fn of_question(&self) -> Self {
        match &self.once {
            Some(_) => self.clone(),
            None => self.once(None),
        }
    }

    /// Ends an answer that nobody waits for any more.
    ///
    /// # Errors
    /// [`LibraryError::GivenUp`].
    fn go_on(&self) -> Result<(), LibraryError> {
        let stopped = self.once.as_ref().and_then(|once| once.stopped.as_ref());
        match stopped {
            Some(stopped) if stopped.load(Ordering::Relaxed) => Err(LibraryError::GivenUp),
            _ => Ok(()),
        }
    }

    fn source(&self, entry: &Entry) -> Result<&dyn Source, LibraryError> {
        let source = self.sources.get(entry.source).map(|s| &**s);
        source.ok_or_else(|| LibraryError::NoSession(entry.header.id.to_string()))
    }
}
