//! Compares an index with its source: a session is fresh if it was indexed with the fingerprint that the source lists
//! now.

use std::collections::HashMap;
use std::sync::Arc;

use filrouge_sources::library::Listed;
use filrouge_sources::{Header, Source, SourceError, on_two_threads};
use filrouge_store::text_index::{IndexedSession, SessionNo, SessionSelection, TextIndex};
use filrouge_types::{ErrorCode, Failure, Timestamp};

use super::{digest, index_scope};

/// The value of [`filrouge_store::text_index::SessionEntry::updated`] for a session that could not be fully read. Until
/// its stamp changes, every search reads this session from the source.
pub(super) const INCOMPLETE: i64 = i64::MIN;

/// The sessions that an index covers at one moment.
#[derive(Debug, Clone)]
pub struct IndexSnapshot {
    /// The sessions whose current state is indexed, with their numbers in the index.
    pub fresh: HashMap<Box<str>, SessionNo>,
    /// The other sessions of the source: searches must read them from the source.
    pub stale: Vec<Box<str>>,
    /// The number of stale sessions that can be indexed; the others have no fingerprint, or cannot be fully read.
    pub pending: usize,
    /// The time at which the source was listed for this snapshot.
    pub as_of: Timestamp,
    /// The reason why no session is fresh: the index or the source does not answer.
    pub failed: Option<Failure>,
}

/// Two threads compute the sessions' stamps if each has at least this many.
const SESSIONS_PER_THREAD: usize = 16;

/// An index compared with a listing.
pub(super) struct Comparison {
    pub(super) snapshot: Arc<IndexSnapshot>,
    /// The sessions to read, the most recently changed first.
    pub(super) to_read: Vec<SessionToRead>,
    /// The sessions of the index that no longer exist.
    pub(super) removed: Vec<Box<str>>,
}

/// A session to be read.
pub(super) struct SessionToRead {
    pub(super) header: Arc<Header>,
    /// The stamp to store: a hash of the session's fingerprint and header.
    pub(super) stamp: [u64; 2],
}

/// Compares an index with a listing of its source.
pub(super) fn compare(
    index: &dyn TextIndex,
    source: &dyn Source,
    listed: &Listed,
    now: Timestamp,
) -> Result<Comparison, Failure> {
    let age = listed.began.elapsed().as_millis();
    let age = i64::try_from(age).unwrap_or(i64::MAX);
    let as_of = Timestamp::from_millis(now.as_millis().saturating_sub(age)).unwrap_or(now);
    // What is damaged is then missing from the index, so that searches read it from the source.
    if let Err(why) = index.verify(&index_scope()) {
        tracing::warn!(source = source.name(), %why, "the index of a history could not be used");
    }
    let sessions = index
        .state(SessionSelection::Within(&index_scope()))?
        .sessions;
    let mut indexed: HashMap<&str, &IndexedSession> =
        sessions.iter().map(|s| (&*s.entry.key, s)).collect();
    let mut fresh = HashMap::with_capacity(indexed.len());
    let (mut stale, mut to_read) = (Vec::new(), Vec::new());
    let headers = &listed.listing.headers;
    let stamps = on_two_threads(headers, SESSIONS_PER_THREAD, |header| {
        digest::stamp(source.fingerprint(header), header)
    });
    for (header, stamp) in headers.iter().zip(stamps) {
        match indexed.remove(&*header.id) {
            Some(session) if Some(session.entry.stamp) == stamp => match session.entry.updated {
                INCOMPLETE => stale.push(header.id.clone()),
                _ => drop(fresh.insert(header.id.clone(), session.no)),
            },
            _ => {
                stale.push(header.id.clone());
                // A session without a fingerprint is not indexed.
                to_read.extend(stamp.map(|stamp| SessionToRead {
                    header: header.clone(),
                    stamp,
                }));
            }
        }
    }
    // Recent sessions are the most likely to be searched for.
    to_read.sort_by_key(|session| std::cmp::Reverse(session.header.updated));
    let snapshot = IndexSnapshot {
        fresh,
        stale,
        pending: to_read.len(),
        as_of,
        failed: None,
    };
    Ok(Comparison {
        snapshot: Arc::new(snapshot),
        to_read,
        removed: indexed.into_keys().map(Into::into).collect(),
    })
}

/// Returns the failure for a source that cannot be listed.
pub(crate) fn listing_failure(why: &SourceError) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, why.to_string())
        .with_hint("check that it exists and that filrouge may read it")
}
