//! Sessions that no index knows as they are: each is read from its source, and every document of it compared.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use filrouge_sources::library::Entry;
use filrouge_sources::{Conversation, Library, LibraryError, ReadError, by_two};

use super::asked::Asked;
use super::found::{Everything, Found};
use super::texts::whole;
use crate::rank::Evidence;

/// How many sessions are read through the cache: more would only drive out what is in it.
const CACHED: usize = 32;

/// Adds the sessions that hold what is looked for.
pub(super) fn read<'c>(
    library: &Library,
    asked: &Asked<'_>,
    entries: &[&'c Entry],
    all: &mut Everything<'c>,
) {
    let (cached, failed) = (entries.len() <= CACHED, Mutex::new(HashMap::new()));
    let sessions = by_two(entries, 1, |entry| {
        // Of a source that does not answer no further session is asked.
        if (asked.stopped)() || locked(&failed).contains_key(&entry.source) {
            return None;
        }
        match of_session(library, asked, entry, cached) {
            Ok(read) => Some(read),
            // What was deleted meanwhile holds nothing.
            Err(ReadError::Gone) => None,
            Err(ReadError::Skipped(_)) => Some((Evidence::NONE, false)),
            Err(ReadError::Unavailable(why)) => {
                locked(&failed).insert(entry.source, why);
                None
            }
        }
    });
    let mut unread = 0;
    for (entry, read) in entries.iter().zip(sessions) {
        let Some((evidence, whole)) = read else {
            continue;
        };
        unread += usize::from(!whole);
        if evidence.matches > 0 {
            all.sessions.push(Found::read(entry, evidence));
        }
    }
    let notices = &mut all.told.notices;
    if unread > 0 {
        let text = "sessions that could not be read, or not completely:";
        notices.push(format!("{text} {unread}"));
    }
    for (at, why) in failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        if let Some(source) = library.sources().get(at) {
            let name = source.name();
            notices.push(format!("{name} cannot be searched: {why}"));
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
    let mut all = Evidence::NONE;
    for spoken in whole(header, of, asked.looks_at_titles()) {
        if (asked.stopped)() {
            break;
        }
        if let Some(evidence) = asked.weigh(header.agent.as_deref(), &spoken) {
            all.add(evidence);
        }
    }
    (all, of.skipped.is_empty())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
