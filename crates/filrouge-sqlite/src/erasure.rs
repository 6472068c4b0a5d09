//! Getting what was redacted out of the WAL (docs/format.md §SQLite).
//!
//! Redaction rewrites pages, and `secure_delete` leaves nothing in their free space; but the WAL keeps the pages as
//! they were until it is emptied. A redaction therefore notes its commit in the store, and the note goes when the
//! WAL was emptied behind it: a process that dies in between leaves the rest to the next one.

use std::time::Duration;

use filrouge_types::Failure;
use rusqlite::{Connection, OptionalExtension};

use crate::error::{failure, is_io_failure};

/// How long readers are waited for before the first answer; later attempts do not wait.
const PATIENCE: Duration = Duration::from_millis(500);

/// What was redacted and may still stand in the WAL.
pub(crate) struct Erasure {
    /// The newest redaction's commit as it is noted in the store.
    pending: Option<String>,
    busy_timeout: Duration,
}

/// Notes in the transaction of commit `commit_no` that it erases contents.
pub(crate) fn note(conn: &Connection, commit_no: u64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO store (name, value) VALUES ('erasing', ?1)
         ON CONFLICT DO UPDATE SET value = ?1";
    conn.prepare_cached(sql)?.execute([commit_no.to_string()])?;
    Ok(())
}

impl Erasure {
    /// Finishes what a process that died has left.
    pub(crate) fn resume(conn: &Connection, busy_timeout: Duration) -> Result<Self, Failure> {
        let mut erasure = Self {
            pending: noted(conn).map_err(failure)?,
            busy_timeout,
        };
        if erasure.pending.is_some() {
            erasure.attempt(conn, PATIENCE).map_err(failure)?;
        }
        Ok(erasure)
    }

    /// After the commit of a redaction: waits a while for readers that hold it up.
    pub(crate) fn begin(&mut self, conn: &Connection, commit_no: u64) -> rusqlite::Result<()> {
        self.pending = Some(commit_no.to_string());
        self.attempt(conn, PATIENCE)
    }

    /// Takes over what another process has noted since and may have gone away from.
    pub(crate) fn take_over(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if self.pending.is_none() {
            self.pending = noted(conn)?;
        }
        Ok(())
    }

    /// Tries again what readers have held up.
    pub(crate) fn try_again(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        match self.pending {
            Some(_) => self.attempt(conn, Duration::ZERO),
            None => Ok(()),
        }
    }

    /// At the end: empties the WAL, which waits for readers no longer than a redaction does.
    pub(crate) fn finish(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        self.attempt(conn, PATIENCE)
    }

    fn attempt(&mut self, conn: &Connection, patience: Duration) -> rusqlite::Result<()> {
        conn.busy_timeout(patience)?;
        let emptied = empty(conn);
        conn.busy_timeout(self.busy_timeout)?;
        let done = emptied.and_then(|emptied| match &self.pending {
            Some(noted) if emptied => forget(conn, noted).map(|()| true),
            _ => Ok(emptied),
        });
        match done {
            Ok(true) => self.pending = None,
            Ok(false) => tracing::debug!("the emptying of the WAL is held up; it is tried again"),
            // A failed flush must reach the writer; the commit itself is safe from all else.
            Err(error) if is_io_failure(&error) => return Err(error),
            Err(error) => tracing::warn!(%error, "the WAL was not emptied; it is tried again"),
        }
        Ok(())
    }
}

/// The newest redaction's commit behind which the WAL was not emptied yet.
fn noted(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT value FROM store WHERE name = 'erasing'";
    conn.prepare_cached(sql)?
        .query_row([], |row| row.get(0))
        .optional()
}

/// Copies the WAL back and empties it; `false` when somebody else holds it up.
fn empty(conn: &Connection) -> rusqlite::Result<bool> {
    let mut statement = conn.prepare_cached("PRAGMA wal_checkpoint(TRUNCATE)")?;
    let busy: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(busy == 0)
}

/// Takes the note away; a newer one is another process's, which may not have emptied the WAL behind it yet.
fn forget(conn: &Connection, noted: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM store WHERE name = 'erasing' AND value = ?1";
    conn.prepare_cached(sql)?.execute([noted])?;
    Ok(())
}
