//! Sessions that no index knows as they are: each is read from its source, and every document of it compared.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use filrouge_sources::library::Entry;
use filrouge_sources::{Conversation, Library, LibraryError, ReadError};

use super::asked::Asked;
use super::found::{Everything, Found};
use super::texts::{Texts, Whole};
use crate::rank::Evidence;

/// How many sessions are read through the cache: more would only drive out what is in it.
const CACHED: usize = 32;
/// How many threads read sessions.
const READERS: usize = 2;

/// What came of reading.
#[derive(Default)]
struct Read<'c> {
    found: Vec<Found<'c>>,
    /// How many sessions could not be read, or not completely.
    unread: usize,
    /// Why a source does not answer, by its place: of it no further session is asked.
    failed: HashMap<usize, String>,
}

/// Adds the sessions that hold what is looked for.
pub(super) fn read<'c>(
    library: &Library,
    asked: &Asked<'_>,
    entries: &[&'c Entry],
    all: &mut Everything<'c>,
) {
    let (next, read) = (AtomicUsize::new(0), Mutex::new(Read::default()));
    let cached = entries.len() <= CACHED;
    let work = || {
        while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
            if (asked.stopped)() {
                return;
            }
            if locked(&read).failed.contains_key(&entry.source) {
                continue;
            }
            let one = of_session(library, asked, entry, cached);
            locked(&read).take(entry, one);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..READERS.min(entries.len()) {
            scope.spawn(work);
        }
        work();
    });
    let read = read.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sessions.extend(read.found);
    let notices = &mut all.told.notices;
    if read.unread > 0 {
        let text = "sessions that could not be read, or not completely:";
        notices.push(format!("{text} {}", read.unread));
    }
    for (at, why) in read.failed {
        if let Some(source) = library.sources().get(at) {
            let (name, generation) = (source.name(), source.generation());
            notices.push(format!("{name} ({generation}) cannot be searched: {why}"));
        }
    }
}

impl<'c> Read<'c> {
    fn take(&mut self, entry: &'c Entry, read: Result<(Evidence, bool), ReadError>) {
        match read {
            Ok((evidence, whole)) => {
                self.unread += usize::from(!whole);
                if evidence.matches > 0 {
                    self.found.push(Found::read(entry, evidence));
                }
            }
            // What was deleted meanwhile holds nothing.
            Err(ReadError::Gone) => {}
            Err(ReadError::Skipped(_)) => self.unread += 1,
            Err(ReadError::Unavailable(why)) => drop(self.failed.insert(entry.source, why)),
        }
    }
}

/// What speaks for a session, and whether nothing of it was left out.
fn of_session(
    library: &Library,
    asked: &Asked<'_>,
    entry: &Entry,
    cached: bool,
) -> Result<(Evidence, bool), ReadError> {
    if cached {
        return match library.conversation(entry) {
            Ok(conversation) => Ok(of_conversation(asked, entry, &conversation)),
            Err(LibraryError::Unreadable(_, why)) => Err(why),
            Err(_) => Err(ReadError::Gone),
        };
    }
    let source = library.sources().get(entry.source);
    let conversation = source.ok_or(ReadError::Gone)?.read(&entry.header.id)?;
    Ok(of_conversation(asked, entry, &conversation))
}

fn of_conversation(asked: &Asked<'_>, entry: &Entry, of: &Conversation) -> (Evidence, bool) {
    let header = &entry.header;
    let whole = Whole::of(header, of, asked.looks_at_titles());
    let mut all = Evidence::NONE;
    // It is in memory: nothing fails.
    let _ = whole.read(&whole.candidates(), &mut |_, spoken| {
        if let Some(evidence) = asked.weigh(header.agent.as_deref(), spoken) {
            all.add(evidence);
        }
        !(asked.stopped)()
    });
    (all, of.skipped.is_empty())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
