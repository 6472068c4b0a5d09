//! What is counted: of each shard, and which numbers were given.

use filrouge_types::Failure;
use rusqlite::Connection;

use super::rows::{one, run};
use crate::error::malformed;

/// More than this does not wait, even if nobody tidies up.
const PENDING_DOCUMENTS: i64 = 256;
const PENDING_TEXT: i64 = 1 << 20;

/// The greatest numbers that were given.
pub(super) struct Given {
    pub(super) shard: i64,
    pub(super) session: i64,
    pub(super) document: i64,
    pub(super) segment: i64,
}

impl Given {
    pub(super) fn read(conn: &Connection) -> Result<Self, Failure> {
        let sql = "SELECT last_shard, last_session, last_document, last_segment FROM state";
        let given = one(conn, sql, [], |row| {
            Ok(Self {
                shard: row.get(0)?,
                session: row.get(1)?,
                document: row.get(2)?,
                segment: row.get(3)?,
            })
        })?;
        given.ok_or_else(|| malformed("state"))
    }

    pub(super) fn write(&self, conn: &Connection) -> Result<(), Failure> {
        let sql = "UPDATE state SET last_shard = ?1, last_session = ?2, last_document = ?3, last_segment = ?4";
        let row = [self.shard, self.session, self.document, self.segment];
        run(conn, sql, row).map(|_| ())
    }
}

/// What is counted of a shard.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) sessions: i64,
    documents: i64,
    text: i64,
    pending: i64,
    pending_text: i64,
    newest: i64,
    removals: i64,
    pub(super) touched: i64,
}

impl Counts {
    pub(super) fn read(conn: &Connection, shard: i64) -> Result<Self, Failure> {
        let sql =
            "SELECT sessions, documents, text, pending, pending_text, newest, removals, touched
            FROM shard WHERE id = ?1";
        let counts = one(conn, sql, [shard], |row| {
            Ok(Self {
                sessions: row.get(0)?,
                documents: row.get(1)?,
                text: row.get(2)?,
                pending: row.get(3)?,
                pending_text: row.get(4)?,
                newest: row.get(5)?,
                removals: row.get(6)?,
                touched: row.get(7)?,
            })
        })?;
        Ok(counts.unwrap_or_default())
    }

    pub(super) fn write(&self, conn: &Connection, shard: i64) -> Result<(), Failure> {
        let sql =
            "UPDATE shard SET sessions = ?2, documents = ?3, text = ?4, pending = ?5, pending_text = ?6,
            newest = ?7, removals = ?8, touched = ?9 WHERE id = ?1";
        let row = [
            shard,
            self.sessions,
            self.documents,
            self.text,
            self.pending,
            self.pending_text,
            self.newest,
            self.removals,
            self.touched,
        ];
        run(conn, sql, row).map(|_| ())
    }

    /// A document came.
    pub(super) fn came(&mut self, no: i64, size: i64) {
        self.documents += 1;
        self.text += size;
        self.newest = no;
    }

    /// A document that came waits.
    pub(super) fn waits(&mut self, size: i64) {
        self.pending += 1;
        self.pending_text += size;
    }

    /// A document went; which of the removals that was.
    pub(super) fn went(&mut self, size: i64, waited: bool) -> i64 {
        self.documents -= 1;
        self.text -= size;
        if waited {
            self.pending -= 1;
            self.pending_text -= size;
        }
        self.removals += 1;
        self.removals
    }

    /// Nothing waits any more.
    pub(super) fn flushed(&mut self) {
        (self.pending, self.pending_text) = (0, 0);
    }

    /// Whether more waits than may.
    pub(super) fn is_full(&self) -> bool {
        self.pending > PENDING_DOCUMENTS || self.pending_text > PENDING_TEXT
    }
}
