//! The indexes of a library's sources, one file each.

use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use filrouge_sources::Source;
use filrouge_store::text_index::{IndexStatus, TextIndex};
use filrouge_types::{ErrorCode, Result, lock};

use super::compare::IndexSnapshot;
use super::digest;
use super::source_index::SourceIndex;

/// The time after which opening a failed index is retried.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// Opens the index in the file at a path, or creates it.
pub type OpenIndex = Box<dyn Fn(&Path) -> Result<Arc<dyn TextIndex>> + Send + Sync>;

/// The indexes of a library's sources. An index is opened at its first use.
pub struct Indexes {
    dir: PathBuf,
    slots: Vec<Slot>,
    open: OpenIndex,
    /// Whether [`Indexes::open`] creates missing indexes.
    creates: bool,
}

/// The slot of one source's index. `source_and_file` is `None` for a source that is never indexed, because it has no
/// path.
#[derive(Default)]
struct Slot {
    source_and_file: Option<(Arc<dyn Source>, PathBuf)>,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    opened: Option<Arc<SourceIndex>>,
    /// The time at which opening the index last failed.
    failed: Option<Instant>,
}

/// The state of an index, for display.
#[derive(Debug, Clone)]
pub struct Overview {
    /// [`Source::name`].
    pub source: &'static str,
    /// The generations of the source's sessions, which are the forms in which its program stored them, separated by
    /// commas.
    pub generation: String,
    /// [`Source::path`].
    pub source_path: PathBuf,
    /// The path of the index file, which may not exist.
    pub file: PathBuf,
    /// The sessions that the index covers; `None` without an index.
    pub snapshot: Option<Arc<IndexSnapshot>>,
    /// The index's own status.
    pub status: Option<IndexStatus>,
    /// The number of sessions of the source.
    pub sessions: usize,
}

/// Returns the file name of a source's index: the program's name and a digest of the source's path. Returns `None` for
/// a source without a path.
pub fn file_name(source: &dyn Source) -> Option<String> {
    let path_digest = digest::hash_bytes(source.path()?.as_os_str().as_bytes());
    Some(format!("{}-{path_digest:016x}.index", source.name()))
}

impl Indexes {
    /// Prepares the indexes of `sources`, which are in the order of the library, in the folder `dir`; opens none. With
    /// `creates`, [`Indexes::open`] creates a missing index once its source has a session; without it, only
    /// [`Indexes::open_or_create`] creates one.
    #[must_use]
    pub fn new(sources: &[Arc<dyn Source>], dir: &Path, creates: bool, open: OpenIndex) -> Self {
        let new_slot = |source: &Arc<dyn Source>| {
            let file = file_name(&**source).map(|name| dir.join(name));
            Slot {
                source_and_file: file.map(|file| (source.clone(), file)),
                ..Slot::default()
            }
        };
        Self {
            dir: dir.to_owned(),
            slots: sources.iter().map(new_slot).collect(),
            open,
            creates,
        }
    }

    /// Opens the index of the source at this position of the library. Returns `None` if the index is missing and may
    /// not be created, or cannot be opened; a failure is logged once, and opening is retried after half a minute.
    #[must_use]
    pub fn open(&self, source: usize) -> Option<Arc<SourceIndex>> {
        let slot = self.slots.get(source)?;
        let mut state = lock(&slot.state);
        if state.opened.is_none() && state.failed.is_some_and(|at| at.elapsed() < RETRY_AFTER) {
            return None;
        }
        self.open_slot(slot, &mut state, self.creates).unwrap_or_else(|why| {
            if state.failed.is_none() {
                let file = slot.source_and_file.as_ref().map(|(_, file)| file.display());
                tracing::warn!(file = file.map(tracing::field::display), %why, "an index cannot be opened; its history is searched without it");
            }
            state.failed = Some(Instant::now());
            None
        })
    }

    /// Opens the index of the source at this position of the library, or creates it, even if `creates` is false.
    /// Returns `None` if the source is never indexed, or if it has no index and no sessions.
    ///
    /// # Errors
    /// When the folder or the file cannot be created or opened.
    pub fn open_or_create(&self, source: usize) -> Result<Option<Arc<SourceIndex>>> {
        match self.slots.get(source) {
            Some(slot) => self.open_slot(slot, &mut lock(&slot.state), true),
            None => Ok(None),
        }
    }

    fn open_slot(
        &self,
        slot: &Slot,
        state: &mut SlotState,
        creates: bool,
    ) -> Result<Option<Arc<SourceIndex>>> {
        let Some((source, file)) = &slot.source_and_file else {
            return Ok(None);
        };
        if state.opened.is_none() && (file.exists() || creates && has_sessions(&**source)) {
            state.opened = Some(self.open_source_index(source, file)?);
        }
        Ok(state.opened.clone())
    }

    fn open_source_index(&self, source: &Arc<dyn Source>, file: &Path) -> Result<Arc<SourceIndex>> {
        let result = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir);
        result.map_err(|why| {
            ErrorCode::StoreUnavailable.failure(format!("{}: {why}", self.dir.display()))
        })?;
        let index = (self.open)(file)?;
        let lock = file.with_extension("lock");
        let opened = SourceIndex::new(source.clone(), index, Some(lock));
        Ok(Arc::new(opened))
    }

    /// The number of sources, whether or not they have an index.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no sources.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a source has no usable index although it has sessions and could be indexed.
    pub fn lacks_index(&self) -> bool {
        let is_without_index = |(at, slot): (usize, &Slot)| {
            let source_and_file = slot.source_and_file.as_ref();
            self.open(at).is_none()
                && source_and_file.is_some_and(|(source, _)| has_sessions(&**source))
        };
        self.slots.iter().enumerate().any(is_without_index)
    }

    /// Returns all indexes that can be opened or created, as [`Indexes::open`] does.
    pub fn open_all(&self) -> Vec<Arc<SourceIndex>> {
        (0..self.slots.len())
            .filter_map(|at| self.open(at))
            .collect()
    }

    /// The time at which a search last used one of the indexes.
    pub fn last_used(&self) -> Option<Instant> {
        let opened_index = |slot: &Slot| lock(&slot.state).opened.clone();
        let opened = self.slots.iter().filter_map(opened_index);
        opened.filter_map(|index| index.last_used()).max()
    }

    /// Describes the index of the source at this position of the library; creates no index. Returns `None` if the
    /// source is never indexed, or has neither an index nor sessions. A source that cannot be listed counts as one
    /// without sessions.
    ///
    /// # Errors
    /// When the index cannot be opened or read.
    pub fn overview(&self, source: usize) -> Result<Option<Overview>> {
        let slot = self.slots.get(source);
        let Some((indexed_source, file)) = slot.and_then(|slot| slot.source_and_file.as_ref())
        else {
            return Ok(None);
        };
        let listing = indexed_source.list().unwrap_or_default();
        let sessions = listing.headers.len();
        if sessions == 0 && !file.exists() {
            return Ok(None);
        }
        let mut overview = Overview {
            source: indexed_source.name(),
            generation: listing.generations(),
            source_path: indexed_source.path().unwrap_or(Path::new("")).to_owned(),
            file: file.clone(),
            snapshot: None,
            status: None,
            sessions,
        };
        if file.exists()
            && let Some(index) = self.open_or_create(source)?
        {
            overview.snapshot = Some(index.snapshot(Duration::ZERO));
            overview.status = Some(index.index().status()?);
        }
        Ok(Some(overview))
    }
}

fn has_sessions(source: &dyn Source) -> bool {
    source
        .list()
        .is_ok_and(|listing| !listing.headers.is_empty())
}
