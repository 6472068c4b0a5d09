//! The log, and pages of the file that nothing needs any more: how they are given back.

use filrouge_types::Failure;
use rusqlite::{Connection, Transaction};

use super::files::Files;
use crate::error::{failure, is_busy, is_io_failure};

/// So many free pages, and one in so many, stay for what comes next.
const FREE_PAGES: i64 = 32;
const FREE_SHARE: i64 = 32;
/// So many pages are given back in a step.
const STEP_PAGES: i64 = 128;

/// Copies the log back and cuts it; whether all of it could be. Waits for nobody.
pub(super) fn cut(files: &Files) -> Result<bool, Failure> {
    files.with_writer(|conn| {
        conn.busy_timeout(std::time::Duration::ZERO)
            .map_err(failure)?;
        let busy = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            row.get::<_, i64>(0)
        });
        conn.busy_timeout(files.busy_timeout()).map_err(failure)?;
        match busy {
            Err(error) if is_busy(&error) => Ok(false),
            // What is committed is committed: only what leaves the files in doubt must reach whoever changed them.
            Err(error) if !is_io_failure(&error) => {
                tracing::warn!(%error, "the log of the search index was not copied back; it is tried again");
                Ok(false)
            }
            busy => Ok(busy.map_err(failure)? == 0),
        }
    })
}

fn count(conn: &Connection, of: &str) -> Result<i64, Failure> {
    conn.pragma_query_value(None, of, |row| row.get(0))
        .map_err(failure)
}

/// Gives some free pages back, if there are many; whether there may be more.
pub(super) fn shrink(tx: &Transaction<'_>) -> Result<bool, Failure> {
    let keep = FREE_PAGES.max(count(tx, "page_count")? / FREE_SHARE);
    let free = count(tx, "freelist_count")? - keep;
    if free <= 0 {
        return Ok(false);
    }
    give_back(tx, free.min(STEP_PAGES))?;
    Ok(free > STEP_PAGES)
}

/// Gives so many free pages back; 0: all.
pub(super) fn give_back(tx: &Transaction<'_>, pages: i64) -> Result<(), Failure> {
    let sql = format!("PRAGMA incremental_vacuum({pages})");
    let mut statement = tx.prepare(&sql).map_err(failure)?;
    // One row, without columns, for each page.
    let mut rows = statement.query([]).map_err(failure)?;
    while rows.next().map_err(failure)?.is_some() {}
    Ok(())
}
