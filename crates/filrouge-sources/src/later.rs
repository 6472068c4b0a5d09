//! A history that may not be there yet.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::files::canonical;
use crate::{
    Conversation, Listing, LoadedSession, Look, Overlooks, ReadError, ReadMessages, Scan, Since,
    Skipped, Source, SourceError, Stamp,
};

/// A place is looked at again after this time at the earliest; new data is to be seen within a second.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(400);

/// Opens the history, once it is there.
type Open = Box<dyn Fn() -> Result<Arc<dyn Source>, SourceError> + Send + Sync>;

/// A source that is empty until there is something at its place.
pub(crate) struct Later {
    name: &'static str,
    generation: &'static str,
    open: Open,
    at: PathBuf,
    state: Mutex<State>,
    nothing: Arc<Listing>,
}

#[derive(Default)]
struct State {
    source: Option<Arc<dyn Source>>,
    looked: Option<Instant>,
}

impl Later {
    pub(crate) fn new(
        (name, generation): (&'static str, &'static str),
        path: &Path,
        open: Open,
    ) -> Self {
        Self {
            name,
            generation,
            at: canonical(path),
            open,
            state: Mutex::default(),
            nothing: Arc::default(),
        }
    }

    /// The history; `None` while there is none.
    fn source(&self) -> Result<Option<Arc<dyn Source>>, SourceError> {
        let mut state = lock(&self.state);
        let due = state.looked.is_none_or(|at| at.elapsed() >= LOOK_AGAIN);
        if state.source.is_none() && due {
            match (self.open)() {
                Ok(source) => state.source = Some(source),
                Err(SourceError::NotFound { .. } | SourceError::Unrecognised { .. }) => {}
                // Not remembered: it is told each time.
                Err(why) => return Err(why),
            }
            state.looked = Some(Instant::now());
        }
        Ok(state.source.clone())
    }

    fn found(&self) -> Result<Arc<dyn Source>, ReadError> {
        let source = self.source();
        let source = source.map_err(|why| ReadError::Unavailable(why.to_string()))?;
        source.ok_or(ReadError::Gone)
    }
}

impl Source for Later {
    fn name(&self) -> &'static str {
        self.name
    }

    fn generation(&self) -> &'static str {
        self.generation
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        match self.source()? {
            Some(source) => source.list(),
            None => Ok(self.nothing.clone()),
        }
    }

    fn list_within(&self, max_age: Duration) -> Result<(Instant, Arc<Listing>), SourceError> {
        match self.source()? {
            Some(source) => source.list_within(max_age),
            None => Ok((Instant::now(), self.nothing.clone())),
        }
    }

    fn recall(&self, notes: &[u8]) {
        // What cannot be opened is told by who lists it.
        if let Ok(Some(source)) = self.source() {
            source.recall(notes);
        }
    }

    fn notes(&self) -> Option<Vec<u8>> {
        self.source().ok()??.notes()
    }

    fn stamp(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        self.found()?.stamp(id)
    }

    fn place(&self) -> Option<&Path> {
        Some(&self.at)
    }

    fn lasting(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        self.found()?.lasting(id)
    }

    fn since(&self, known: &[(&str, Stamp)], look: Look) -> Result<Vec<Since>, SourceError> {
        match self.source()? {
            Some(source) => source.since(known, look),
            None => Ok(vec![Since::Changed; known.len()]),
        }
    }

    fn whole(&self) -> Option<Stamp> {
        self.source().ok()??.whole()
    }

    fn overlooks(&self) -> Overlooks {
        let source = self.source();
        let source = source.ok().flatten();
        source.map_or(Overlooks::Nothing, |source| source.overlooks())
    }

    fn conversation(&self, id: &str) -> Result<Conversation, ReadError> {
        self.found()?.conversation(id)
    }

    fn read_since(&self, id: &str, known: &HashMap<&str, u64>) -> Result<ReadMessages, ReadError> {
        self.found()?.read_since(id, known)
    }

    fn scan(&self, scan: &Scan<'_>) -> Result<(), SourceError> {
        self.source()?.map_or(Ok(()), |source| source.scan(scan))
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        self.found()?.load(id)
    }

    fn strays(&self) -> Result<Vec<Skipped>, SourceError> {
        let source = self.source()?;
        source.map_or(Ok(Vec::new()), |source| source.strays())
    }
}

/// What is in it is right whatever happened to its last user.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
