//! The table `item_key`: the idempotency keys of callers (ids of items and of requests), hashed, each with its seq.

use filrouge_store::rows::SessionPk;
use filrouge_types::Failure;
use rusqlite::params;

use super::{Rows, read_u64, sql_int};

impl Rows<'_> {
    pub(super) fn key_seq(&self, pk: SessionPk, key: [u8; 16]) -> Result<Option<u64>, Failure> {
        let sql = "SELECT seq FROM item_key WHERE session_pk = ?1 AND key = ?2";
        self.query_optional(sql, params![sql_int(pk), key], |row| read_u64(row, 0))
    }

    pub(crate) fn insert_key(&self, pk: SessionPk, key: [u8; 16], seq: u64) -> Result<(), Failure> {
        let sql = "INSERT INTO item_key (session_pk, key, seq) VALUES (?1, ?2, ?3)";
        self.execute(sql, params![sql_int(pk), key, sql_int(seq)])
    }
}
