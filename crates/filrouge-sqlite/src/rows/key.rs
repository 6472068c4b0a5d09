//! The table `item_key`: the idempotency keys of callers (ids of items and of requests), hashed, each with its seq.

use filrouge_store::rows::{KeyRow, SessionPk};
use filrouge_types::Failure;
use rusqlite::params;

use super::{Rows, int, uint};

impl Rows<'_> {
    pub(super) fn key_seq(&self, pk: SessionPk, key: [u8; 16]) -> Result<Option<u64>, Failure> {
        let sql = "SELECT seq FROM item_key WHERE session_pk = ?1 AND key = ?2";
        self.one(sql, params![int(pk), key], |row| uint(row, 0))
    }

    pub(crate) fn insert_key(&self, pk: SessionPk, key: [u8; 16], seq: u64) -> Result<(), Failure> {
        let sql = "INSERT INTO item_key (session_pk, key, seq) VALUES (?1, ?2, ?3)";
        self.run(sql, params![int(pk), key, int(seq)])
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
    let limit = int(limit as u64);
    let found: Vec<KeyRow> = rows.many(sql, params![int(pk), after, limit], |row| {
        let (key, seq) = (row.get(0)?, uint(row, 1)?);
        Ok(KeyRow { key, seq })
    })?;
    // A damaged B-tree can contain cycles.
    let mut before = after;
    for row in &found {
        if Some(row.key) <= before {
            return Err(crate::error::malformed("item key"));
        }
        before = Some(row.key);
    }
    Ok(found)
}
