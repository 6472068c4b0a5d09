//! Marks of the sessions in a database that outlive a process: made of what rows say, not of whose files they are in,
//! so that a log that is folded in changes none of them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use filrouge_sqlite::foreign::{ForeignError, Reader};
use filrouge_types::{Clock, SystemClock};

use super::database::{Database, hashed, read_error, sums};
use super::session_rows::Schema;
use super::stored::Kind;
use super::tree::lock;
use crate::{ReadError, Since, Stamp};

/// The tables of what was said.
const TABLES: [&str; 3] = ["message", "part", "session_message"];

/// The marks of all sessions of one moment, by kind and id.
#[derive(Debug, Default)]
pub(super) struct Held(HashMap<Kind, HashMap<Box<str>, Stamp>>);

/// How many rows of a table a session has, when the newest was written, and how large they are together.
type Sums = [(i64, i64, i64); TABLES.len()];

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
        let settled = self.foreign.settled(SystemClock.now());
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
        let sums = self.foreign.read(|reader| all_sums(reader, &schema))?;
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

/// What each session has in each table. In the order of the rows: by session each would be looked up by itself, which takes
/// twice as long.
fn all_sums(reader: &Reader<'_>, schema: &Schema) -> Result<HashMap<Box<str>, Sums>, ForeignError> {
    let mut all: HashMap<Box<str>, Sums> = HashMap::new();
    for (at, table) in TABLES.iter().enumerate() {
        if !schema.has(table) {
            continue;
        }
        let sql =
            format!("SELECT session_id, time_updated, octet_length(data) FROM {table} NOT INDEXED");
        reader.query(&sql, &[], |row| {
            let Some(id) = row.text(0) else {
                return ControlFlow::Continue(());
            };
            if !all.contains_key(id) {
                all.insert(id.into(), Sums::default());
            }
            if let Some((count, newest, bytes)) = all.get_mut(id).and_then(|sums| sums.get_mut(at))
            {
                let updated = row.integer(1).unwrap_or(0);
                *newest = if *count == 0 {
                    updated
                } else {
                    updated.max(*newest)
                };
                *count += 1;
                *bytes = bytes.saturating_add(row.integer(2).unwrap_or(0));
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(all)
}
