//! The sessions of a folder. Heads of files are kept until their states change.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::{Format, LogFile, Session};
use crate::locked::locked;
use crate::{Fingerprint, Header, Listing, Skipped, SourceError};

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

/// The last view, and when its look at the folder began.
pub(super) struct Cached<F: Format>(Mutex<Option<(Instant, Arc<View<F>>)>>);

impl<F: Format> Default for Cached<F> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<F: Format> Cached<F> {
    /// All sessions; the same view again when nothing has changed. Nobody waits while somebody else looks.
    pub(super) fn view(&self, format: &F) -> Result<Arc<View<F>>, SourceError> {
        let before = self.last();
        let began = Instant::now();
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
        let mut last = locked(&self.0);
        // Of two that looked at once the later look stays.
        if last.as_ref().is_none_or(|(other, _)| *other < began) {
            *last = Some((began, view.clone()));
        }
        Ok(view)
    }

    /// A session of the last view.
    pub(super) fn session(&self, id: &str) -> Option<Arc<Session<F::Context>>> {
        self.last()?.session(id)
    }

    fn last(&self) -> Option<Arc<View<F>>> {
        locked(&self.0).as_ref().map(|(_, view)| view.clone())
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
        let sessions = sessions.into_iter().map(|mut session| {
            let fingerprint = Fingerprint::of(&(session.file.state.lasting(), session.mark));
            session.header = Arc::new(Header {
                fingerprint: Some(fingerprint),
                ..Header::clone(&session.header)
            });
            (session.header.id.clone(), Arc::new(session))
        });
        let by_id: ById<F> = sessions.collect();
        let listing = Listing {
            headers: by_id.values().map(|one| one.header.clone()).collect(),
            skipped: all_skipped,
            truncated: false,
        };
        Self {
            listing: Arc::new(listing.in_order()),
            by_id,
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
}
