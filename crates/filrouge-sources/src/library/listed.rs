//! The listing of a source that was made last, for who does not need one of this very moment.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::locked::locked;
use crate::{Listing, Source, SourceError};

/// The sessions of a source at one moment.
#[derive(Debug, Clone)]
pub struct Listed {
    /// When the source was asked.
    pub began: Instant,
    /// What it answered.
    pub listing: Arc<Listing>,
}

impl Listed {
    /// Lists a source now.
    ///
    /// # Errors
    /// As [`Source::list`].
    pub fn now(source: &dyn Source) -> Result<Self, SourceError> {
        // What changes meanwhile is seen by the next one.
        let began = Instant::now();
        let listing = source.list()?;
        Ok(Self { began, listing })
    }
}

/// The last listing of a source.
#[derive(Default)]
pub(super) struct Last(Mutex<Option<Listed>>);

impl Last {
    /// The last listing if it was begun less than `max_age` ago, else a new one. Of several who ask at once one lists.
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
