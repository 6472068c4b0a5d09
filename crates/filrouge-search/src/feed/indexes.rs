//! The indexes of a library's sources, one file each.

use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use filrouge_sources::Source;
use filrouge_store::text_index::{IndexStatus, TextIndex};
use filrouge_types::{ErrorCode, Failure};

use super::compare::IndexSnapshot;
use super::digest;
use super::source_index::{SourceIndex, locked};

/// The time after which opening a failed index is retried.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// Opens the index in a file, or creates it.
pub type OpenIndex = Box<dyn Fn(&Path) -> Result<Arc<dyn TextIndex>, Failure> + Send + Sync>;

/// The indexes of sources.
pub struct Indexes {
    dir: PathBuf,
    slots: Vec<Slot>,
    open: OpenIndex,
    creates: bool,
}

/// The index of one source; empty for a source that is never indexed.
#[derive(Default)]
struct Slot {
    source_and_file: Option<(Arc<dyn Source>, PathBuf)>,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    opened: Option<Arc<SourceIndex>>,
    failed: Option<Instant>,
}

/// The state of an index, for display.
#[derive(Debug, Clone)]
pub struct Overview {
    /// [`Source::name`].
    pub source: &'static str,
    /// The storage forms of its sessions, as text.
    pub generation: String,
    /// [`Source::path`].
    pub source_path: PathBuf,
    /// The path of the index, which may not exist.
    pub file: PathBuf,
    /// The sessions that the index covers; `None` without an index.
    pub snapshot: Option<Arc<IndexSnapshot>>,
    /// The index's own status.
    pub status: Option<IndexStatus>,
    /// The number of sessions of the source.
    pub sessions: usize,
}

/// The file name of a source's index: the program's name and a digest of the source's path. `None` for a source without
/// a path.
#[must_use]
pub fn file_name(source: &dyn Source) -> Option<String> {
    let path_digest = digest::of_bytes(source.path()?.as_os_str().as_bytes());
    Some(format!("{}-{path_digest:016x}.index", source.name()))
}

impl Indexes {
    /// The indexes of `sources` in the folder `dir`, in the order of the library. If `creates` is set, a missing index is
    /// created once its source has a session; otherwise it is never created.
    #[must_use]
    pub fn new(sources: &[Arc<dyn Source>], dir: &Path, creates: bool, open: OpenIndex) -> Self {
        let slot = |source: &Arc<dyn Source>| {
            let file = file_name(&**source).map(|name| dir.join(name));
            Slot {
                source_and_file: file.map(|file| (source.clone(), file)),
                ..Slot::default()
            }
        };
        Self {
            dir: dir.to_owned(),
            slots: sources.iter().map(slot).collect(),
            open,
            creates,
        }
    }

    /// The index of the source at this position of the library, if there is one.
    #[must_use]
    pub fn of(&self, source: usize) -> Option<Arc<SourceIndex>> {
        let slot = self.slots.get(source)?;
        let mut state = locked(&slot.state);
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

    /// Opens or creates the index of the source at this position; `None` when the source is never indexed, or has no
    /// sessions to index.
    ///
    /// # Errors
    /// When the folder or the file cannot be created or opened.
    pub fn make(&self, source: usize) -> Result<Option<Arc<SourceIndex>>, Failure> {
        match self.slots.get(source) {
            Some(slot) => self.open_slot(slot, &mut locked(&slot.state), true),
            None => Ok(None),
        }
    }

    fn open_slot(
        &self,
        slot: &Slot,
        state: &mut SlotState,
        creates: bool,
    ) -> Result<Option<Arc<SourceIndex>>, Failure> {
        let Some((source, file)) = &slot.source_and_file else {
            return Ok(None);
        };
        if state.opened.is_none() && (file.exists() || creates && has_sessions(&**source)) {
            state.opened = Some(self.opened(source, file)?);
        }
        Ok(state.opened.clone())
    }

    fn opened(&self, source: &Arc<dyn Source>, file: &Path) -> Result<Arc<SourceIndex>, Failure> {
        let created = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir);
        created.map_err(|why| {
            let what = format!("{}: {why}", self.dir.display());
            Failure::new(ErrorCode::StoreUnavailable, what)
        })?;
        let index = (self.open)(file)?;
        let lock = file.with_extension("lock");
        let opened = SourceIndex::new(source.clone(), index, Some(lock));
        Ok(Arc::new(opened))
    }

    /// The number of sources, with an index or without.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no sources.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a source that has sessions and could be indexed has no index.
    #[must_use]
    pub fn lacks_one(&self) -> bool {
        let lacks = |(at, slot): (usize, &Slot)| {
            let source_and_file = slot.source_and_file.as_ref();
            self.of(at).is_none()
                && source_and_file.is_some_and(|(source, _)| has_sessions(&**source))
        };
        self.slots.iter().enumerate().any(lacks)
    }

    /// Opens all indexes that can be opened.
    #[must_use]
    pub fn open_all(&self) -> Vec<Arc<SourceIndex>> {
        (0..self.slots.len()).filter_map(|at| self.of(at)).collect()
    }

    /// The time at which a search last used one of the indexes.
    #[must_use]
    pub fn last_used(&self) -> Option<Instant> {
        let opened_index = |slot: &Slot| locked(&slot.state).opened.clone();
        let opened = self.slots.iter().filter_map(opened_index);
        opened.filter_map(|index| index.last_used()).max()
    }

    /// The state of the index of the source at this position; `None` when the source is never indexed, or has neither
    /// an index nor sessions.
    ///
    /// # Errors
    /// Those of an index that cannot be opened or read.
    pub fn overview(&self, source: usize) -> Result<Option<Overview>, Failure> {
        let slot = self.slots.get(source);
        let Some((origin, file)) = slot.and_then(|slot| slot.source_and_file.as_ref()) else {
            return Ok(None);
        };
        let listing = origin.list().unwrap_or_default();
        let sessions = listing.headers.len();
        if sessions == 0 && !file.exists() {
            return Ok(None);
        }
        let mut overview = Overview {
            source: origin.name(),
            generation: listing.generations(),
            source_path: origin.path().unwrap_or(Path::new("")).to_owned(),
            file: file.clone(),
            snapshot: None,
            status: None,
            sessions,
        };
        if file.exists()
            && let Some(index) = self.make(source)?
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
