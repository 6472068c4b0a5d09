//! The counts of each shard, and its seal.

use filrouge_store::text_index::{IndexKey, Members, SEAL_BYTES, SealedRow, Shard};
use filrouge_types::Result;
use rusqlite::{Connection, params};

use super::rows::{execute, query_optional};
use crate::error::malformed;

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
    pub(super) name: Shard,
    /// The sessions, segments and pending documents with which the shard is sealed; empty without a key.
    pub(super) members: Members,
    /// The stored seal.
    pub(super) seal: Option<Vec<u8>>,
}

impl Counts {
    /// Reads the counts of a shard, and checks its seal if there is a key.
    ///
    /// # Errors
    /// `integrity_error` for a wrong seal.
    pub(super) fn read(conn: &Connection, key: Option<&IndexKey>, shard: i64) -> Result<Self> {
        let sql = "SELECT sessions, documents, text, pending, pending_text, newest, removals, realm, owner, seal
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
                name: Shard {
                    realm: row.get::<_, Vec<u8>>(7)?.into(),
                    owner: row.get::<_, Vec<u8>>(8)?.into(),
                },
                members: Members::default(),
                seal: row.get(9)?,
            })
        })?;
        let mut counts = counts.unwrap_or_default();
        if let Some(key) = key {
            let numbers = counts.numbers();
            let row = SealedRow::Shard(shard.cast_unsigned(), &counts.name, &numbers);
            let members = key.open(&row, counts.seal.as_deref());
            counts.members = members.ok_or_else(|| malformed("seal of a shard"))?;
        }
        Ok(counts)
    }

    const fn numbers(&self) -> [i64; 7] {
        [
            self.sessions,
            self.documents,
            self.text,
            self.pending,
            self.pending_text,
            self.newest,
            self.removals,
        ]
    }

    /// Writes the counts, and seals the shard if there is a key; returns the new seal.
    pub(super) fn write(
        &self,
        conn: &Connection,
        key: Option<&IndexKey>,
        shard: i64,
    ) -> Result<Option<[u8; SEAL_BYTES]>> {
        let numbers = self.numbers();
        let row = SealedRow::Shard(shard.cast_unsigned(), &self.name, &numbers);
        let seal = key.map(|key| key.seal(&row, self.members)).transpose()?;
        let stored = seal.as_ref().map(<[u8; SEAL_BYTES]>::as_slice);
        let sql =
            "UPDATE shard SET sessions = ?2, documents = ?3, text = ?4, pending = ?5, pending_text = ?6,
            newest = ?7, removals = ?8, seal = ?9 WHERE id = ?1";
        let row = params![
            shard,
            self.sessions,
            self.documents,
            self.text,
            self.pending,
            self.pending_text,
            self.newest,
            self.removals,
            stored
        ];
        execute(conn, sql, row)?;
        Ok(seal)
    }

    /// Counts again what is stored, after rows were changed by others.
    pub(super) fn recount(&mut self, conn: &Connection, shard: i64) -> Result<()> {
        let count = |table: &str| {
            let sql =
                format!("SELECT count(*), coalesce(sum(size), 0) FROM {table} WHERE shard = ?1");
            let counted = query_optional(conn, &sql, [shard], |row| Ok((row.get(0)?, row.get(1)?)));
            counted.map(Option::unwrap_or_default)
        };
        (self.documents, self.text) = count("document")?;
        (self.pending, self.pending_text) = count("pending")?;
        Ok(())
    }

    /// Counts the new document `no`, whose text has `size` bytes.
    ///
    /// # Errors
    /// `integrity_error` if the shard had this number before: postings of then would still be valid.
    pub(super) fn count_added(&mut self, no: i64, size: i64) -> Result<()> {
        if no <= self.newest {
            return Err(malformed("number of a document"));
        }
        self.documents += 1;
        self.text += size;
        self.newest = no;
        Ok(())
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
