//! One source and its index.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use filrouge_sources::Source;
use filrouge_sources::library::Listed;
use filrouge_store::text_index::TextIndex;
use filrouge_types::{Clock, ErrorCode, Failure, SystemClock};

use super::compare::{Compared, Known, compare, unlisted};
use super::lock::Feeding;

/// A source and the index that is kept in step with it.
pub struct SourceIndex {
    pub(super) source: Arc<dyn Source>,
    pub(super) index: Arc<dyn TextIndex>,
    pub(super) lock: Option<PathBuf>,
    /// The last comparison, with the listing it was made with.
    last: Mutex<Option<(Listed, Arc<Compared>)>>,
    asked: Mutex<Option<Instant>>,
    errors: AtomicU64,
    told: Mutex<HashSet<ErrorCode>>,
}

impl SourceIndex {
    /// An index that is `source`'s alone. Of all processes that name the same `lock`, a file beside the index, one feeds it
    /// at a time.
    #[must_use]
    pub fn new(source: Arc<dyn Source>, index: Arc<dyn TextIndex>, lock: Option<PathBuf>) -> Self {
        Self {
            source,
            index,
            lock,
            last: Mutex::default(),
            asked: Mutex::default(),
            errors: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }

    /// The source.
    #[must_use]
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> &Arc<dyn TextIndex> {
        &self.index
    }

    /// What the index is good for now, by a listing that may have been made up to `max_age` ago. An index or a source that
    /// fails holds nothing.
    #[must_use]
    pub fn known(&self, max_age: Duration) -> Arc<Known> {
        let is_young = |(listed, _): &&(Listed, Arc<Compared>)| listed.began.elapsed() < max_age;
        if let Some((_, compared)) = locked(&self.last).as_ref().filter(is_young) {
            *locked(&self.asked) = Some(Instant::now());
            return compared.known.clone();
        }
        self.known_of(&self.listed())
    }

    /// What the index is good for, by this listing of the source.
    #[must_use]
    pub fn known_of(&self, listed: &Result<Listed, Failure>) -> Arc<Known> {
        *locked(&self.asked) = Some(Instant::now());
        let compared = listed.clone().and_then(|listed| self.compared(&listed));
        match compared {
            Ok(compared) => compared.known.clone(),
            Err(why) => {
                self.note(&why);
                Arc::new(self.nothing(listed.as_ref().ok(), why))
            }
        }
    }

    /// The sessions of the source as they are now.
    pub(super) fn listed(&self) -> Result<Listed, Failure> {
        Listed::now(&*self.source).map_err(|why| unlisted(&why))
    }

    /// The index compared with a listing; the last comparison again where it is of the same one.
    pub(super) fn compared(&self, listed: &Listed) -> Result<Arc<Compared>, Failure> {
        let mut last = locked(&self.last);
        if let Some((before, compared)) = last.as_ref()
            && before.began == listed.began
        {
            return Ok(compared.clone());
        }
        *last = None;
        let compared = Arc::new(compare(
            &*self.index,
            &*self.source,
            listed,
            SystemClock.now(),
        )?);
        *last = Some((listed.clone(), compared.clone()));
        Ok(compared)
    }

    /// Empties the index, unless another process feeds it; whether it was emptied.
    ///
    /// # Errors
    /// Of the index.
    pub fn clear(&self) -> Result<bool, Failure> {
        let Some(_feeding) = self.feeding()? else {
            return Ok(false);
        };
        let cleared = self.index.clear();
        self.changed();
        cleared.map(|()| true)
    }

    /// A small step of what keeps questions fast, unless another process feeds the index; whether there is more to do.
    ///
    /// # Errors
    /// Of the index.
    pub fn tidy(&self) -> Result<bool, Failure> {
        match self.feeding()? {
            Some(_feeding) => self.index.tidy(),
            None => Ok(false),
        }
    }

    /// When it was last asked for what it knows.
    #[must_use]
    pub fn asked(&self) -> Option<Instant> {
        *locked(&self.asked)
    }

    /// How often the index has failed.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Counts a failure of the index; the first of its kind is told.
    pub fn note(&self, why: &Failure) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        if locked(&self.told).insert(why.code) {
            tracing::warn!(
                source = self.source.name(),
                %why,
                "an index cannot be used; its history is searched without it"
            );
        }
    }

    /// All that there is, not indexed.
    fn nothing(&self, listed: Option<&Listed>, why: Failure) -> Known {
        let headers = listed.map(|listed| &listed.listing.headers);
        let headers = headers.into_iter().flatten();
        let stale: Vec<_> = headers.map(|header| header.id.clone()).collect();
        Known {
            fresh: HashMap::new(),
            pending: stale.len(),
            stale,
            as_of: SystemClock.now(),
            failed: Some(why),
        }
    }

    /// The index has changed: the last comparison no longer holds.
    pub(super) fn changed(&self) {
        *locked(&self.last) = None;
    }

    /// The right to feed it; `None` while another process does.
    pub(super) fn feeding(&self) -> Result<Option<Feeding>, Failure> {
        let Some(path) = &self.lock else {
            return Ok(Some(Feeding::alone()));
        };
        Feeding::begin(path).map_err(|why| {
            let what = format!("{}: {why}", path.display());
            Failure::new(ErrorCode::StoreUnavailable, what)
        })
    }
}

impl std::fmt::Debug for SourceIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceIndex")
            .field("source", &self.source.name())
            .finish_non_exhaustive()
    }
}

/// What is in it is right whatever happened to its last user.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
