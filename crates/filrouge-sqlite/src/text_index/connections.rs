//! The connections to an index's file.

use std::path::Path;
use std::time::Duration;

use filrouge_types::{ErrorCode, Failure};
use rusqlite::{Connection, OpenFlags};

use crate::error::failure;
use crate::open::{connect, wal_mode};

/// The page size, in bytes. A row of postings that is larger than a quarter of a page occupies pages of its own; with
/// pages of 4 KiB, an index of 8,000 messages is therefore a third larger.
const PAGE_BYTES: i64 = 16_384;
/// The size of a connection's page cache, in KiB.
pub(super) const CACHE_KIB: i64 = 16_384;
/// The log is checkpointed once it has this many pages, and its file is then truncated to this size.
const LOG_PAGES: i64 = 256;

/// A number that changes when another connection changes the file.
pub(super) fn data_version(conn: &Connection) -> Result<i64, Failure> {
    conn.pragma_query_value(None, "data_version", |row| row.get(0))
        .map_err(failure)
}

pub(super) fn reader(path: &Path, busy_timeout: Duration) -> Result<Connection, Failure> {
    let conn = connect(path, busy_timeout, OpenFlags::empty())?;
    set_read_only(&conn)?;
    Ok(conn)
}

pub(super) fn set_read_only(conn: &Connection) -> Result<(), Failure> {
    conn.pragma_update(None, "query_only", true)
        .map_err(failure)?;
    set_cache_size(conn, CACHE_KIB)
}

/// Sets the size of a connection's page cache.
pub(super) fn set_cache_size(conn: &Connection, kib: i64) -> Result<(), Failure> {
    conn.pragma_update(None, "cache_size", -kib)
        .map_err(failure)
}

pub(super) fn writer(path: &Path, busy_timeout: Duration) -> Result<Connection, Failure> {
    let conn = connect(path, busy_timeout, OpenFlags::empty())?;
    // These two settings affect only a file that is still empty.
    conn.pragma_update(None, "page_size", PAGE_BYTES)
        .and_then(|()| conn.pragma_update(None, "auto_vacuum", "INCREMENTAL"))
        .map_err(failure)?;
    let mode = wal_mode(&conn, busy_timeout)?;
    if mode != "wal" {
        let detail = format!(
            "the file system of {} does not allow WAL (got {mode})",
            path.display()
        );
        return Err(Failure::new(ErrorCode::StoreUnavailable, detail)
            .with_hint("keep the search index on a local disk"));
    }
    // `synchronous` = 1: commits are not flushed, because a commit that a power cut loses can be rebuilt from the
    // source. The file stays consistent nevertheless, and the checkpoint after a removal flushes the removal.
    for (name, value) in [
        ("synchronous", 1),
        ("secure_delete", 1),
        ("wal_autocheckpoint", LOG_PAGES),
        ("journal_size_limit", LOG_PAGES * PAGE_BYTES),
        ("cache_size", -CACHE_KIB),
    ] {
        conn.pragma_update(None, name, value).map_err(failure)?;
    }
    Ok(conn)
}
