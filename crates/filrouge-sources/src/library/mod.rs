//! All sources as one library: what the MCP tools and the command line ask (DESIGN §10, §12).
//!
//! Everything here is plain functions on [`Library`]; who calls shows the answer. One file a question.

mod cache;
mod catalog;
pub mod clean;
pub mod compacted;
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
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_types::{Failure, Recorded};

pub use catalog::{Catalog, Entry};
pub use filter::Project;
pub use listed::Listed;

use crate::{Conversation, ReadError, Source, SourceError};
use cache::Cache;
use catalog::{Memory, unlisted};
use facts::Facts;
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
    memory: Arc<Memory>,
    facts: Arc<Cache<Facts>>,
    once: Option<Arc<Once>>,
}

/// Why a question has no answer; each with a hint for who asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LibraryError {
    /// No source has a session of this id.
    #[error("there is no session {0:?}")]
    NoSession(String),
    /// What was asked makes no sense; the text says what and where.
    #[error("{0}")]
    Invalid(String),
    /// The session is there and cannot be read.
    #[error("session {0:?} cannot be read: {1}")]
    Unreadable(String, ReadError),
    /// What is asked does not answer.
    #[error("{0}")]
    Unavailable(Failure),
    /// Nobody waits for the answer any more.
    #[error("the question was given up")]
    GivenUp,
}

impl LibraryError {
    /// The stable word of its kind: `session_not_found`, `invalid_argument`, `session_unreadable`, `cancelled`; of what does
    /// not answer its own.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoSession(_) => "session_not_found",
            Self::Invalid(_) => "invalid_argument",
            Self::Unreadable(..) => "session_unreadable",
            Self::Unavailable(why) => why.code.as_str(),
            Self::GivenUp => "cancelled",
        }
    }

    /// What the caller can do.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoSession(_) => "list_sessions names the sessions there are",
            Self::Invalid(_) => "see the description of the parameter",
            Self::Unreadable(..) => "the file named may be torn or still being written; try again",
            Self::Unavailable(_) | Self::GivenUp => "ask again",
        }
    }
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
            memory: Arc::default(),
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
            memory: Arc::default(),
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
            let listing = listed.map(|listed| listed.listing);
            listing.map_err(|why| unlisted(&**source, &why))
        };
        let catalog = || {
            let listings = self.sources.iter().enumerate().map(listing);
            self.memory.catalog(listings.collect())
        };
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
            let read = || cache::read(source, entry);
            return self.cache.get(entry, Conversation::weight, read);
        }
        cache::read(source, entry)
    }

    /// A session's own turns and items, where its source has them.
    fn recorded(&self, entry: &Entry) -> Result<Option<Recorded>, LibraryError> {
        let recorded = self.source(entry)?.recorded(&entry.header.id);
        recorded.map_err(|why| cache::failed(entry, why))
    }

    fn source(&self, entry: &Entry) -> Result<&dyn Source, LibraryError> {
        let source = self.sources.get(entry.source).map(|s| &**s);
        source.ok_or_else(|| LibraryError::NoSession(entry.header.id.to_string()))
    }
}
