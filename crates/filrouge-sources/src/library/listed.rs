//! Caches the last listing of a source, for callers that accept a listing of a limited age.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use filrouge_types::lock;

use crate::{Listing, Source, SourceError};

/// A listing of a source's sessions.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The time at which the listing began.
    pub began: Instant,
    /// The listing.
    pub listing: Arc<Listing>,
}

impl Listed {
    /// Lists a source.
    ///
    /// # Errors
    /// As [`Source::list`].
    pub fn list(source: &dyn Source) -> Result<Self, SourceError> {
        // The age counts from the beginning of a listing, because the listing may not contain changes made while it
        // runs.
        let began = Instant::now();
        let listing = source.list()?;
        Ok(Self { began, listing })
    }
}

/// The last listing of a source; `None` before the first one, and after a failure.
#[derive(Default)]
pub(super) struct LastListing(Mutex<Option<Listed>>);

impl LastListing {
    /// The last listing if it began less than `max_age` ago, or else a new one. Concurrent callers wait for each other,
    /// so that they can share one listing.
    pub(super) fn listing_within(
        &self,
        source: &dyn Source,
        max_age: Duration,
    ) -> Result<Listed, SourceError> {
        let mut last = lock(&self.0);
        if let Some(listed) = last.as_ref()
            && listed.began.elapsed() < max_age
        {
            return Ok(listed.clone());
        }
        *last = None;
        let listed = Listed::list(source)?;
        *last = Some(listed.clone());
        Ok(listed)
    }
}
