//! What the rows of each session in a database come to: the fingerprints of its sessions are made of it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use filrouge_sqlite::foreign::{ForeignDatabase, ForeignError, Reader, Value};

use super::session_rows::Schema;
use crate::Fingerprint;
use crate::by_two::by_two;

/// The tables of what was said.
const TABLES: [&str; 3] = ["message", "part", "session_message"];

/// Ranges that are scanned one by one: enough that two threads end together.
const RANGES: i64 = 16;
/// Fewer rows than this are scanned by one thread.
const ROWS_PER_THREAD: i64 = 4_000;

/// How many rows a session has, and a sum over the table, the id, the time of the last change and the size of each: rows that a
/// vacuum moves, and a log that is folded in, leave it as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Sum {
    rows: u64,
    of_rows: u64,
}

impl Sum {
    const fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.of_rows = self.of_rows.wrapping_add(other.of_rows);
    }
}

/// What each session has, from the first row to the last, by two threads.
pub(super) fn of_all(
    database: &ForeignDatabase,
    schema: &Schema,
) -> Result<HashMap<Box<str>, Sum>, ForeignError> {
    let mut all: HashMap<Box<str>, Sum> = HashMap::new();
    for table in TABLES.into_iter().filter(|table| schema.has(table)) {
        let ranges = ranges(database, table)?;
        let runs = by_two(&ranges, 1, |range| {
            database.read(|reader| runs(reader, schema, table, *range))
        });
        for run in runs {
            for (id, sum) in run? {
                all.entry(id).or_default().add(sum);
            }
        }
    }
    Ok(all)
}

/// The numbers of the first and the last rows of parts of a table.
fn ranges(database: &ForeignDatabase, table: &str) -> Result<Vec<(i64, i64)>, ForeignError> {
    let sql = format!("SELECT min(rowid), max(rowid) FROM {table}");
    let mut ends = None;
    database.read(|reader| {
        reader.query(&sql, &[], |row| {
            ends = row.integer(0).zip(row.integer(1));
            ControlFlow::Continue(())
        })
    })?;
    let Some((first, last)) = ends else {
        return Ok(Vec::new());
    };
    if last.saturating_sub(first) < ROWS_PER_THREAD {
        return Ok(vec![(first, last)]);
    }
    let step = (last.saturating_sub(first) / RANGES).saturating_add(1);
    let from = (0..=RANGES).map(|at| first.saturating_add(at.saturating_mul(step)));
    let from = from.take_while(|from| *from <= last);
    Ok(from
        .map(|from| (from, from.saturating_add(step - 1).min(last)))
        .collect())
}

/// Rows of one session that stand together, and what they come to.
type Runs = Vec<(Box<str>, Sum)>;

/// In the order of the rows: by session each would be looked up by itself, which takes twice as long.
fn runs(
    reader: &Reader<'_>,
    schema: &Schema,
    table: &str,
    (from, to): (i64, i64),
) -> Result<Runs, ForeignError> {
    let updated = match schema.has_column(table, "time_updated") {
        true => "time_updated",
        false => "NULL",
    };
    let sql = format!(
        "SELECT session_id, id, {updated}, octet_length(data) FROM {table} NOT INDEXED \
         WHERE rowid >= ?1 AND rowid <= ?2"
    );
    let mut runs: Runs = Vec::new();
    reader.query(&sql, &[Value::Integer(from), Value::Integer(to)], |row| {
        let Some(id) = row.text(0) else {
            return ControlFlow::Continue(());
        };
        let Fingerprint(of_rows, _) =
            Fingerprint::of(&(table, row.text(1), row.integer(2), row.integer(3)));
        let one = Sum { rows: 1, of_rows };
        match runs.last_mut() {
            Some((last, sum)) if **last == *id => sum.add(one),
            _ => runs.push((id.into(), one)),
        }
        ControlFlow::Continue(())
    })?;
    Ok(runs)
}
