//! Reads the table `commit_log`.

use std::collections::BTreeMap;

use filrouge_store::Lane;
use filrouge_store::copy::unfinished_copy;
use filrouge_store::rows::LogRow;
use filrouge_types::Result;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Rows, bytes, column, read_lane, read_u64, sql_int, sql_lane};
use crate::error::malformed;
use crate::session::Sql;

/// Reads the newest commit of a lane.
pub(crate) static NEWEST_LOG: Sql = Sql::new(
    "SELECT commit_no, data FROM filrouge.commit_log WHERE lane = $1 ORDER BY commit_no DESC LIMIT 1",
    &[Type::INT2],
);
/// Reads the newest commit of each of several lanes, whether the server is a standby, and whether the store is an
/// unfinished copy. Returns a row for each lane.
pub(crate) static NEWEST_LOGS: Sql = Sql::new(
    "SELECT q.lane, l.commit_no, l.data, pg_is_in_recovery(),
         EXISTS (SELECT FROM filrouge.store WHERE name = 'copying')
     FROM unnest($1) AS q (lane)
     LEFT JOIN LATERAL (SELECT commit_no, data FROM filrouge.commit_log
         WHERE lane = q.lane ORDER BY commit_no DESC LIMIT 1) l ON true",
    &[Type::INT2_ARRAY],
);

/// Decodes the commits in the rows of [`NEWEST_LOGS`], by their lanes. A lane without commits is left out.
///
/// # Errors
/// The failure of an unfinished copy, whose commits and sessions do not match yet: a copy may begin in an empty store
/// that a server has open. The inner error comes from a commit that is malformed.
pub(crate) fn read_newest_logs(rows: &[Row]) -> Result<BTreeMap<Lane, Result<LogRow>>> {
    let mut newest = BTreeMap::new();
    for row in rows {
        if column(row, 4)? {
            return Err(unfinished_copy("the store in this database"));
        }
        let lane = read_lane(row, 0)?;
        if !matches!(column::<Option<i64>>(row, 1), Ok(None)) {
            newest.insert(lane, read_log(lane, row, 1));
        }
    }
    Ok(newest)
}

/// Decodes the columns commit_no and data of a commit of `lane`, of which the first is column `first_column`.
pub(crate) fn read_log(lane: Lane, row: &Row, first_column: usize) -> Result<LogRow> {
    let commit_no = read_u64(row, first_column)?;
    LogRow::decode(lane, commit_no, bytes(row, first_column + 1)?)
        .ok_or_else(|| malformed("commit"))
}

pub(super) fn newest(rows: &Rows<'_>, lane: Lane) -> Result<Option<LogRow>> {
    let newest = rows.query_opt(&NEWEST_LOG, &[&sql_lane(lane)])?;
    newest.map(|row| read_log(lane, &row, 0)).transpose()
}

pub(super) fn page(rows: &Rows<'_>, lane: Lane, after: u64, limit: usize) -> Result<Vec<LogRow>> {
    let mut pages = pages(rows, &[(lane, after)], limit)?;
    Ok(pages.pop().unwrap_or_default())
}

/// Reads a page of each of these lanes.
pub(super) fn pages(
    rows: &Rows<'_>,
    after: &[(Lane, u64)],
    limit: usize,
) -> Result<Vec<Vec<LogRow>>> {
    static SQL: Sql = Sql::new(
        "SELECT q.lane, l.commit_no, l.data FROM unnest($1, $2) AS q (lane, after)
         CROSS JOIN LATERAL (SELECT commit_no, data FROM filrouge.commit_log
             WHERE lane = q.lane AND commit_no > q.after ORDER BY commit_no LIMIT $3) l",
        &[Type::INT2_ARRAY, Type::INT8_ARRAY, Type::INT8],
    );
    let lanes: Vec<i16> = after.iter().map(|(lane, _)| sql_lane(*lane)).collect();
    let numbers: Vec<i64> = after.iter().map(|(_, after)| sql_int(*after)).collect();
    let fetched = rows.query_columns(&SQL, &lanes, &[&numbers], &[&sql_int(limit as u64)])?;
    let mut pages = BTreeMap::<Lane, Vec<LogRow>>::new();
    for row in &fetched {
        let lane = read_lane(row, 0)?;
        let page = pages.entry(lane).or_default();
        page.push(read_log(lane, row, 1)?);
    }
    let pages = after.iter().map(|(lane, _)| {
        let mut page = pages.remove(lane).unwrap_or_default();
        // The join keeps the order of the subqueries, but SQL does not guarantee this.
        page.sort_by_key(|row| row.commit_no);
        page
    });
    Ok(pages.collect())
}
