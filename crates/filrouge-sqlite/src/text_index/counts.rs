//! The counts of each shard.

use filrouge_types::Failure;
use rusqlite::Connection;

use super::rows::{execute, query_optional};

/// The number of pending documents in a shard above which a change itself moves them into postings, instead of leaving
/// this to a later `tidy`.
const PENDING_DOCUMENTS_MAX: i64 = 256;
/// The same for the bytes of the pending documents' texts.
const PENDING_TEXT_MAX: i64 = 1 << 20;

/// The counts that the row of a shard contains.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) sessions: i64,
    /// The number of documents.
    documents: i64,
    /// The number of bytes of the documents' texts.
    text: i64,
    /// The number of documents without postings yet.
    pending: i64,
    /// The number of bytes of the pending documents' texts.
    pending_text: i64,
    /// The number of the newest document.
    newest: i64,
    /// The number of documents removed so far.
    removals: i64,
}

impl Counts {
    /// Reads the counts of a shard.
    pub(super) fn read(conn: &Connection, shard: i64) -> Result<Self, Failure> {
        let sql = "SELECT sessions, documents, text, pending, pending_text, newest, removals
            FROM shard WHERE id = ?1";
        let counts = query_optional(conn, sql, [shard], |row| {
            Ok(Self {
                sessions: row.get(0)?,
                documents: row.get(1)?,
                text: row.get(2)?,
                pending: row.get(3)?,
                pending_text: row.get(4)?,
                newest: row.get(5)?,
                removals: row.get(6)?,
            })
        })?;
        Ok(counts.unwrap_or_default())
    }

    pub(super) fn write(&self, conn: &Connection, shard: i64) -> Result<(), Failure> {
        let sql =
            "UPDATE shard SET sessions = ?2, documents = ?3, text = ?4, pending = ?5, pending_text = ?6,
            newest = ?7, removals = ?8 WHERE id = ?1";
        let row = [
            shard,
            self.sessions,
            self.documents,
            self.text,
            self.pending,
            self.pending_text,
            self.newest,
            self.removals,
        ];
        execute(conn, sql, row).map(|_| ())
    }

    /// Counts the new document `no`, whose text has `size` bytes.
    pub(super) fn count_added(&mut self, no: i64, size: i64) {
        self.documents += 1;
        self.text += size;
        self.newest = no;
    }

    /// Counts a new document as pending.
    pub(super) fn count_pending(&mut self, size: i64) {
        self.pending += 1;
        self.pending_text += size;
    }

    /// Counts a removed document; returns the removal's number.
    pub(super) fn count_removal(&mut self, size: i64, was_pending: bool) -> i64 {
        self.documents -= 1;
        self.text -= size;
        if was_pending {
            self.pending -= 1;
            self.pending_text -= size;
        }
        self.removals += 1;
        self.removals
    }

    /// Resets the pending counts after a flush.
    pub(super) fn reset_pending(&mut self) {
        (self.pending, self.pending_text) = (0, 0);
    }

    /// Whether the pending documents exceed a limit.
    pub(super) fn is_full(&self) -> bool {
        self.pending > PENDING_DOCUMENTS_MAX || self.pending_text > PENDING_TEXT_MAX
    }
}
