//! Removes documents without a trace, so that no page of any file contains any part of them: SQLite zeroes the deleted
//! rows, the documents' numbers are removed from postings, and the write-ahead log is checkpointed and truncated.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use filrouge_store::text_index::{DocumentNo, IndexKey};
use filrouge_types::{ErrorCode, Failure};
use rusqlite::Connection;

use super::apply::IndexChange;
use super::blocks;
use super::files::IndexFile;
use super::log;
use super::rows::{execute, query_all, query_optional, session_of};
use super::segments::Segment;

/// How long [`truncate_log`] waits for readers of an older state, which prevent the truncation of the log.
const READERS_TIMEOUT: Duration = Duration::from_secs(5);
/// The time between two attempts of [`truncate_log`] to truncate the log.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Removes a session's documents from all tables; returns the number of its current documents. Traces stay in the
/// write-ahead log until [`truncate_log`].
pub(super) fn forget(
    conn: &Connection,
    seal_key: Option<&IndexKey>,
    (realm, key): (&[u8], &str),
) -> Result<u64, Failure> {
    execute(
        conn,
        "UPDATE state SET forgotten = forgotten + 1, erasing = 1",
        [],
    )?;
    let mut change = IndexChange::begin(conn, seal_key)?;
    let session = session_of(conn, realm, key)?;
    let count = match &session {
        Some(session) => change.forget_session(session)?,
        None => 0,
    };
    // The table `gone` lists documents that were removed earlier and may still be in postings. Without the session's
    // row, the session's documents cannot be distinguished from those of other removed sessions of the realm, so all of
    // these are removed from the postings. Others may have changed the table: documents that exist are kept.
    let removed: Vec<(i64, i64)> = match session {
        Some(session) => {
            let sql = "SELECT shard, document FROM gone WHERE session = ?1
                AND NOT EXISTS (SELECT 1 FROM document d WHERE d.id = gone.document)";
            query_all(conn, sql, [session.no], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?
        }
        None => {
            let sql = "SELECT g.shard, g.document FROM gone g JOIN shard h ON h.id = g.shard WHERE h.realm = ?1
                AND NOT EXISTS (SELECT 1 FROM session s WHERE s.id = g.session)
                AND NOT EXISTS (SELECT 1 FROM document d WHERE d.id = g.document)";
            query_all(conn, sql, [realm], |row| Ok((row.get(0)?, row.get(1)?)))?
        }
    };
    let mut by_shard: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
    for (shard, document) in removed {
        by_shard
            .entry(shard)
            .or_default()
            .push(document.cast_unsigned());
    }
    for (shard, mut documents) in by_shard {
        documents.sort_unstable();
        remove_from_postings(&mut change, shard, &documents)?;
        let sql = "DELETE FROM gone WHERE shard = ?1 AND document = ?2";
        for document in documents {
            execute(conn, sql, [shard, document.cast_signed()])?;
        }
    }
    change.finish(None)?;
    Ok(count)
}

/// Removes documents, given in ascending order, from all postings of a shard.
fn remove_from_postings(
    change: &mut IndexChange<'_>,
    shard: i64,
    documents: &[DocumentNo],
) -> Result<(), Failure> {
    let (Some(first), Some(last)) = (documents.first(), documents.last()) else {
        return Ok(());
    };
    for segment in Segment::all(change.conn, shard)? {
        if segment.first <= *last && segment.last >= *first {
            let segment = segment.open(change.key)?;
            blocks::remove(change.conn, &segment, documents)?;
            change.seal_segment(&segment)?;
        }
    }
    Ok(())
}

/// Checkpoints and truncates the write-ahead log, so that its pages contain no traces either.
///
/// # Errors
/// `store_unavailable` when a reader of an older state is still active after [`READERS_TIMEOUT`]. The next opening,
/// maintenance step or removal retries.
pub(super) fn truncate_log(file: &IndexFile) -> Result<(), Failure> {
    let deadline = Instant::now() + READERS_TIMEOUT;
    loop {
        if log::truncate(file)? {
            return file.write(|tx| execute(tx, "UPDATE state SET erasing = 0", []).map(|_| ()));
        }
        if Instant::now() >= deadline {
            let detail = "a reader of the search index prevents the truncation of its log";
            return Err(Failure::new(ErrorCode::StoreUnavailable, detail).with_hint(
                "the content is no longer found; retry to remove its last traces from the file",
            ));
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}

/// Whether [`truncate_log`] is due: the write-ahead log may still contain traces of removed documents.
pub(super) fn is_due(conn: &Connection) -> Result<bool, Failure> {
    let due = query_optional(conn, "SELECT erasing FROM state", [], |row| {
        row.get::<_, i64>(0)
    })?;
    Ok(due.is_some_and(|due| due != 0))
}
