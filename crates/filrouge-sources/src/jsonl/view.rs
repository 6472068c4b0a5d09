//! The sessions of a folder, looked through again when somebody asks and enough time has gone by.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Format, LogFile, Session, State};
use crate::{Listing, Skipped, SourceError};

/// So many files are looked at whenever somebody asks.
const FILES_AT_ONCE: usize = 200;

/// How long a look at more files than that is good for.
const GOOD_FOR: Duration = Duration::from_millis(400);

/// All sessions of one moment.
pub(super) struct View<F: Format> {
    pub(super) listing: Listing,
    pub(super) by_id: HashMap<Box<str>, Arc<Session<F::Context>>>,
    looked: Instant,
    files: usize,
}

/// The last look, and the heads of all files as they were then.
pub(super) struct Cached<F: Format>(Mutex<Inner<F>>);

struct Inner<F: Format> {
    view: Option<Arc<View<F>>>,
    heads: HashMap<PathBuf, (State, Head<F>)>,
}

type Head<F> = Result<Arc<<F as Format>::Head>, Skipped>;

impl<F: Format> Default for Cached<F> {
    fn default() -> Self {
        Self(Mutex::new(Inner {
            view: None,
            heads: HashMap::new(),
        }))
    }
}

impl<F: Format> View<F> {
    fn is_good(&self) -> bool {
        self.files > FILES_AT_ONCE && self.looked.elapsed() < GOOD_FOR
    }
}

impl<F: Format> Cached<F> {
    pub(super) fn view(&self, format: &F, anew: bool) -> Result<Arc<View<F>>, SourceError> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = inner.view.as_ref().filter(|view| !anew && view.is_good()) {
            return Ok(view.clone());
        }
        let mut skipped = Vec::new();
        let files = format.walk(&mut skipped)?;
        let looked = Instant::now();
        let count = files.len();
        let found = inner.heads_of(format, files, &mut skipped);
        let sessions = format.settle(found, &mut skipped);
        let view = Arc::new(view_of(sessions, skipped, looked, count));
        inner.view = Some(view.clone());
        Ok(view)
    }
}

impl<F: Format> Inner<F> {
    /// The heads of files, read where the state has changed.
    fn heads_of(
        &mut self,
        format: &F,
        files: Vec<LogFile>,
        skipped: &mut Vec<Skipped>,
    ) -> Vec<(LogFile, Arc<F::Head>)> {
        let mut before = std::mem::take(&mut self.heads);
        let mut found = Vec::with_capacity(files.len());
        for file in files {
            let known = before.remove_entry(&file.path);
            let (path, (state, head)) = match known {
                Some((path, (state, head))) if state == file.state => (path, (state, head)),
                _ => {
                    let head = format.head(&file).map(Arc::new);
                    (file.path.clone(), (file.state, head))
                }
            };
            match &head {
                Ok(head) => found.push((file, head.clone())),
                Err(why) => skipped.push(why.clone()),
            }
            self.heads.insert(path, (state, head));
        }
        found
    }
}

fn view_of<F: Format>(
    sessions: Vec<Session<F::Context>>,
    mut skipped: Vec<Skipped>,
    looked: Instant,
    files: usize,
) -> View<F> {
    let mut headers: Vec<_> = sessions.iter().map(|s| s.header.clone()).collect();
    headers.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
    skipped.sort();
    let by_id = sessions
        .into_iter()
        .map(|s| (s.header.id.clone(), Arc::new(s)));
    View {
        listing: Listing {
            headers,
            skipped,
            truncated: false,
        },
        by_id: by_id.collect(),
        looked,
        files,
    }
}
