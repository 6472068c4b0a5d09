//! The indexes of a library's sources, a file each.

use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use filrouge_sources::Source;
use filrouge_store::text_index::{IndexStatus, TextIndex};
use filrouge_types::{ErrorCode, Failure};

use super::compare::Known;
use super::digest;
use super::source_index::{SourceIndex, locked};

/// What cannot be opened is tried again after this time.
const AGAIN: Duration = Duration::from_secs(30);

/// Opens an index in a file, or makes it.
pub type OpenIndex = Box<dyn Fn(&Path) -> Result<Arc<dyn TextIndex>, Failure> + Send + Sync>;

/// The indexes of sources.
pub struct Indexes {
    dir: PathBuf,
    slots: Vec<Slot>,
    open: OpenIndex,
    makes: bool,
}

/// The index of one source; nothing of a source that is never indexed.
#[derive(Default)]
struct Slot {
    named: Option<(Arc<dyn Source>, PathBuf)>,
    state: Mutex<Slotted>,
}

#[derive(Default)]
struct Slotted {
    opened: Option<Arc<SourceIndex>>,
    failed: Option<Instant>,
}

/// How an index is.
#[derive(Debug, Clone)]
pub struct Overview {
    /// [`Source::name`].
    pub source: &'static str,
    /// The forms its sessions are stored in, in words.
    pub generation: String,
    /// [`Source::path`].
    pub place: PathBuf,
    /// Where the index is, or would be.
    pub file: PathBuf,
    /// What it is good for; `None` when there is none.
    pub known: Option<Arc<Known>>,
    /// How it is itself.
    pub status: Option<IndexStatus>,
    /// How many sessions there are.
    pub sessions: usize,
}

/// The name of the file of a source's index: the program, and a number of its place.
#[must_use]
pub fn file_name(source: &dyn Source) -> Option<String> {
    let place = digest::of_bytes(source.path()?.as_os_str().as_bytes());
    Some(format!("{}-{place:016x}.index", source.name()))
}

impl Indexes {
    /// The indexes of `sources` in the folder `dir`, by their places in the library. With `makes`, one that is not there is
    /// made as soon as its source has a session; else there is none then.
    #[must_use]
    pub fn new(sources: &[Arc<dyn Source>], dir: &Path, makes: bool, open: OpenIndex) -> Self {
        let slot = |source: &Arc<dyn Source>| {
            let file = file_name(&**source).map(|name| dir.join(name));
            Slot {
                named: file.map(|file| (source.clone(), file)),
                ..Slot::default()
            }
        };
        Self {
            dir: dir.to_owned(),
            slots: sources.iter().map(slot).collect(),
            open,
            makes,
        }
    }

    /// The index of the source at that place in the library, if there is one.
    #[must_use]
    pub fn of(&self, source: usize) -> Option<Arc<SourceIndex>> {
        let slot = self.slots.get(source)?;
        let mut state = locked(&slot.state);
        if state.opened.is_none() && state.failed.is_some_and(|at| at.elapsed() < AGAIN) {
            return None;
        }
        self.open_slot(slot, &mut state, self.makes).unwrap_or_else(|why| {
            if state.failed.is_none() {
                let file = slot.named.as_ref().map(|(_, file)| file.display());
                tracing::warn!(file = file.map(tracing::field::display), %why, "an index cannot be opened; its history is searched without it");
            }
            state.failed = Some(Instant::now());
            None
        })
    }

    /// Opens the index of the source at that place, or makes it; `None` when it has none, or nothing to be indexed.
    ///
    /// # Errors
    /// When the folder or the file cannot be made or opened.
    pub fn make(&self, source: usize) -> Result<Option<Arc<SourceIndex>>, Failure> {
        match self.slots.get(source) {
            Some(slot) => self.open_slot(slot, &mut locked(&slot.state), true),
            None => Ok(None),
        }
    }

    fn open_slot(
        &self,
        slot: &Slot,
        state: &mut Slotted,
        makes: bool,
    ) -> Result<Option<Arc<SourceIndex>>, Failure> {
        let Some((source, file)) = &slot.named else {
            return Ok(None);
        };
        if state.opened.is_none() && (file.exists() || makes && has_sessions(&**source)) {
            state.opened = Some(self.opened(source, file)?);
        }
        Ok(state.opened.clone())
    }

    fn opened(&self, source: &Arc<dyn Source>, file: &Path) -> Result<Arc<SourceIndex>, Failure> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir);
        made.map_err(|why| {
            let what = format!("{}: {why}", self.dir.display());
            Failure::new(ErrorCode::StoreUnavailable, what)
        })?;
        let index = (self.open)(file)?;
        let lock = file.with_extension("lock");
        let opened = SourceIndex::new(source.clone(), index, Some(lock));
        Ok(Arc::new(opened))
    }

    /// How many sources there are, with an index or without.
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
            let named = slot.named.as_ref();
            self.of(at).is_none() && named.is_some_and(|(source, _)| has_sessions(&**source))
        };
        self.slots.iter().enumerate().any(lacks)
    }

    /// All indexes there are.
    #[must_use]
    pub fn open_all(&self) -> Vec<Arc<SourceIndex>> {
        (0..self.slots.len()).filter_map(|at| self.of(at)).collect()
    }

    /// When one of them was last asked.
    #[must_use]
    pub fn asked(&self) -> Option<Instant> {
        let opened = |slot: &Slot| locked(&slot.state).opened.clone();
        let asked = self.slots.iter().filter_map(opened);
        asked.filter_map(|index| index.asked()).max()
    }

    /// How the index of the source at that place is; `None` where there can be none, or is none and nothing to index.
    ///
    /// # Errors
    /// Of an index that cannot be opened or read.
    pub fn overview(&self, source: usize) -> Result<Option<Overview>, Failure> {
        let named = self.slots.get(source).and_then(|slot| slot.named.as_ref());
        let Some((of, file)) = named else {
            return Ok(None);
        };
        let listing = of.list().unwrap_or_default();
        let sessions = listing.headers.len();
        if sessions == 0 && !file.exists() {
            return Ok(None);
        }
        let mut overview = Overview {
            source: of.name(),
            generation: listing.forms(),
            place: of.path().unwrap_or(Path::new("")).to_owned(),
            file: file.clone(),
            known: None,
            status: None,
            sessions,
        };
        if file.exists()
            && let Some(index) = self.make(source)?
        {
            overview.known = Some(index.known(Duration::ZERO));
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
