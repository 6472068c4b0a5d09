//! Reads the table `record`.

use filrouge_store::record::RecordRow;
use filrouge_store::rows::SessionPk;
use filrouge_types::Failure;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{PAGE_BYTES, Rows, column, read_u64, sql_int};
use crate::session::Sql;

/// Decodes the columns first_seq, count, head and body, of which the first is column `first_column`.
pub(crate) fn read_record(row: &Row, first_column: usize) -> Result<RecordRow, Failure> {
    Ok(RecordRow {
        first_seq: read_u64(row, first_column)?,
        count: read_u64(row, first_column + 1)?,
        head: column(row, first_column + 2)?,
        body: column(row, first_column + 3)?,
    })
}

/// If at most this many records are requested, they are returned whatever their size: a simpler query suffices.
const FEW_RECORDS: usize = 2;

pub(super) fn page(
    rows: &Rows<'_>,
    pk: SessionPk,
    seq: u64,
    limit: usize,
) -> Result<Vec<RecordRow>, Failure> {
    static ALL: Sql = Sql::new(
        "SELECT first_seq, count, head, body FROM filrouge.record
         WHERE lane = $1 AND session_pk = $2 AND first_seq >= coalesce(
             (SELECT first_seq FROM filrouge.record WHERE lane = $1 AND session_pk = $2 AND first_seq <= $3
              ORDER BY first_seq DESC LIMIT 1), $3)
         ORDER BY first_seq LIMIT $4",
        &[Type::INT2, Type::INT8, Type::INT8, Type::INT8],
    );
    static UNTIL_FULL: Sql = Sql::new(
        "SELECT first_seq, count, head, body FROM (
             SELECT *, sum(length(body)) OVER (ORDER BY first_seq) - length(body) AS before FROM (
                 SELECT first_seq, count, head, body FROM filrouge.record
                 WHERE lane = $1 AND session_pk = $2 AND first_seq >= coalesce(
                     (SELECT first_seq FROM filrouge.record WHERE lane = $1 AND session_pk = $2 AND first_seq <= $3
                      ORDER BY first_seq DESC LIMIT 1), $3)
                 ORDER BY first_seq LIMIT $4) found) counted
         WHERE before < $5 ORDER BY first_seq",
        &[
            Type::INT2,
            Type::INT8,
            Type::INT8,
            Type::INT8,
            Type::INT8,
        ],
    );
    let (lane, pk, seq, max_rows, page_bytes) = (
        rows.lane_of(pk),
        sql_int(pk),
        sql_int(seq),
        sql_int(limit as u64),
        sql_int(PAGE_BYTES as u64),
    );
    let fetched = if limit <= FEW_RECORDS {
        rows.query_all(&ALL, &[&lane, &pk, &seq, &max_rows])?
    } else {
        rows.query_all(&UNTIL_FULL, &[&lane, &pk, &seq, &max_rows, &page_bytes])?
    };
    fetched.iter().map(|row| read_record(row, 0)).collect()
}

pub(super) fn newest_seq(rows: &Rows<'_>, pk: SessionPk) -> Result<u64, Failure> {
    // The numbers are clamped, so that the query does not fail even if somebody has changed the row. The caller
    // compares the result with the session's head, which reveals such a change.
    static SQL: Sql = Sql::new(
        "SELECT LEAST(GREATEST(first_seq, 0), 1::bigint << 62) + LEAST(GREATEST(count, 1), 1::bigint << 62) - 1
         FROM filrouge.record
         WHERE lane = $1 AND session_pk = $2 ORDER BY first_seq DESC LIMIT 1",
        &[Type::INT2, Type::INT8],
    );
    rows.query_number(&SQL, &[&rows.lane_of(pk), &sql_int(pk)])
}
