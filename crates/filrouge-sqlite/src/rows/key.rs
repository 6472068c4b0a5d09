//! The table `item_key`: the idempotency keys of callers (ids of items and of requests), hashed, each with its seq.

use filrouge_store::rows::{KeyRow, SessionPk};
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

pub(super) fn page(
    rows: &Rows<'_>,
    pk: SessionPk,
    after: Option<[u8; 16]>,
    limit: usize,
) -> Result<Vec<KeyRow>, Failure> {
    let sql = "SELECT key, seq FROM item_key WHERE session_pk = ?1 AND (?2 IS NULL OR key > ?2)
         ORDER BY key LIMIT ?3";
    let limit = sql_int(limit as u64);
    let found: Vec<KeyRow> = rows.query_all(sql, params![sql_int(pk), after, limit], |row| {
        let (key, seq) = (row.get(0)?, read_u64(row, 1)?);
        Ok(KeyRow { key, seq })
    })?;
    // A damaged B-tree can contain cycles.
    let mut previous = after;
    for row in &found {
        if Some(row.key) <= previous {
            return Err(crate::error::malformed("item key"));
        }
        previous = Some(row.key);
    }
    Ok(found)
}
