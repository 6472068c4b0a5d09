//! Marks of the sessions in a database that outlive a process: made of what rows say, not of whose files they are in,
//! so that a log that is folded in changes none of them.
//!
//! The first number stands for the session's row and for number, size and newest time of its messages and parts. The
//! second one for what the database's own indexes tell of them, and, in its lowest bit, for whether the session was at work
//! as the mark was given. A quick look compares the second number: it reads a tenth of the database. Of the sessions at
//! work it sums up all rows, since an answer under way is written over and over. What it overlooks, a row that is written
//! over in a session that was left alone, a close look finds. Of a database of few rows all looks are close.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use filrouge_sqlite::foreign::ForeignError;

use super::database::{Database, hashed, read_error};
use super::database_sums::{self, Count, Counts, Sum, Sums};
use super::session_rows::SessionRow;
use super::stored::Kind;
use super::tree::lock;
use super::tree_lasting::AT_WORK_MAX;
use super::tree_stamp::is_quiet;
use crate::by_two::by_two;
use crate::{Look, ReadError, Since, Stamp};

/// Of a database of fewer rows all are summed up for each look, which takes 30 ms.
const FEW_ROWS: i64 = 1 << 16;
/// When more sessions than this have other rows than they had, all rows are looked at: they were given other numbers.
const MOVED_MAX: usize = 64;
/// Fewer sessions than this are summed up by one thread.
const SUMMED_PER_THREAD: usize = 2;

/// The marks of all sessions of one moment, by kind and id.
#[derive(Debug, Default)]
pub(super) struct Held(HashMap<Kind, HashMap<Box<str>, Stamp>>);

/// The second numbers of marks, without whether a session is at work, and what tells which was written to last.
#[derive(Debug, Default)]
pub(super) struct Counted(HashMap<Kind, HashMap<Box<str>, (u64, Counts)>>);

/// The second number of a mark, without whether the session is at work.
fn short(text: &str, counts: &Counts) -> u64 {
    hashed(&("counts", text, counts)).0 & !1
}

const fn is_at_work(mark: Stamp) -> bool {
    mark.1 & 1 == 1
}

/// What has become of a session that had the mark `known`.
fn since_then(known: Stamp, now: Stamp) -> Since {
    match now.0 == known.0 {
        true if now.1 == known.1 => Since::Same,
        true => Since::SameAs(now),
        false => Since::Changed,
    }
}

/// The greatest numbers of rows, those of parts first.
fn last_written([message, part, newer]: &Counts) -> [i64; 3] {
    [part, newer, message].map(|count: &Count| count.last)
}

impl Database {
    /// The mark of a session whose rows come to that.
    pub(super) fn mark_of(&self, text: &str, sums: &Sums) -> Stamp {
        // Not of the numbers of rows: they may be given anew.
        let all = sums.map(|sum| (sum.rows, sum.newest, sum.bytes));
        let written = sums.iter().filter(|sum| sum.rows > 0);
        let newest = written.map(|sum| sum.newest).max();
        let now = self.clock.now().as_millis();
        let at_work = newest.is_some_and(|newest| !is_quiet(newest, now));
        Stamp(
            hashed(&("session", text, all)).0,
            short(text, &sums.map(|sum: Sum| sum.count())) | u64::from(at_work),
        )
    }

    /// [`crate::Source::lasting`].
    pub(super) fn lasting(&self, table: &str, id: &str) -> Result<Stamp, ReadError> {
        // Before reading: what changes meanwhile has another mark then.
        if let Some(held) = self.held_now().map_err(read_error)?
            && let Some(stamp) = held.0.values().find_map(|of_kind| of_kind.get(id))
        {
            return Ok(*stamp);
        }
        let row = self.row(table, id)?;
        let schema = self.schema().map_err(read_error)?;
        let sums = self
            .foreign
            .read(|reader| database_sums::of_one(reader, &schema, id));
        let sums = sums.map_err(read_error)?;
        Ok(self.mark_of(&row.session.text, &sums))
    }

    /// [`crate::Source::since`].
    pub(super) fn since(
        &self,
        kind: Kind,
        known: &[(&str, Stamp)],
        look: Look,
    ) -> Result<Vec<Since>, ForeignError> {
        let counted = match (look, self.held_now()?) {
            (Look::Quick, None) => self.counted()?,
            _ => None,
        };
        let quickly = counted.and_then(|counted| self.since_counted(kind, known, &counted));
        if let Some(since) = quickly {
            return Ok(since);
        }
        let held = self.held()?;
        let own = held.0.get(&kind);
        let one = |(id, mark): &(&str, Stamp)| {
            let now = own.and_then(|own| own.get(*id));
            now.map_or(Since::Changed, |now| since_then(*mark, *now))
        };
        Ok(known.iter().map(one).collect())
    }

