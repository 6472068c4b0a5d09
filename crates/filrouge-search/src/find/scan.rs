//! Scans the sessions whose current state no index contains: each is read from its source, and all its documents are
//! compared with the query.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use filrouge_sources::library::Entry;
use filrouge_sources::{Conversation, Library, LibraryError, ReadError, on_two_threads};

use super::found::{Found, FoundSessions};
use super::query::PreparedQuery;
use super::texts::session_documents;
use crate::rank::Evidence;

/// Sessions are read through the library's cache if there are at most this many; more would only evict its entries.
const CACHED: usize = 32;

/// Adds those of the sessions `entries` that match to `all`, and notices about what could not be read.
pub(super) fn add_matches<'c>(
    library: &Library,
    query: &PreparedQuery<'_>,
    entries: &[&'c Entry],
    all: &mut FoundSessions<'c>,
) {
    let (cached, failed) = (entries.len() <= CACHED, Mutex::new(HashMap::new()));
    let sessions = on_two_threads(entries, 1, |entry| {
        // A source that did not answer is not read again in this search.
        if (query.stopped)() || locked(&failed).contains_key(&entry.source) {
            return None;
        }
        match of_session(library, query, entry, cached) {
            Ok(read) => Some(read),
            // A session that was deleted meanwhile does not match.
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
    let notices = &mut all.remarks.notices;
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

/// Reads a session; returns its evidence, and whether all of it could be read.
fn of_session(
    library: &Library,
    query: &PreparedQuery<'_>,
    entry: &Entry,
    cached: bool,
) -> Result<(Evidence, bool), ReadError> {
    if cached {
        return match library.conversation(entry) {
            Ok(conversation) => Ok(of_conversation(query, entry, &conversation)),
            Err(LibraryError::Unreadable(_, why)) => Err(why),
            Err(_) => Err(ReadError::Gone),
        };
    }
    let source = library.sources().get(entry.source);
    let conversation = source.ok_or(ReadError::Gone)?.read(&entry.header.id)?;
    Ok(of_conversation(query, entry, &conversation))
}

fn of_conversation(
    query: &PreparedQuery<'_>,
    entry: &Entry,
    conversation: &Conversation,
) -> (Evidence, bool) {
    let header = &entry.header;
    let mut all = Evidence::NONE;
    for doc in session_documents(header, conversation, query.searches_titles()) {
        if (query.stopped)() {
            break;
        }
        if let Some(evidence) = query.weigh(header.agent.as_deref(), &doc) {
            all.add(evidence);
        }
    }
    (all, conversation.skipped.is_empty())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
