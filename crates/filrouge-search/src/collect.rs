//! Which sessions hold what is looked for, and how often: each is read from its source.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::filter::Filter;
use crate::find::rank::Evidence;
use crate::find::weigh::{Words, weigh};
use crate::matcher::Matcher;
use crate::spoken::Spoken;
use filrouge_sources::library::Entry;
use filrouge_sources::{Conversation, Header, Library, LibraryError, ReadError, Source};

/// How many sessions are read through the cache: more would only drive out what is in it.
const CACHED: usize = 32;
/// How many threads read sessions.
const READERS: usize = 2;

/// What is to be found, and where.
pub(crate) struct Search<'a> {
    pub(crate) library: &'a Library,
    pub(crate) matcher: &'a Matcher<'a>,
    pub(crate) words: &'a Words,
    pub(crate) filter: &'a Filter<'a>,
    pub(crate) stopped: &'a (dyn Fn() -> bool + Sync),
}

/// What was found.
#[derive(Default)]
pub(crate) struct Collected {
    /// What speaks for each session, by its place among the entries.
    pub(crate) matches: HashMap<usize, Evidence>,
    /// The sessions that could not be read, or not completely, by their places among the entries.
    unread: HashSet<usize>,
    /// What could not be looked through, in words.
    pub(crate) notices: Vec<String>,
}

impl Search<'_> {
    pub(crate) fn collect(&self, entries: &[&Entry]) -> Collected {
        let mut collected = Collected::default();
        self.read_all(entries, &mut collected);
        for (place, entry) in entries.iter().enumerate() {
            if let Some(evidence) = self.of_title(&entry.header) {
                let found = collected.matches.entry(place);
                found.or_insert(Evidence::NONE).add(evidence);
            }
        }
        collected.matches.retain(|_, found| found.matches > 0);
        if !collected.unread.is_empty() {
            let unread = collected.unread.len();
            let text = format!("sessions that could not be read, or not completely: {unread}");
            collected.notices.push(text);
        }
        collected
    }

    /// What speaks for the title, if it holds what is looked for.
    fn of_title(&self, header: &Header) -> Option<Evidence> {
        let looked_for = self.matcher.wanted != 0 && self.filter.lets_title(header);
        let title = Spoken::of_title(header).filter(|_| looked_for)?;
        weigh(self.matcher, self.words, &title)
    }

    /// Whether the title holds what is looked for.
    pub(crate) fn title_matches(&self, header: &Header) -> bool {
        self.of_title(header).is_some()
    }

    /// The messages of a session that hold what is looked for, as they were said.
    pub(crate) fn messages<'c>(
        &self,
        header: &Header,
        conversation: &'c Conversation,
    ) -> impl Iterator<Item = Spoken<'c>> {
        let mut messages: Vec<_> = conversation.messages.iter().collect();
        messages.sort_by_key(|message| message.created);
        let messages = messages.into_iter();
        let messages = messages.filter(move |m| self.filter.lets_message(header, m));
        let messages = messages.map(Spoken::of);
        messages.filter(|spoken| self.matcher.is_in(spoken))
    }

    /// Reads the sessions and counts what matches in each.
    fn read_all(&self, entries: &[&Entry], collected: &mut Collected) {
        let (next, counts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        // Of a source that does not answer no further session is asked.
        let failed: Mutex<HashMap<usize, String>> = Mutex::default();
        let cached = entries.len() <= CACHED;
        let work = || {
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(entry) = entries.get(place).filter(|_| !(self.stopped)()) else {
                    return;
                };
                if lock(&failed).contains_key(&entry.source) {
                    continue;
                }
                match self.count(entry, cached) {
                    Ok(count) => lock(&counts).push((place, Some(count))),
                    // What was deleted meanwhile holds nothing.
                    Err(ReadError::Gone) => {}
                    Err(ReadError::Skipped(_)) => lock(&counts).push((place, None)),
                    Err(ReadError::Unavailable(why)) => {
                        lock(&failed).insert(entry.source, why);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..READERS.min(entries.len()) {
                scope.spawn(work);
            }
            work();
        });
        for (place, count) in counts.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let whole = count.is_some_and(|(_, whole)| whole);
            if let Some((evidence, _)) = count {
                collected.matches.insert(place, evidence);
            }
            if !whole {
                collected.unread.insert(place);
            }
        }
        for (at, why) in failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            if let Some(source) = self.library.sources().get(at) {
                collected.notices.push(unsearched(&**source, &why));
            }
        }
    }

    /// What speaks for a session, and whether nothing of it was left out.
    fn count(&self, entry: &Entry, cached: bool) -> Result<(Evidence, bool), ReadError> {
        let count = |of: &Conversation| {
            let messages = self.messages(&entry.header, of);
            let evidence = messages.filter_map(|one| weigh(self.matcher, self.words, &one));
            (Evidence::of_all(evidence), of.skipped.is_empty())
        };
        if cached {
            return match self.library.conversation(entry) {
                Ok(conversation) => Ok(count(&conversation)),
                Err(LibraryError::Unreadable(_, why)) => Err(why),
                Err(_) => Err(ReadError::Gone),
            };
        }
        let source = self.library.sources().get(entry.source);
        let source = source.ok_or(ReadError::Gone)?;
        Ok(count(&source.read(&entry.header.id)?))
    }
}

fn unsearched(source: &dyn Source, why: &str) -> String {
    format!(
        "{} ({}) cannot be searched: {why}",
        source.name(),
        source.generation()
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
