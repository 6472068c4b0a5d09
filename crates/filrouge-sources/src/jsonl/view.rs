//! The sessions of a folder, looked through again when somebody asks and enough time has gone by.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Format, LogFile, Session};
use crate::{Listing, Skipped, SourceError};

/// So many files are looked at whenever somebody asks for the list.
const FILES_AT_ONCE: usize = 200;

/// How long a look is good for: at more files than that, and at one session whose file has not changed.
pub(super) const GOOD_FOR: Duration = Duration::from_millis(400);

/// All sessions of one moment.
pub(super) struct View<F: Format> {
    pub(super) listing: Arc<Listing>,
    by_id: ById<F>,
    /// What it was made of.
    files: Vec<(LogFile, Head<F>)>,
    skipped: Vec<Skipped>,
    beside: F::Beside,
}

type ById<F> = HashMap<Box<str>, Arc<Session<<F as Format>::Context>>>;

type Head<F> = Result<Arc<<F as Format>::Head>, Skipped>;

/// The last look.
pub(super) struct Cached<F: Format>(Mutex<Option<Last<F>>>);

struct Last<F: Format> {
    view: Arc<View<F>>,
    /// When the look began.
    looked: Instant,
}

impl<F: Format> Default for Cached<F> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<F: Format> Last<F> {
    fn is_fresh(&self) -> bool {
        self.looked.elapsed() < GOOD_FOR
    }
}

impl<F: Format> Cached<F> {
    /// All sessions; the same view again when nothing has changed. Nobody waits while somebody else looks.
    pub(super) fn view(&self, format: &F, anew: bool) -> Result<Arc<View<F>>, SourceError> {
        let is_good = |last: &&Last<F>| last.view.files.len() > FILES_AT_ONCE && last.is_fresh();
        if let Some(last) = self.last().as_ref().filter(|_| !anew).filter(is_good) {
            return Ok(last.view.clone());
        }
        let before = self.last().as_ref().map(|last| last.view.clone());
        let looked = Instant::now();
        let mut skipped = Vec::new();
        let files = format.walk(&mut skipped)?;
        let beside = format.beside(&mut skipped);
        let view = match before {
            Some(before) if before.is_of(&files, &skipped, &beside) => before,
            before => {
                let files = heads(format, files, before.as_deref());
                Arc::new(View::new(format, files, skipped, beside))
            }
        };
        let mut last = self.last();
        // Of two that looked at once the later look stays.
        if last.as_ref().is_none_or(|last| last.looked < looked) {
            let view = view.clone();
            *last = Some(Last { view, looked });
        }
        Ok(view)
    }

    /// A session as of a look that is still good.
    pub(super) fn recent(&self, id: &str) -> Option<Arc<Session<F::Context>>> {
        let last = self.last();
        let last = last.as_ref().filter(|last| last.is_fresh())?;
        last.view.session(id)
    }

    fn last(&self) -> MutexGuard<'_, Option<Last<F>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The heads of files, read where a file's state has changed.
fn heads<F: Format>(
    format: &F,
    files: Vec<LogFile>,
    before: Option<&View<F>>,
) -> Vec<(LogFile, Head<F>)> {
    let known = before.map(|view| view.files.as_slice()).unwrap_or_default();
    let known: HashMap<&Path, &(LogFile, Head<F>)> = known
        .iter()
        .map(|one| (one.0.path.as_path(), one))
        .collect();
    let head = |file: LogFile| {
        let known = known.get(file.path.as_path());
        let head = match known.filter(|(before, _)| before.state == file.state) {
            Some((_, head)) => head.clone(),
            None => format.head(&file).map(Arc::new),
        };
        (file, head)
    };
    files.into_iter().map(head).collect()
}

impl<F: Format> View<F> {
    fn new(
        format: &F,
        files: Vec<(LogFile, Head<F>)>,
        skipped: Vec<Skipped>,
        beside: F::Beside,
    ) -> Self {
        let mut found = Vec::with_capacity(files.len());
        let mut all_skipped = skipped.clone();
        for (file, head) in &files {
            match head {
                Ok(head) => found.push((file.clone(), head.clone())),
                Err(why) => all_skipped.push(why.clone()),
            }
        }
        let sessions = format.settle(found, &beside, &mut all_skipped);
        all_skipped.sort();
        let mut headers: Vec<_> = sessions.iter().map(|s| s.header.clone()).collect();
        headers.sort_by(|a, b| a.place().cmp(&b.place()));
        let by_id = sessions
            .into_iter()
            .map(|s| (s.header.id.clone(), Arc::new(s)));
        Self {
            listing: Arc::new(Listing {
                headers,
                skipped: all_skipped,
                truncated: false,
            }),
            by_id: by_id.collect(),
            files,
            skipped,
            beside,
        }
    }

    /// Whether it was made of just this.
    fn is_of(&self, files: &[LogFile], skipped: &[Skipped], beside: &F::Beside) -> bool {
        self.files.iter().map(|(file, _)| file).eq(files)
            && self.skipped == skipped
            && self.beside == *beside
    }

    pub(super) fn session(&self, id: &str) -> Option<Arc<Session<F::Context>>> {
        self.by_id.get(id).cloned()
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = &Arc<Session<F::Context>>> {
        self.by_id.values()
    }
}
