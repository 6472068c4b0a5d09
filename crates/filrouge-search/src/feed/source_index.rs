//! One source and its index.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use filrouge_sources::Source;
use filrouge_sources::library::Listed;
use filrouge_store::text_index::TextIndex;
use filrouge_types::{Clock, ErrorCode, Failure, SystemClock, lock};

use super::compare::{Comparison, IndexSnapshot, compare, listing_failure};
use super::lock::FeederLock;

/// A source and the index that is kept up to date with it.
pub struct SourceIndex {
    pub(super) source: Arc<dyn Source>,
    pub(super) index: Arc<dyn TextIndex>,
    /// As in [`SourceIndex::new`].
    pub(super) lock: Option<PathBuf>,
    /// The newest comparison, with the listing that it used; `None` if there was none since the index last changed.
    last_comparison: Mutex<Option<(Listed, Arc<Comparison>)>>,
    last_used: Mutex<Option<Instant>>,
    /// The error codes of the failures that were logged already.
    logged: Mutex<HashSet<ErrorCode>>,
}

impl SourceIndex {
    /// Combines `source` and its index, which contains no other source. `lock` is the path of a lock file: of all
    /// processes that use the same file, only one feeds the index at a time. `None` if no other process can open the
    /// index.
    #[must_use]
    pub fn new(source: Arc<dyn Source>, index: Arc<dyn TextIndex>, lock: Option<PathBuf>) -> Self {
        Self {
            source,
            index,
            lock,
            last_comparison: Mutex::default(),
            last_used: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    /// The source.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// The index.
    pub fn index(&self) -> &Arc<dyn TextIndex> {
        &self.index
    }

    /// Returns the sessions that the index covers. It uses the listing of the newest comparison if that is younger than
    /// `max_age`; otherwise it lists the source again. When the index or the source fails, no session is fresh. Counts
    /// as a use of the index.
    pub fn snapshot(&self, max_age: Duration) -> Arc<IndexSnapshot> {
        let is_young = |(listed, _): &&(Listed, Arc<Comparison>)| listed.began.elapsed() < max_age;
        if let Some((_, comparison)) = lock(&self.last_comparison).as_ref().filter(is_young) {
            *lock(&self.last_used) = Some(Instant::now());
            return comparison.snapshot.clone();
        }
        self.snapshot_of(&self.list_source())
    }

    /// Returns the sessions that the index covers, according to this listing of the source. Counts as a use of the
    /// index.
    pub fn snapshot_of(&self, listed: &Result<Listed, Failure>) -> Arc<IndexSnapshot> {
        *lock(&self.last_used) = Some(Instant::now());
        let comparison = listed.clone().and_then(|listed| self.comparison(&listed));
        match comparison {
            Ok(comparison) => comparison.snapshot.clone(),
            Err(why) => {
                self.log_failure(&why);
                Arc::new(self.all_stale(listed.as_ref().ok(), why))
            }
        }
    }

    /// Lists the current sessions of the source.
    pub(super) fn list_source(&self) -> Result<Listed, Failure> {
        Listed::list(&*self.source).map_err(|why| listing_failure(&why))
    }

    /// Compares the index with a listing; returns the newest comparison if it used the same listing.
    pub(super) fn comparison(&self, listed: &Listed) -> Result<Arc<Comparison>, Failure> {
        let mut last = lock(&self.last_comparison);
        if let Some((previous, comparison)) = last.as_ref()
            && previous.began == listed.began
        {
            return Ok(comparison.clone());
        }
        *last = None;
        let comparison = Arc::new(compare(
            &*self.index,
            &*self.source,
            listed,
            SystemClock.now(),
        )?);
        *last = Some((listed.clone(), comparison.clone()));
        Ok(comparison)
    }

    /// Empties the index, unless another process feeds it. Returns whether the index was emptied.
    ///
    /// # Errors
    /// Those of the index.
    pub fn clear(&self) -> Result<bool, Failure> {
        let Some(_lock) = self.try_lock()? else {
            return Ok(false);
        };
        let cleared = self.index.clear();
        self.drop_comparison();
        cleared.map(|()| true)
    }

    /// Runs a small step of maintenance that keeps searches fast, unless another process feeds the index. Returns
    /// whether another step is needed; false if another process feeds the index.
    ///
    /// # Errors
    /// Those of the index.
    pub fn tidy(&self) -> Result<bool, Failure> {
        match self.try_lock()? {
            Some(_lock) => self.index.tidy(),
            None => Ok(false),
        }
    }

    /// The time at which a search last used the index.
    pub fn last_used(&self) -> Option<Instant> {
        *lock(&self.last_used)
    }

    /// Logs a failure of the index or its source if it is the first with its error code.
    pub fn log_failure(&self, why: &Failure) {
        if lock(&self.logged).insert(why.code) {
            tracing::warn!(
                source = self.source.name(),
                %why,
                "an index cannot be used; its history is searched without it"
            );
        }
    }

    /// Returns the snapshot after a failure: all listed sessions are stale. `listed` is `None` if the source could not
    /// be listed.
    fn all_stale(&self, listed: Option<&Listed>, why: Failure) -> IndexSnapshot {
        let headers = listed.map(|listed| &listed.listing.headers);
        let headers = headers.into_iter().flatten();
        let stale: Vec<_> = headers.map(|header| header.id.clone()).collect();
        IndexSnapshot {
            fresh: HashMap::new(),
            pending: stale.len(),
            stale,
            as_of: SystemClock.now(),
            failed: Some(why),
        }
    }

    /// Drops the newest comparison, because the index has changed.
    pub(super) fn drop_comparison(&self) {
        *lock(&self.last_comparison) = None;
    }

    /// Acquires the lock for feeding the index; returns `None` while another feeder has it.
    pub(super) fn try_lock(&self) -> Result<Option<FeederLock>, Failure> {
        let Some(path) = &self.lock else {
            return Ok(Some(FeederLock::default()));
        };
        FeederLock::try_acquire(path).map_err(|why| {
            ErrorCode::StoreUnavailable.failure(format!("{}: {why}", path.display()))
        })
    }
}
