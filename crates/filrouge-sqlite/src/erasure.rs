//! Removes redacted content from the WAL (docs/format.md §SQLite).
//!
//! A redaction rewrites pages, and `secure_delete` overwrites the old contents in them. But the WAL contains the old
//! pages until it is emptied. So a redaction writes a note with the number of its commit into the store, and the note
//! is deleted once the WAL has been emptied. If a process dies in between, the next one finds the note and empties the
//! WAL. An erasure of a session does the same.

use std::time::Duration;

use filrouge_types::Failure;
use rusqlite::{Connection, OptionalExtension};

use crate::error::{failure, is_io_failure};

/// The maximum time that the attempt directly after a redaction waits for readers, before the redaction is answered.
/// Retries do not wait.
const READERS_TIMEOUT: Duration = Duration::from_millis(500);

/// Redactions whose contents may still be in the WAL.
pub(crate) struct Erasure {
    /// The commit that the note names; `None` if there is no note.
    pending_commit: Option<String>,
    busy_timeout: Duration,
}

/// Writes the note in the transaction of the commit `commit_no`, which erases contents.
pub(crate) fn write_note(conn: &Connection, commit_no: u64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO store (name, value) VALUES ('erasing', ?1)
         ON CONFLICT DO UPDATE SET value = ?1";
    conn.prepare_cached(sql)?.execute([commit_no.to_string()])?;
    Ok(())
}

impl Erasure {
    /// Reads the note when a store is opened, and empties the WAL if an ended process left it.
    pub(crate) fn resume(conn: &Connection, busy_timeout: Duration) -> Result<Self, Failure> {
        let mut erasure = Self {
            pending_commit: read_note(conn).map_err(failure)?,
            busy_timeout,
        };
        if erasure.pending_commit.is_some() {
            erasure
                .try_empty_wal(conn, READERS_TIMEOUT)
                .map_err(failure)?;
        }
        Ok(erasure)
    }

    /// Empties the WAL after the commit of a redaction; waits up to [`READERS_TIMEOUT`] for readers that prevent this.
    pub(crate) fn begin(&mut self, conn: &Connection, commit_no: u64) -> rusqlite::Result<()> {
        self.pending_commit = Some(commit_no.to_string());
        self.try_empty_wal(conn, READERS_TIMEOUT)
    }

    /// Adopts a note that another process may have written: that process may have exited before it emptied the WAL, so
    /// this process empties it too.
    pub(crate) fn adopt_note(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if self.pending_commit.is_none() {
            self.pending_commit = read_note(conn)?;
        }
        Ok(())
    }

    /// Empties the WAL without waiting, if an earlier attempt failed. Called after each later commit.
    pub(crate) fn retry_pending(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        match self.pending_commit {
            Some(_) => self.try_empty_wal(conn, Duration::ZERO),
            None => Ok(()),
        }
    }

    /// Empties the WAL when the writer stops; waits up to [`READERS_TIMEOUT`] for readers.
    pub(crate) fn finish(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        self.try_empty_wal(conn, READERS_TIMEOUT)
    }

    /// Tries to empty the WAL, and then deletes the note. Fails only if the disk failed; any other failure is logged,
    /// and a later call retries.
    fn try_empty_wal(&mut self, conn: &Connection, timeout: Duration) -> rusqlite::Result<()> {
        conn.busy_timeout(timeout)?;
        let emptied = truncate_wal(conn);
        conn.busy_timeout(self.busy_timeout)?;
        let result = emptied.and_then(|emptied| match &self.pending_commit {
            Some(note) if emptied => delete_note(conn, note).map(|()| true),
            _ => Ok(emptied),
        });
        match result {
            Ok(true) => self.pending_commit = None,
            Ok(false) => tracing::debug!("readers prevent emptying the WAL; it will be retried"),
            // The writer must see a failed flush. No other error endangers a commit.
            Err(error) if is_io_failure(&error) => return Err(error),
            Err(error) => tracing::warn!(%error, "the WAL was not emptied; it will be retried"),
        }
        Ok(())
    }
}

/// Reads the commit that the note names: the newest one that erased contents, if the WAL was not emptied after it.
fn read_note(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT value FROM store WHERE name = 'erasing'";
    conn.prepare_cached(sql)?
        .query_row([], |row| row.get(0))
        .optional()
}

/// Checkpoints the WAL and empties it; returns `false` when another connection prevents it.
pub(crate) fn truncate_wal(conn: &Connection) -> rusqlite::Result<bool> {
    let mut statement = conn.prepare_cached("PRAGMA wal_checkpoint(TRUNCATE)")?;
    let busy: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(busy == 0)
}

/// Deletes the note if it is still `note`. Another process wrote a newer note, and may not have emptied the WAL yet.
fn delete_note(conn: &Connection, note: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM store WHERE name = 'erasing' AND value = ?1";
    conn.prepare_cached(sql)?.execute([note])?;
    Ok(())
}
