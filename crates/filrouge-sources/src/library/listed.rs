//! The last listing of a source, for callers that accept a slightly older one.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::locked::locked;
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
    pub fn now(source: &dyn Source) -> Result<Self, SourceError> {
        // The age counts from the beginning: a change during this listing is seen only by the next one.
        let began = Instant::now();
        let listing = source.list()?;
        Ok(Self { began, listing })
    }
}

/// The last listing of a source.
#[derive(Default)]
pub(super) struct LastListing(Mutex<Option<Listed>>);

impl LastListing {
    /// The last listing if it began less than `max_age` ago, or else a new one. Of several concurrent callers, only one lists.
    pub(super) fn within(
        &self,
        source: &dyn Source,
        max_age: Duration,
    ) -> Result<Listed, SourceError> {
        let mut last = locked(&self.0);
        if let Some(listed) = last.as_ref()
            && listed.began.elapsed() < max_age
        {
            return Ok(listed.clone());
        }
        *last = None;
        let listed = Listed::now(source)?;
        *last = Some(listed.clone());
        Ok(listed)
    }
}
