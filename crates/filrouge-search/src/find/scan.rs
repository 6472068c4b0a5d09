//! Scans the sessions whose current state no index contains: each is read from its source, and all its documents are
//! compared with the query.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use filrouge_sources::library::Entry;
use filrouge_sources::{Conversation, Library, LibraryError, ReadError, on_two_threads};
use filrouge_types::lock;

use super::found::{FoundSession, FoundSessions};
use super::ledger::LEDGER_NAME;
use super::query::PreparedQuery;
use crate::rank::Evidence;
use crate::texts::session_documents;

/// Sessions are read through the library's cache if there are at most this many; more would only evict its entries.
const MAX_CACHED: usize = 32;

/// Scans the sessions `entries`, and adds the matching ones to `all`. Adds notices about sessions that could not be
/// read.
pub(super) fn add_matches<'c>(
    library: &Library,
    query: &PreparedQuery<'_>,
    entries: &[&'c Entry],
    all: &mut FoundSessions<'c>,
) {
    let (cached, failed) = (entries.len() <= MAX_CACHED, Mutex::new(HashMap::new()));
    let sessions = on_two_threads(entries, 1, |entry| {
        // A source that did not answer is not read again in this search.
        if (query.stopped)() || lock(&failed).contains_key(&entry.source) {
            return None;
        }
        match scan_session(library, query, entry, cached) {
            Ok(result) => Some(result),
            // A session that was deleted meanwhile does not match.
            Err(ReadError::Gone) => None,
            Err(ReadError::Skipped(_)) => Some((Evidence::NONE, false)),
            Err(ReadError::Unavailable(why)) => {
                lock(&failed).insert(entry.source, why);
                None
            }
        }
    });
    let mut incomplete = 0;
    for (entry, result) in entries.iter().zip(sessions) {
        let Some((evidence, is_complete)) = result else {
            continue;
        };
        incomplete += usize::from(!is_complete);
        all.remarks.lacks_sessions |= !is_complete && entry.header.source == LEDGER_NAME;
        if evidence.matches > 0 {
            all.sessions
                .push(FoundSession::from_source(entry, evidence));
        }
    }
    let notices = &mut all.remarks.notices;
    if incomplete > 0 {
        let text = "sessions that could not be read, or not completely:";
        notices.push(format!("{text} {incomplete}"));
    }
    for (at, why) in failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        if let Some(source) = library.sources().get(at) {
            let name = source.name();
            notices.push(format!("{name} cannot be searched: {why}"));
        }
    }
}

/// Reads a session; returns its evidence, and whether all of it could be read.
fn scan_session(
    library: &Library,
    query: &PreparedQuery<'_>,
    entry: &Entry,
    cached: bool,
) -> Result<(Evidence, bool), ReadError> {
    if cached {
        return match library.conversation(entry) {
            Ok(conversation) => Ok(scan_conversation(query, entry, &conversation)),
            Err(LibraryError::Unreadable(_, why)) => Err(why),
            Err(_) => Err(ReadError::Gone),
        };
    }
    let source = library.sources().get(entry.source);
    let conversation = source.ok_or(ReadError::Gone)?.read(&entry.header.id)?;
    Ok(scan_conversation(query, entry, &conversation))
}

fn scan_conversation(
    query: &PreparedQuery<'_>,
    entry: &Entry,
    conversation: &Conversation,
) -> (Evidence, bool) {
    let header = &entry.header;
    let mut evidence = Evidence::NONE;
    for doc in session_documents(header, conversation, query.searches_titles()) {
        if (query.stopped)() {
            break;
        }
        if let Some(found) = query.weigh(header.agent.as_deref(), &doc) {
            evidence.add(found);
        }
    }
    (evidence, conversation.skipped.is_empty())
}
