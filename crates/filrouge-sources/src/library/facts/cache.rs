//! Facts in memory, each valid as long as its session's fingerprint.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;

use super::Facts;
use crate::library::cache::{read, refused};
use crate::library::{Entry, Library, LibraryError};
use crate::locked::locked;
use crate::{Fingerprint, ReadError};

/// How much is kept: facts of some ten thousand sessions. Above it all are forgotten; what is asked for is read again.
const BYTES: usize = 32 << 20;

/// Facts of sessions by their ids, of sources that stay in the library.
#[derive(Default)]
pub(in crate::library) struct FactsCache(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_id: HashMap<Box<str>, Kept>,
    bytes: usize,
}

struct Kept {
    source: usize,
    fingerprint: Fingerprint,
    facts: Arc<Facts>,
}

type Answer = Result<Arc<Facts>, LibraryError>;

impl Library {
    /// The facts of a session: as this question has seen them already, else from memory if nothing has changed.
    pub(in crate::library) fn facts(&self, entry: &Entry) -> Answer {
        self.go_on()?;
        let id = &entry.header.id;
        if let Some(known) = self.once.as_ref().and_then(|once| once.facts(id)) {
            return known;
        }
        let answer = self.facts_now(entry);
        if let Some(once) = &self.once {
            once.learn(id, &answer);
        }
        answer
    }

    fn facts_now(&self, entry: &Entry) -> Answer {
        let id = &entry.header.id;
        let refused = |why| refused(id, why);
        let source = self.source(entry).ok_or_else(|| refused(ReadError::Gone))?;
        let fingerprint = entry.header.fingerprint;
        let Some(fingerprint) = fingerprint.filter(|_| entry.source < self.shared) else {
            let conversation = read(source, entry)?;
            return Ok(Arc::new(Facts::of(&entry.header, &conversation)));
        };
        if let Some(kept) = self.facts.lock().by_id.get(id)
            && kept.source == entry.source
            && kept.fingerprint == fingerprint
        {
            return Ok(kept.facts.clone());
        }
        let conversation = read(source, entry)?;
        let facts = Arc::new(Facts::of(&entry.header, &conversation));
        let kept = Kept {
            source: entry.source,
            fingerprint,
            facts: facts.clone(),
        };
        self.facts.lock().keep(id.clone(), kept);
        Ok(facts)
    }

    /// The facts of many sessions, in their order. Two threads look for them, and read what is not known, one
    /// conversation at a time each; none is put in the cache of conversations, which would lose all others to them.
    pub(in crate::library) fn facts_of(&self, entries: &[&Entry]) -> Vec<Answer> {
        let places: Vec<OnceLock<Answer>> = entries.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((entry, place)) = entries.get(at).zip(places.get(at)) else {
                    return;
                };
                let _ = place.set(self.facts(entry));
            }
        };
        thread::scope(|scope| {
            // Where there is no second thread, this one does everything.
            if entries.len() > 1 {
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        let found = places.into_iter().zip(entries);
        found
            .map(|(place, entry)| place.into_inner().unwrap_or_else(|| self.facts(entry)))
            .collect()
    }
}

impl FactsCache {
    fn lock(&self) -> MutexGuard<'_, Known> {
        locked(&self.0)
    }
}

impl Known {
    fn keep(&mut self, id: Box<str>, kept: Kept) {
        let bytes = kept.facts.weight();
        if self.bytes.saturating_add(bytes) > BYTES {
            *self = Self::default();
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if let Some(before) = self.by_id.insert(id, kept) {
            self.bytes = self.bytes.saturating_sub(before.facts.weight());
        }
    }
}
