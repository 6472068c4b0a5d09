//! Runs statements, and decodes rows that several modules read.

use filrouge_store::text_index::{IndexedSession, SessionEntry, Shard};
use filrouge_types::Failure;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use crate::error::{failure, malformed};

pub(super) fn execute(conn: &Connection, sql: &str, values: impl Params) -> Result<usize, Failure> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    statement.execute(values).map_err(failure)
}

pub(super) fn query_all<T>(
    conn: &Connection,
    sql: &str,
    values: impl Params,
    decode: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Failure> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let rows = statement.query_map(values, decode).map_err(failure)?;
    rows.collect::<Result<_, _>>().map_err(failure)
}

pub(super) fn query_optional<T>(
    conn: &Connection,
    sql: &str,
    values: impl Params,
    decode: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, Failure> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    statement
        .query_row(values, decode)
        .optional()
        .map_err(failure)
}

/// The number in the first column of a statement's only row; a failure if there is no row. The statement inserts a row
/// and returns its id, or it aggregates.
pub(super) fn query_number(
    conn: &Connection,
    sql: &str,
    values: impl Params,
) -> Result<i64, Failure> {
    query_optional(conn, sql, values, |row| row.get(0))?.ok_or_else(|| malformed("number"))
}

/// A shard's number; `None` if the index does not have this shard.
pub(super) fn shard_of(conn: &Connection, shard: &Shard) -> Result<Option<i64>, Failure> {
    let sql = "SELECT id FROM shard WHERE realm = ?1 AND owner = ?2";
    query_optional(conn, sql, params![shard.realm, shard.owner], |row| {
        row.get(0)
    })
}

/// The number of a session and the number of its shard; `None` if the session is not in the index.
pub(super) fn session_of(
    conn: &Connection,
    realm: &[u8],
    key: &str,
) -> Result<Option<(i64, i64)>, Failure> {
    let sql = "SELECT id, shard FROM session WHERE realm = ?1 AND key = ?2";
    query_optional(conn, sql, params![realm, key], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

/// The query whose rows [`read_session`] decodes. Callers append a condition.
pub(super) const SESSION: &str =
    "SELECT s.id, h.realm, h.owner, s.key, s.stamp_a, s.stamp_b, s.updated, s.project
    FROM session s JOIN shard h ON h.id = s.shard";

pub(super) fn read_session(row: &Row<'_>) -> rusqlite::Result<IndexedSession> {
    let blob = |at| row.get::<_, Vec<u8>>(at).map(Vec::into_boxed_slice);
    Ok(IndexedSession {
        no: row.get::<_, i64>(0)?.cast_unsigned(),
        shard: Shard {
            realm: blob(1)?,
            owner: blob(2)?,
        },
        entry: entry(row, 3)?,
    })
}

/// Decodes a session's index entry from five consecutive columns, of which `at` is the first.
fn entry(row: &Row<'_>, at: usize) -> rusqlite::Result<SessionEntry> {
    let number = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
    Ok(SessionEntry {
        key: row.get_ref(at)?.as_str()?.into(),
        stamp: [number(at + 1)?, number(at + 2)?],
        updated: row.get(at + 3)?,
        project: row.get_ref(at + 4)?.as_str_or_null()?.map(Into::into),
    })
}

/// All sessions of a shard.
pub(super) fn sessions_of_shard(
    conn: &Connection,
    shard: i64,
) -> Result<Vec<IndexedSession>, Failure> {
    let owning_shard = query_optional(
        conn,
        "SELECT realm, owner FROM shard WHERE id = ?1",
        [shard],
        |row| {
            let blob = |at| row.get::<_, Vec<u8>>(at).map(Vec::into_boxed_slice);
            Ok(Shard {
                realm: blob(0)?,
                owner: blob(1)?,
            })
        },
    )?;
    let Some(owning_shard) = owning_shard else {
        return Ok(Vec::new());
    };
    let sql = "SELECT id, key, stamp_a, stamp_b, updated, project FROM session WHERE shard = ?1";
    query_all(conn, sql, [shard], |row| {
        Ok(IndexedSession {
            no: row.get::<_, i64>(0)?.cast_unsigned(),
            shard: owning_shard.clone(),
            entry: entry(row, 1)?,
        })
    })
}
