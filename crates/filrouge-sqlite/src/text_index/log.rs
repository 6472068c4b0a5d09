//! Truncates SQLite's write-ahead log, and returns unused pages of the index file to the file system.

use filrouge_types::Failure;
use rusqlite::{Connection, Transaction};

use super::files::IndexFile;
use crate::error::{failure, is_busy, is_io_failure};

/// The number of free pages kept for later writes: the larger of `FREE_PAGES` and one `FREE_SHARE`th of the file's
/// pages.
const FREE_PAGES: i64 = 32;
const FREE_SHARE: i64 = 32;
/// The maximum number of pages that one call of [`shrink`] returns to the file system.
const STEP_PAGES: i64 = 128;

/// Checkpoints the log and truncates it, without waiting for readers. Returns false if readers or an error prevented
/// this; the caller then retries later.
///
/// # Errors
/// A failed flush or another I/O error.
pub(super) fn truncate(file: &IndexFile) -> Result<bool, Failure> {
    file.with_writer(|conn| {
        conn.busy_timeout(std::time::Duration::ZERO)
            .map_err(failure)?;
        let busy = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            row.get::<_, i64>(0)
        });
        conn.busy_timeout(file.busy_timeout()).map_err(failure)?;
        match busy {
            Err(error) if is_busy(&error) => Ok(false),
            // All earlier commits have succeeded. Only an I/O error, after which the state of the files is unknown,
            // must reach the caller.
            Err(error) if !is_io_failure(&error) => {
                tracing::warn!(%error, "the log of the search index was not copied back; it will be retried");
                Ok(false)
            }
            busy => Ok(busy.map_err(failure)? == 0),
        }
    })
}

fn pragma_value(conn: &Connection, pragma: &str) -> Result<i64, Failure> {
    conn.pragma_query_value(None, pragma, |row| row.get(0))
        .map_err(failure)
}

/// Returns up to [`STEP_PAGES`] free pages to the file system, if there are more than the number kept for later writes.
/// Returns whether there are still more.
pub(super) fn shrink(tx: &Transaction<'_>) -> Result<bool, Failure> {
    let kept_pages = FREE_PAGES.max(pragma_value(tx, "page_count")? / FREE_SHARE);
    let free_pages = pragma_value(tx, "freelist_count")? - kept_pages;
    if free_pages <= 0 {
        return Ok(false);
    }
    release_pages(tx, free_pages.min(STEP_PAGES))?;
    Ok(free_pages > STEP_PAGES)
}

/// Returns this many free pages to the file system; 0 means all.
pub(super) fn release_pages(tx: &Transaction<'_>, pages: i64) -> Result<(), Failure> {
    let sql = format!("PRAGMA incremental_vacuum({pages})");
    let mut statement = tx.prepare(&sql).map_err(failure)?;
    // The statement yields one row, without columns, for each page that it releases.
    let mut rows = statement.query([]).map_err(failure)?;
    while rows.next().map_err(failure)?.is_some() {}
    Ok(())
}
