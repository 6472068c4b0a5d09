//! Runs statements, and decodes rows that several modules read.

use filrouge_store::text_index::{IndexedSession, Member, SealedRow, SessionEntry, Shard};
use filrouge_types::Result;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use crate::error::{failure, malformed};

pub(super) fn execute(conn: &Connection, sql: &str, values: impl Params) -> Result<usize> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    statement.execute(values).map_err(failure)
}

pub(super) fn query_all<T>(
    conn: &Connection,
    sql: &str,
    values: impl Params,
    decode: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let rows = statement.query_map(values, decode).map_err(failure)?;
    rows.collect::<Result<_, _>>().map_err(failure)
}

pub(super) fn query_optional<T>(
    conn: &Connection,
    sql: &str,
    values: impl Params,
    decode: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    statement
        .query_row(values, decode)
        .optional()
        .map_err(failure)
}

/// The number in the first column of a statement's only row; a failure if there is no row. The statement inserts a row
/// and returns its id, or it aggregates.
pub(super) fn query_number(conn: &Connection, sql: &str, values: impl Params) -> Result<i64> {
    query_optional(conn, sql, values, |row| row.get(0))?.ok_or_else(|| malformed("number"))
}

/// A shard's number; `None` if the index does not have this shard.
pub(super) fn shard_of(conn: &Connection, shard: &Shard) -> Result<Option<i64>> {
    let sql = "SELECT id FROM shard WHERE realm = ?1 AND owner = ?2";
    query_optional(conn, sql, params![shard.realm, shard.owner], |row| {
        row.get(0)
    })
}

/// A session's row.
pub(super) struct StoredSession {
    pub(super) no: i64,
    /// The number of its shard.
    pub(super) shard: i64,
    pub(super) entry: SessionEntry,
    pub(super) seal: Option<Vec<u8>>,
}

impl StoredSession {
    /// The columns that [`Self::from_row`] reads.
    pub(super) const COLUMNS: &str = "id, shard, key, stamp_a, stamp_b, updated, project, seal";

    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            no: row.get(0)?,
            shard: row.get(1)?,
            entry: entry(row, 2)?,
            seal: row.get(7)?,
        })
    }

    /// Whether the session was forgotten, and not read again since.
    pub(super) fn is_forgotten(&self) -> bool {
        self.entry.stamp == [0, 0]
    }

    /// The row, for its seal. `shard` is its shard.
    pub(super) fn sealed_row<'s>(&'s self, shard: &'s Shard) -> SealedRow<'s> {
        SealedRow::Session(self.no.cast_unsigned(), shard, &self.entry)
    }

    /// The row as a member of its shard.
    pub(super) fn member(&self) -> Member<'_> {
        let [shard, no] = [self.shard, self.no].map(i64::cast_unsigned);
        let seal = self.seal.as_deref().unwrap_or_default();
        Member::Session(shard, no, &self.entry.key, seal)
    }
}

/// A session's row; `None` if the session is not in the index.
pub(super) fn session_of(
    conn: &Connection,
    realm: &[u8],
    key: &str,
) -> Result<Option<StoredSession>> {
    let columns = StoredSession::COLUMNS;
    let sql = format!("SELECT {columns} FROM session WHERE realm = ?1 AND key = ?2");
    query_optional(conn, &sql, params![realm, key], StoredSession::from_row)
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
pub(super) fn sessions_of_shard(conn: &Connection, shard: i64) -> Result<Vec<IndexedSession>> {
    let sql = format!("{SESSION} WHERE s.shard = ?1");
    query_all(conn, &sql, [shard], read_session)
}
