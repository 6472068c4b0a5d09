//! Which sessions an index holds as they are now: those that were indexed with the fingerprint that they are listed with.

use std::collections::HashMap;
use std::sync::Arc;

use filrouge_sources::library::Listed;
use filrouge_sources::{Header, Source, SourceError, by_two};
use filrouge_store::text_index::{IndexedSession, SessionNo, TextIndex, Which};
use filrouge_types::{ErrorCode, Failure, Timestamp};

use super::{digest, reach};

/// What [`filrouge_store::text_index::SessionEntry::updated`] is of a session that was not read completely, as it was
/// with the fingerprint of its stamp: each question reads it.
pub(super) const NOT_WHOLE: i64 = i64::MIN;

/// What is known of an index at one moment.
#[derive(Debug, Clone)]
pub struct Known {
    /// The sessions that it holds as they are, with their numbers in it.
    pub fresh: HashMap<Box<str>, SessionNo>,
    /// The others that there are: what they hold is to be read from the source.
    pub stale: Vec<Box<str>>,
    /// How many of the stale ones can be indexed; the rest cannot be read, or not completely.
    pub pending: usize,
    /// Of when this is.
    pub as_of: Timestamp,
    /// Why nothing is known: the index, or the source, does not answer.
    pub failed: Option<Failure>,
}
/// Fewer sessions than this are checked by one thread.
const SESSIONS_PER_THREAD: usize = 16;

/// An index compared with a listing.
pub(super) struct Compared {
    pub(super) known: Arc<Known>,
    /// Sessions to be read, the last changed first.
    pub(super) todo: Vec<Todo>,
    /// Sessions of the index that are no longer there.
    pub(super) gone: Vec<Box<str>>,
}

/// A session to be read.
pub(super) struct Todo {
    pub(super) header: Arc<Header>,
    /// What is to be kept of its fingerprint and its header.
    pub(super) stamp: [u64; 2],
}

/// Compares an index with a listing of its source.
pub(super) fn compare(
    index: &dyn TextIndex,
    source: &dyn Source,
    listed: &Listed,
    now: Timestamp,
) -> Result<Compared, Failure> {
    let as_of = earlier(now, listed);
    let sessions = index.known(Which::Within(&reach()))?.sessions;
    let mut there: HashMap<&str, &IndexedSession> =
        sessions.iter().map(|s| (&*s.entry.key, s)).collect();
    let mut fresh = HashMap::with_capacity(there.len());
    let (mut stale, mut todo) = (Vec::new(), Vec::new());
    let headers = &listed.listing.headers;
    let stamps = by_two(headers, SESSIONS_PER_THREAD, |header| {
        digest::stamp(source.fingerprint(header), header)
    });
    for (header, stamp) in headers.iter().zip(stamps) {
        let own = there.remove(&*header.id);
        match own {
            Some(own) if Some(own.entry.stamp) == stamp => match own.entry.updated {
                NOT_WHOLE => stale.push(header.id.clone()),
                _ => drop(fresh.insert(header.id.clone(), own.no)),
            },
            _ => {
                stale.push(header.id.clone());
                // Without a fingerprint it is not indexed.
                todo.extend(stamp.map(|stamp| Todo {
                    header: header.clone(),
                    stamp,
                }));
            }
        }
    }
    // What was worked on last is asked for first.
    todo.sort_by_key(|todo| std::cmp::Reverse(todo.header.updated));
    let known = Known {
        fresh,
        stale,
        pending: todo.len(),
        as_of,
        failed: None,
    };
    Ok(Compared {
        known: Arc::new(known),
        todo,
        gone: there.into_keys().map(Into::into).collect(),
    })
}

/// When a listing was begun.
fn earlier(now: Timestamp, listed: &Listed) -> Timestamp {
    let age = listed.began.elapsed().as_millis();
    let age = i64::try_from(age).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(age)).unwrap_or(now)
}

/// A history that cannot be listed.
pub(crate) fn unlisted(why: &SourceError) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, why.to_string())
        .with_hint("check that it is there, and may be read by whoever runs filrouge")
}
