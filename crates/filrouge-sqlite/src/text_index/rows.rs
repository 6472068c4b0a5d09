//! Statements, and the rows that several modules read.

use filrouge_store::text_index::{IndexedSession, SessionEntry, Shard};
use filrouge_types::Failure;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use crate::error::failure;

pub(super) fn run(conn: &Connection, sql: &str, values: impl Params) -> Result<usize, Failure> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    statement.execute(values).map_err(failure)
}

pub(super) fn all<T>(
    conn: &Connection,
    sql: &str,
    values: impl Params,
    each: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Failure> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let rows = statement.query_map(values, each).map_err(failure)?;
    rows.collect::<Result<_, _>>().map_err(failure)
}

pub(super) fn one<T>(
    conn: &Connection,
    sql: &str,
    values: impl Params,
    of: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, Failure> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    statement.query_row(values, of).optional().map_err(failure)
}

/// A shard's number.
pub(super) fn shard_of(conn: &Connection, shard: &Shard) -> Result<Option<i64>, Failure> {
    let sql = "SELECT id FROM shard WHERE realm = ?1 AND owner = ?2";
    one(conn, sql, params![shard.realm, shard.owner], |row| {
        row.get(0)
    })
}

/// A session's number and its shard's.
pub(super) fn session_of(
    conn: &Connection,
    realm: &[u8],
    key: &str,
) -> Result<Option<(i64, i64)>, Failure> {
    let sql = "SELECT id, shard FROM session WHERE realm = ?1 AND key = ?2";
    one(conn, sql, params![realm, key], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

/// What [`indexed`] reads.
pub(super) const SESSION: &str =
    "SELECT s.id, h.realm, h.owner, s.key, s.stamp_a, s.stamp_b, s.updated, s.project
    FROM session s JOIN shard h ON h.id = s.shard";

pub(super) fn indexed(row: &Row<'_>) -> rusqlite::Result<IndexedSession> {
    let blob = |at| row.get::<_, Vec<u8>>(at).map(Vec::into_boxed_slice);
    let number = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
    Ok(IndexedSession {
        no: number(0)?,
        shard: Shard {
            realm: blob(1)?,
            owner: blob(2)?,
        },
        entry: SessionEntry {
            key: row.get::<_, String>(3)?.into(),
            stamp: [number(4)?, number(5)?],
            updated: row.get(6)?,
            project: row.get::<_, Option<String>>(7)?.map(Into::into),
        },
    })
}
