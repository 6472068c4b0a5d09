//! The listing that was made last, for who does not need one of this very moment.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Listing, SourceError};

type Listed = Result<Arc<Listing>, SourceError>;

/// The last listing of a source, and when it was begun.
#[derive(Default)]
pub(crate) struct Recent(Mutex<Option<(Instant, Arc<Listing>)>>);

impl Recent {
    /// Lists, and remembers it.
    pub(crate) fn list(&self, list: impl FnOnce() -> Listed) -> Listed {
        self.within(Duration::ZERO, list)
            .map(|(_, listing)| listing)
    }

    /// The last listing if it was begun less than `max_age` ago, else a new one.
    pub(crate) fn within(
        &self,
        max_age: Duration,
        list: impl FnOnce() -> Listed,
    ) -> Result<(Instant, Arc<Listing>), SourceError> {
        if let Some((at, listing)) = self.last()
            && at.elapsed() < max_age
        {
            return Ok((at, listing));
        }
        // What changes meanwhile is seen by the next one.
        let began = Instant::now();
        let listed = list();
        self.learn(began, listed.as_ref().ok());
        listed.map(|listing| (began, listing))
    }

    fn last(&self) -> Option<(Instant, Arc<Listing>)> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }

    fn learn(&self, began: Instant, listing: Option<&Arc<Listing>>) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have begun later and been faster.
        if last.as_ref().is_none_or(|(at, _)| *at <= began) {
            *last = listing.map(|listing| (began, listing.clone()));
        }
    }
}
