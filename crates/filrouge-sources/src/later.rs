//! A history that may not be there yet.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::files::canonical;
use crate::locked::locked;
use crate::{Conversation, Listing, LoadedSession, ReadError, Skipped, Source, SourceError};

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
        let mut state = locked(&self.state);
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
        self.source()?.ok_or(ReadError::Gone)
    }
}

impl Source for Later {
    fn name(&self) -> &'static str {
        self.name
    }

    fn generation(&self) -> &'static str {
        self.generation
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.at)
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        match self.source()? {
            Some(source) => source.list(),
            None => Ok(self.nothing.clone()),
        }
    }

    fn read(&self, id: &str) -> Result<Conversation, ReadError> {
        self.found()?.read(id)
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        self.found()?.load(id)
    }

    fn strays(&self) -> Result<Vec<Skipped>, SourceError> {
        let source = self.source()?;
        source.map_or(Ok(Vec::new()), |source| source.strays())
    }
}
