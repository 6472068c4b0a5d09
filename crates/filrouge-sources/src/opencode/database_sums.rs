//! What the rows of the sessions in a database come to: how many there are, how large they are, when the newest was
//! written, which was made last. Marks are made of it (`database_lasting.rs`).

use std::collections::HashMap;
use std::ops::ControlFlow;

use filrouge_sqlite::foreign::{ForeignDatabase, ForeignError, Reader, Row, Value};

use super::session_rows::Schema;
use crate::by_two::by_two;

/// The tables of what was said.
pub(super) const TABLES: [&str; 3] = ["message", "part", "session_message"];

/// What a session has in one table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Sum {
    pub(super) rows: i64,
    /// When the newest was written.
    pub(super) newest: i64,
    /// How large they are together.
    pub(super) bytes: i64,
    /// The greatest rowid: SQLite gives a new row the greatest of all.
    pub(super) last: i64,
}

impl Sum {
    pub(super) fn add(&mut self, other: Self) {
        if self.rows == 0 {
            *self = other;
            return;
        }
        self.rows += other.rows;
        self.newest = self.newest.max(other.newest);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.last = self.last.max(other.last);
    }

    /// What an index of SQLite's alone tells.
    pub(super) const fn count(&self) -> Count {
        Count {
            rows: self.rows,
            last: self.last,
        }
    }
}

/// What a session has in each table.
pub(super) type Sums = [Sum; TABLES.len()];

/// How many rows of a table a session has, and the greatest rowid of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Count {
    pub(super) rows: i64,
    pub(super) last: i64,
}

/// How many rows of each table a session has.
pub(super) type Counts = [Count; TABLES.len()];

/// Ranges that are looked at one by one: enough that two threads end together.
const RANGES: i64 = 16;
/// Fewer rows than this are looked at by one thread.
const ROWS_PER_THREAD: i64 = 4_000;
/// Fewer sessions than this are counted by one thread.
const SESSIONS_PER_THREAD: usize = 64;

/// What one session has.
pub(super) fn of_one(
    reader: &Reader<'_>,
    schema: &Schema,
    session: &str,
) -> Result<Sums, ForeignError> {
    let mut sums = Sums::default();
    for (table, sum) in TABLES.iter().zip(&mut sums) {
        if !schema.has(table) {
            continue;
        }
        let sql = format!(
            "SELECT count(*), max(time_updated), sum(octet_length(data)), max(rowid) FROM {table} \
             WHERE session_id = ?1"
        );
        reader.query(&sql, &[Value::Text(session)], |row| {
            let number = |column| row.integer(column).unwrap_or(0);
            *sum = Sum {
                rows: number(0),
                newest: number(1),
                bytes: number(2),
                last: number(3),
            };
            ControlFlow::Continue(())
        })?;
    }
    Ok(sums)
}

/// One row, of the columns `rowid`, `time_updated` and `octet_length(data)` from `at` on.
pub(super) fn of_row(row: &Row<'_>, at: usize) -> Sum {
    let number = |column| row.integer(at + column).unwrap_or(0);
    Sum {
        rows: 1,
        newest: number(1),
        bytes: number(2),
        last: number(0),
    }
}

/// What each session has, from the first row to the last, by two threads.
pub(super) fn of_all(
    database: &ForeignDatabase,
    schema: &Schema,
) -> Result<HashMap<Box<str>, Sums>, ForeignError> {
    let mut all: HashMap<Box<str>, Sums> = HashMap::new();
    for (at, table) in TABLES.iter().enumerate() {
        if !schema.has(table) {
            continue;
        }
        let ranges = ranges(database, table)?;
        let runs = by_two(&ranges, 1, |range| {
            database.read(|reader| runs(reader, table, *range))
        });
        for run in runs {
            for (id, sum) in run? {
                if let Some(slot) = all.entry(id).or_default().get_mut(at) {
                    slot.add(sum);
                }
            }
        }
    }
    Ok(all)
}

/// How many rows there can be: as many as there are numbers from the first to the last.
pub(super) fn rows_max(database: &ForeignDatabase, schema: &Schema) -> Result<i64, ForeignError> {
    let mut rows = 0_i64;
    for table in TABLES.iter().filter(|table| schema.has(table)) {
        if let Some((first, last)) = ends(database, table)? {
            rows = rows.saturating_add(last.saturating_sub(first));
        }
    }
    Ok(rows)
}

