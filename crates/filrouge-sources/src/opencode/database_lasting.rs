//! Marks of the sessions in a database that outlive a process: made of what rows say, not of whose files they are in,
//! so that a log that is folded in changes none of them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use filrouge_sqlite::foreign::{ForeignDatabase, ForeignError, Reader, Value};

use super::database::{Database, hashed, read_error, sums};
use super::session_rows::Schema;
use super::stored::Kind;
use super::tree::lock;
use crate::by_two::by_two;
use crate::{ReadError, Since, Stamp};

/// The tables of what was said.
const TABLES: [&str; 3] = ["message", "part", "session_message"];

/// The marks of all sessions of one moment, by kind and id.
#[derive(Debug, Default)]
pub(super) struct Held(HashMap<Kind, HashMap<Box<str>, Stamp>>);

/// How many rows of a table a session has, when the newest was written, and how large they are together.
type Sums = [Sum; TABLES.len()];
type Sum = (i64, i64, i64);

/// Ranges that the rows of a table are cut into: enough that two threads end together.
const RANGES: i64 = 16;
/// Fewer rows than this are looked at by one thread.
const ROWS_PER_THREAD: i64 = 4_000;

fn mark(text: &str, sums: &Sums) -> Stamp {
    hashed(&("session", text, sums))
}

impl Database {
    /// [`crate::Source::lasting`].
    pub(super) fn lasting(&self, table: &str, id: &str) -> Result<Stamp, ReadError> {
        // Before reading: what changes meanwhile has another mark then.
        let now = self.foreign.mark().map_err(read_error)?;
        let known = lock(&self.held)
            .as_ref()
            .filter(|(of, _)| *of == now)
            .map(|(_, held)| held.clone());
        if let Some(held) = known
            && let Some(stamp) = held.0.values().find_map(|of_kind| of_kind.get(id))
        {
            return Ok(*stamp);
        }
        let row = self.row(table, id)?;
        let schema = self.schema().map_err(read_error)?;
        let read = self.foreign.read(|reader| sums(reader, &schema, &row));
        let mut read = read.map_err(read_error)?.into_iter();
        let mut next = || read.next().flatten().unwrap_or(0);
        let mut all = Sums::default();
        for (table, sums) in TABLES.iter().zip(&mut all) {
            if schema.has(table) {
                *sums = (next(), next(), next());
            }
        }
        Ok(mark(&row.session.text, &all))
    }

    /// [`crate::Source::since`].
    pub(super) fn since(
        &self,
        kind: Kind,
        known: &[(&str, Stamp)],
    ) -> Result<Vec<Since>, ForeignError> {
        let held = self.held()?;
        let own = held.0.get(&kind);
        let one = |(id, mark): &(&str, Stamp)| match own.and_then(|own| own.get(*id)) {
            Some(now) if now == mark => Since::Same,
            _ => Since::Changed,
        };
        Ok(known.iter().map(one).collect())
    }

    /// [`crate::Source::whole`].
    pub(super) fn whole(&self) -> Option<Stamp> {
        let settled = self.foreign.settled(self.clock.now());
        settled.ok().flatten().map(|of| hashed(&of))
    }

    /// The marks of all sessions; looked at again only when somebody has written.
    fn held(&self) -> Result<Arc<Held>, ForeignError> {
        let now = self.foreign.mark()?;
        if let Some((of, held)) = lock(&self.held).as_ref()
            && *of == now
        {
            return Ok(held.clone());
        }
        let schema = self.schema()?;
        let sums = all_sums(&self.foreign, &schema)?;
        // Of a later moment than the sums, if anything: then the mark is of no state there was, and the session is read
        // once more.
        let listed = self.listed()?;
        let mut held = Held::default();
        let nothing = Sums::default();
        for (kind, row) in &listed.rows {
            let sums = sums.get(&row.session.id).unwrap_or(&nothing);
            let of_kind = held.0.entry(*kind).or_default();
            // Of two rows of one id the first is read.
            of_kind
                .entry(row.session.id.clone())
                .or_insert_with(|| mark(&row.session.text, sums));
        }
        let held = Arc::new(held);
        *lock(&self.held) = Some((now, held.clone()));
        Ok(held)
    }
}

/// Rows of one session that stand together, and what they hold.
type Runs = Vec<(Box<str>, Sum)>;

fn add(sum: &mut Sum, (count, newest, bytes): Sum) {
    sum.1 = if sum.0 == 0 {
        newest
    } else {
        newest.max(sum.1)
    };
    sum.0 += count;
    sum.2 = sum.2.saturating_add(bytes);
}

/// What each session has in each table, looked at by two threads.
fn all_sums(
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
                    add(slot, sum);
                }
            }
        }
    }
    Ok(all)
}

/// The first and the last rows of parts of a table.
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

/// In the order of the rows: by session each would be looked up by itself, which takes twice as long.
fn runs(reader: &Reader<'_>, table: &str, (from, to): (i64, i64)) -> Result<Runs, ForeignError> {
    let sql = format!(
        "SELECT session_id, time_updated, octet_length(data) FROM {table} NOT INDEXED \
         WHERE rowid >= ?1 AND rowid <= ?2"
    );
    let mut runs: Runs = Vec::new();
    reader.query(&sql, &[Value::Integer(from), Value::Integer(to)], |row| {
        let Some(id) = row.text(0) else {
            return ControlFlow::Continue(());
        };
        let one = (1, row.integer(1).unwrap_or(0), row.integer(2).unwrap_or(0));
        match runs.last_mut() {
            Some((last, sum)) if **last == *id => add(sum, one),
            _ => runs.push((id.into(), one)),
        }
        ControlFlow::Continue(())
    })?;
    Ok(runs)
}
