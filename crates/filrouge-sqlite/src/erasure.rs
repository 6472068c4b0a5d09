//! Removes redacted content from the WAL (docs/format.md §SQLite).
//!
//! Redaction rewrites pages, and `secure_delete` leaves no content in their free space; but the WAL keeps the old
//! pages until it is emptied. A redaction therefore notes its commit in the store, and the note is deleted once the
//! WAL has been emptied: when a process dies in between, the next one finishes the work.

use std::time::Duration;

use filrouge_types::Failure;
use rusqlite::{Connection, OptionalExtension};

use crate::error::{failure, is_io_failure};

/// The maximum time that the first attempt waits for readers before the redaction is answered; later attempts do not
/// wait.
const READERS_TIMEOUT: Duration = Duration::from_millis(500);

/// Redactions whose contents may still be in the WAL.
pub(crate) struct Erasure {
    /// The newest redaction's commit, as noted in the store.
    pending: Option<String>,
    busy_timeout: Duration,
}

/// Notes, in the transaction of commit `commit_no`, that this commit erases contents.
pub(crate) fn note(conn: &Connection, commit_no: u64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO store (name, value) VALUES ('erasing', ?1)
         ON CONFLICT DO UPDATE SET value = ?1";
    conn.prepare_cached(sql)?.execute([commit_no.to_string()])?;
    Ok(())
}

impl Erasure {
    /// Finishes the erasure that an ended process left unfinished.
    pub(crate) fn resume(conn: &Connection, busy_timeout: Duration) -> Result<Self, Failure> {
        let mut erasure = Self {
            pending: read_note(conn).map_err(failure)?,
            busy_timeout,
        };
        if erasure.pending.is_some() {
            erasure.attempt(conn, READERS_TIMEOUT).map_err(failure)?;
        }
        Ok(erasure)
    }

    /// Empties the WAL after the commit of a redaction; waits up to [`READERS_TIMEOUT`] for readers that prevent it.
    pub(crate) fn begin(&mut self, conn: &Connection, commit_no: u64) -> rusqlite::Result<()> {
        self.pending = Some(commit_no.to_string());
        self.attempt(conn, READERS_TIMEOUT)
    }

    /// Takes over a note that another process has written; that process may have exited before emptying the WAL.
    pub(crate) fn take_over(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if self.pending.is_none() {
            self.pending = read_note(conn)?;
        }
        Ok(())
    }

    /// Retries emptying the WAL, if readers prevented it.
    pub(crate) fn retry_pending(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        match self.pending {
            Some(_) => self.attempt(conn, Duration::ZERO),
            None => Ok(()),
        }
    }

    /// Empties the WAL when the writer stops; waits up to [`READERS_TIMEOUT`] for readers.
    pub(crate) fn finish(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        self.attempt(conn, READERS_TIMEOUT)
    }

    fn attempt(&mut self, conn: &Connection, timeout: Duration) -> rusqlite::Result<()> {
        conn.busy_timeout(timeout)?;
        let emptied = empty(conn);
        conn.busy_timeout(self.busy_timeout)?;
        let done = emptied.and_then(|emptied| match &self.pending {
            Some(note) if emptied => delete_note(conn, note).map(|()| true),
            _ => Ok(emptied),
        });
        match done {
            Ok(true) => self.pending = None,
            Ok(false) => tracing::debug!("readers prevent emptying the WAL; it will be retried"),
            // A failed flush must reach the writer; no other error endangers the commit.
            Err(error) if is_io_failure(&error) => return Err(error),
            Err(error) => tracing::warn!(%error, "the WAL was not emptied; it will be retried"),
        }
        Ok(())
    }
}

/// The commit that the note names: the newest redaction after which the WAL has not been emptied.
fn read_note(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT value FROM store WHERE name = 'erasing'";
    conn.prepare_cached(sql)?
        .query_row([], |row| row.get(0))
        .optional()
}

/// Checkpoints the WAL and empties it; returns `false` when another connection prevents it.
fn empty(conn: &Connection) -> rusqlite::Result<bool> {
    let mut statement = conn.prepare_cached("PRAGMA wal_checkpoint(TRUNCATE)")?;
    let busy: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(busy == 0)
}

/// Deletes the note if it is still `note`. A newer one is another process's, which may not have emptied the WAL yet.
fn delete_note(conn: &Connection, note: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM store WHERE name = 'erasing' AND value = ?1";
    conn.prepare_cached(sql)?.execute([note])?;
    Ok(())
}