/// The numbers of the first and the last row of a table.
fn ends(database: &ForeignDatabase, table: &str) -> Result<Option<(i64, i64)>, ForeignError> {
    let sql = format!("SELECT min(rowid), max(rowid) FROM {table}");
    let mut ends = None;
    database.read(|reader| {
        reader.query(&sql, &[], |row| {
            ends = row.integer(0).zip(row.integer(1));
            ControlFlow::Continue(())
        })
    })?;
    Ok(ends)
}

/// The first and the last rows of parts of a table.
fn ranges(database: &ForeignDatabase, table: &str) -> Result<Vec<(i64, i64)>, ForeignError> {
    let Some((first, last)) = ends(database, table)? else {
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
fn runs(reader: &Reader<'_>, table: &str, (from, to): (i64, i64)) -> Result<Runs, ForeignError> {
    let sql = format!(
        "SELECT session_id, rowid, time_updated, octet_length(data) FROM {table} NOT INDEXED \
         WHERE rowid >= ?1 AND rowid <= ?2"
    );
    let mut runs: Runs = Vec::new();
    reader.query(&sql, &[Value::Integer(from), Value::Integer(to)], |row| {
        let Some(id) = row.text(0) else {
            return ControlFlow::Continue(());
        };
        let one = of_row(row, 1);
        match runs.last_mut() {
            Some((last, sum)) if **last == *id => sum.add(one),
            _ => runs.push((id.into(), one)),
        }
        ControlFlow::Continue(())
    })?;
    Ok(runs)
}

/// What is counted at once: rows of a table, of the sessions from one id on and before another one.
struct Slice<'a> {
    /// The place of the table in [`TABLES`].
    table: usize,
    index: &'a str,
    from: &'a str,
    to: Option<&'a str>,
}

/// How many rows each session has, by two threads, of the database's own indexes alone, which are a tenth of its rows;
/// `None` where a table has none. `ids` are the sessions, in order: they tell where to cut.
pub(super) fn counts(
    database: &ForeignDatabase,
    schema: &Schema,
    ids: &[&str],
) -> Result<Option<HashMap<Box<str>, Counts>>, ForeignError> {
    let threads = match ids.len() < 2 * SESSIONS_PER_THREAD {
        true => 1,
        false => usize::try_from(RANGES).unwrap_or(1),
    };
    let step = ids.len().div_ceil(threads).max(1);
    let cuts: Vec<&str> = ids.iter().copied().step_by(step).skip(1).collect();
    let mut slices = Vec::new();
    for (table, name) in TABLES.iter().enumerate() {
        if !schema.has(name) {
            continue;
        }
        let Some(index) = schema.by_session(name) else {
            return Ok(None);
        };
        let from = std::iter::once("").chain(cuts.iter().copied());
        let to = cuts.iter().copied().map(Some).chain([None]);
        slices.extend(from.zip(to).map(|(from, to)| Slice {
            table,
            index,
            from,
            to,
        }));
    }
    let counted = by_two(&slices, SLICES_PER_THREAD, |slice| {
        database.read(|reader| slice.count(reader))
    });
    let mut all: HashMap<Box<str>, Counts> = HashMap::with_capacity(ids.len());
    for (slice, counted) in slices.iter().zip(counted) {
        for (id, count) in counted? {
            if let Some(slot) = all.entry(id).or_default().get_mut(slice.table) {
                *slot = count;
            }
        }
    }
    Ok(Some(all))
}

/// One for each table is counted by one thread.
const SLICES_PER_THREAD: usize = TABLES.len() + 1;

impl Slice<'_> {
    fn count(&self, reader: &Reader<'_>) -> Result<Vec<(Box<str>, Count)>, ForeignError> {
        let table = TABLES.get(self.table).copied().unwrap_or_default();
        let index = self.index.replace('"', "\"\"");
        let before = match self.to {
            Some(_) => " AND session_id < ?2",
            None => "",
        };
        let sql = format!(
            "SELECT session_id, count(*), max(rowid) FROM {table} INDEXED BY \"{index}\" \
             WHERE session_id >= ?1{before} GROUP BY session_id"
        );
        let mut values = vec![Value::Text(self.from)];
        values.extend(self.to.map(Value::Text));
        let mut counts = Vec::new();
        reader.query(&sql, &values, |row| {
            if let Some(id) = row.text(0) {
                let number = |column| row.integer(column).unwrap_or(0);
                let (rows, last) = (number(1), number(2));
                counts.push((id.into(), Count { rows, last }));
            }
            ControlFlow::Continue(())
        })?;
        Ok(counts)
    }
}