    /// A quick look; `None` when it takes a close one.
    fn since_counted(
        &self,
        kind: Kind,
        known: &[(&str, Stamp)],
        counted: &Counted,
    ) -> Option<Vec<Since>> {
        let mut all = vec![Since::Changed; known.len()];
        let (mut moved, mut at_work) = (0, Vec::new());
        let own = counted.0.get(&kind);
        for ((id, mark), since) in known.iter().zip(&mut all) {
            let Some((number, counts)) = own.and_then(|own| own.get(*id)) else {
                continue;
            };
            if *number != mark.1 & !1 {
                moved += 1;
            } else if is_at_work(*mark) {
                at_work.push((Reverse(last_written(counts)), *id, *mark, since));
            } else {
                *since = Since::Same;
            }
        }
        if moved > MOVED_MAX {
            return None;
        }
        at_work.sort_by_key(|(last, ..)| *last);
        let left = at_work.split_off(at_work.len().min(AT_WORK_MAX));
        let asked: Vec<_> = at_work
            .iter()
            .map(|(_, id, mark, _)| (*id, *mark))
            .collect();
        let looked = by_two(&asked, SUMMED_PER_THREAD, |(id, mark)| {
            let now = self.lasting(kind.table(), id);
            now.map_or(Since::Changed, |now| since_then(*mark, now))
        });
        for ((.., slot), since) in at_work.into_iter().zip(looked) {
            *slot = since;
        }
        for (.., slot) in left {
            *slot = Since::Same;
        }
        Some(all)
    }

    /// [`crate::Source::whole`].
    pub(super) fn whole(&self) -> Option<Stamp> {
        let settled = self.foreign.settled(self.clock.now());
        settled.ok().flatten().map(|of| hashed(&of))
    }

    /// The marks of all sessions, if nobody has written since they were looked at.
    fn held_now(&self) -> Result<Option<Arc<Held>>, ForeignError> {
        let now = self.foreign.mark()?;
        let held = lock(&self.held).clone();
        Ok(held.filter(|(of, _)| *of == now).map(|(_, held)| held))
    }

    /// The marks of all sessions; looked at again only when somebody has written.
    fn held(&self) -> Result<Arc<Held>, ForeignError> {
        let now = self.foreign.mark()?;
        if let Some(held) = self.held_now()? {
            return Ok(held);
        }
        let schema = self.schema()?;
        let sums = database_sums::of_all(&self.foreign, &schema)?;
        let mut held = Held::default();
        self.each_listed(|kind, row| {
            let of_kind = held.0.entry(kind).or_default();
            let sums = sums.get(&row.session.id).copied().unwrap_or_default();
            let mark = || self.mark_of(&row.session.text, &sums);
            of_kind.entry(row.session.id.clone()).or_insert_with(mark);
        })?;
        let held = Arc::new(held);
        *lock(&self.held) = Some((now, held.clone()));
        Ok(held)
    }

    /// What a quick look compares; counted again only when somebody has written. `None` where all is to be summed up: there
    /// are few rows, or an index is missing or damaged.
    fn counted(&self) -> Result<Option<Arc<Counted>>, ForeignError> {
        let now = self.foreign.mark()?;
        if let Some((of, counted)) = lock(&self.counted).as_ref()
            && *of == now
        {
            return Ok(Some(counted.clone()));
        }
        let schema = self.schema()?;
        if database_sums::rows_max(&self.foreign, &schema)? < FEW_ROWS {
            return Ok(None);
        }
        let listed = self.listed()?;
        let mut ids: Vec<&str> = listed
            .rows
            .iter()
            .map(|(_, row)| &*row.session.id)
            .collect();
        ids.sort_unstable();
        let counts = match database_sums::counts(&self.foreign, &schema, &ids) {
            Err(why @ ForeignError::Corrupt { .. }) => {
                tracing::debug!(%why, "an index of a database is damaged; all rows are summed up");
                None
            }
            counts => counts?,
        };
        let Some(counts) = counts else {
            return Ok(None);
        };
        let mut counted = Counted::default();
        self.each_listed(|kind, row| {
            let of_kind = counted.0.entry(kind).or_default();
            let counts = counts.get(&row.session.id).copied().unwrap_or_default();
            let number = || (short(&row.session.text, &counts), counts);
            of_kind.entry(row.session.id.clone()).or_insert_with(number);
        })?;
        let counted = Arc::new(counted);
        *lock(&self.counted) = Some((now, counted.clone()));
        Ok(Some(counted))
    }

    /// All sessions, of a later moment than what is known of their rows, if anything: then a mark is of no state there was,
    /// and the session is read once more. Of two rows of one id the first is read.
    fn each_listed(&self, mut each: impl FnMut(Kind, &SessionRow)) -> Result<(), ForeignError> {
        let listed = self.listed()?;
        listed.rows.iter().for_each(|(kind, row)| each(*kind, row));
        Ok(())
    }
}
