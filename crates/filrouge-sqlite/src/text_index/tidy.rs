//! Small steps that keep questions fast: what waits goes into postings, and small postings into larger ones.
//!
//! Eight segments of a level become one of the next. Some words after the others: what a step has taken out of
//! the eight stands in the one, in one transaction, so that whoever asks finds each document in one of them, and a step that was cut short is
//! taken again. Documents that are gone are left behind.

use std::collections::HashSet;

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;
use rusqlite::Connection;

use super::apply::Change;
use super::blocks::{self, Entry, List, Writer};
use super::postings;
use super::rows::{all, new_id, one, run};
use super::segments::Segment;

/// What waits is put into postings from here on…
const READY_DOCUMENTS: i64 = 32;
const READY_TEXT: i64 = 128 << 10;
/// …and so many segments of one level become one.
const SEGMENTS: i64 = 8;
/// A step takes about so many blocks of words.
const BLOCKS: usize = 16;

/// A merge that has begun.
struct Merge {
    into: Segment,
    sources: Vec<Segment>,
}

/// Does one step; whether there may be more.
pub(super) fn step(conn: &Connection) -> Result<bool, Failure> {
    let sql = "SELECT id FROM shard WHERE pending >= ?1 OR pending_text >= ?2 LIMIT 1";
    if let Some(shard) = one(conn, sql, [READY_DOCUMENTS, READY_TEXT], |row| row.get(0))? {
        let mut change = Change::begin(conn)?;
        change.flush(shard)?;
        change.end()?;
        return Ok(true);
    }
    let merge = match begun(conn)? {
        None => begin(conn)?,
        begun => begun,
    };
    match merge {
        Some(merge) => merge.step(conn).map(|()| true),
        None => Ok(false),
    }
}

fn begun(conn: &Connection) -> Result<Option<Merge>, Failure> {
    let columns = Segment::COLUMNS;
    let sql = format!("SELECT {columns} FROM segment WHERE made = 0 LIMIT 1");
    let Some(into) = one(conn, &sql, [], Segment::of_row)? else {
        return Ok(None);
    };
    let sql = format!("SELECT {columns} FROM segment WHERE shard = ?1 AND target = ?2");
    let sources = all(conn, &sql, [into.shard, into.id], Segment::of_row)?;
    Ok(Some(Merge { into, sources }))
}

/// Begins a merge if one is due: of many of a level, or of one of whose documents many are gone.
fn begin(conn: &Connection) -> Result<Option<Merge>, Failure> {
    let sql =
        "SELECT shard, level FROM segment GROUP BY shard, level HAVING count(*) >= ?1 LIMIT 1";
    let many = one(conn, sql, [SEGMENTS], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (shard, level, sources) = match many {
        Some((shard, level)) => {
            let sql = "SELECT id FROM segment WHERE shard = ?1 AND level = ?2 ORDER BY id LIMIT ?3";
            let sources = all(conn, sql, [shard, level, SEGMENTS], |row| {
                row.get::<_, i64>(0)
            })?;
            (shard, level + 1, sources)
        }
        None => {
            // Only what it was not made without already: else it would be made again and again.
            let sql = "SELECT id, shard, level FROM segment s WHERE documents + 64 < 4 * (SELECT count(*) FROM gone g
                WHERE g.shard = s.shard AND g.document BETWEEN s.first AND s.last AND g.removal > s.removal) LIMIT 1";
            let hollow = one(conn, sql, [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
            let Some((segment, shard, level)) = hollow else {
                return Ok(None);
            };
            (shard, level, vec![segment])
        }
    };
    let sql = "INSERT INTO segment (shard, level, first, last, documents, made, removal)
        VALUES (?1, ?2, 0, 0, 0, 0, (SELECT removals FROM shard WHERE id = ?1)) RETURNING id";
    let target = new_id(conn, sql, [shard, level])?;
    let sql = "UPDATE segment SET target = ?2 WHERE id = ?1";
    for source in &sources {
        run(conn, sql, [*source, target])?;
    }
    let sql = "UPDATE segment SET (first, last, documents) =
        (SELECT min(first), max(last), sum(documents) FROM segment WHERE target = ?1 AND shard = ?2) WHERE id = ?1";
    run(conn, sql, [target, shard])?;
    begun(conn)
}

impl Merge {
    fn step(&self, conn: &Connection) -> Result<(), Failure> {
        let gone = self.gone(conn)?;
        match self.words(conn, &gone)? {
            true => Ok(()),
            false => self.end(conn),
        }
    }

    /// The documents that are left behind.
    fn gone(&self, conn: &Connection) -> Result<HashSet<u64>, Failure> {
        let sql = "SELECT document FROM gone WHERE shard = ?1 AND document BETWEEN ?2 AND ?3";
        let [first, last] = [self.into.first, self.into.last].map(DocumentNo::cast_signed);
        let gone = all(conn, sql, [self.into.shard, first, last], |row| {
            row.get::<_, i64>(0)
        })?;
        Ok(gone.into_iter().map(i64::cast_unsigned).collect())
    }

    /// Moves the next words; whether there were some.
    fn words(&self, conn: &Connection, gone: &HashSet<u64>) -> Result<bool, Failure> {
        let mut loaded = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            let most = BLOCKS / self.sources.len().max(1) + 1;
            loaded.push((source, blocks::load(conn, source, most + 1)?, most));
        }
        let (mut words, mut bound) = (Vec::new(), u64::MAX);
        for (source, blocks, most) in &mut loaded {
            // Of a source that has more, words up to those in front of the rest.
            if blocks.len() > *most
                && let Some(next) = blocks.pop()
            {
                bound = bound.min(next.first.cast_unsigned());
            }
            for block in blocks.iter() {
                blocks::delete(conn, source, block.first)?;
                for entry in block.entries()? {
                    words.push((entry, *source));
                }
            }
        }
        if words.is_empty() {
            return Ok(false);
        }
        words.sort_by(|(a, _), (b, _)| (a.number, a.word).cmp(&(b.number, b.word)));
        let split = words.partition_point(|(entry, _)| entry.number < bound);
        let (taken, left) = words.split_at(split);
        self.put(conn, taken, gone)?;
        for source in &self.sources {
            let mut back = Writer::new(conn, source);
            for (entry, _) in left.iter().filter(|(_, of)| of.id == source.id) {
                back.keep(entry.number, entry.word, entry.list)?;
            }
            back.finish()?;
        }
        Ok(true)
    }

    /// Writes words, in order, with all that their segments have of each.
    fn put(
        &self,
        conn: &Connection,
        taken: &[(Entry<'_>, &Segment)],
        gone: &HashSet<u64>,
    ) -> Result<(), Failure> {
        let mut writer = Writer::new(conn, &self.into);
        let mut documents = Vec::new();
        for same in taken.chunk_by(|(a, _), (b, _)| a.number == b.number) {
            documents.clear();
            let mut long = Vec::new();
            for (entry, source) in same {
                match entry.list {
                    List::Short(list) => {
                        postings::read(source.first, list, &mut documents)?;
                    }
                    // Words that share a number share it.
                    List::Long if long.contains(&source.id) => {}
                    List::Long => {
                        blocks::long(conn, source, entry.number, &mut documents)?;
                        blocks::delete_long(conn, source, entry.number)?;
                        long.push(source.id);
                    }
                }
            }
            documents.sort_unstable();
            documents.dedup();
            if !gone.is_empty() {
                documents.retain(|no| !gone.contains(no));
            }
            if documents.is_empty() {
                continue;
            }
            for word in same.chunk_by(|(a, _), (b, _)| a.word == b.word) {
                if let Some((entry, _)) = word.first() {
                    writer.add(entry.number, entry.word, &documents)?;
                }
            }
        }
        writer.finish()
    }

    fn end(&self, conn: &Connection) -> Result<(), Failure> {
        let both = [self.into.shard, self.into.id];
        run(
            conn,
            "DELETE FROM segment WHERE shard = ?1 AND target = ?2",
            both,
        )?;
        // What was gone before the first step is in none of its postings; it may be in those of a segment that was made
        // before.
        let sql = "DELETE FROM gone WHERE shard = ?1 AND removal <= (SELECT removal FROM segment WHERE id = ?2)
            AND document BETWEEN (SELECT first FROM segment WHERE id = ?2) AND (SELECT last FROM segment WHERE id = ?2)
            AND NOT EXISTS (SELECT 1 FROM segment s WHERE s.shard = ?1 AND s.removal < gone.removal
                AND gone.document BETWEEN s.first AND s.last)";
        let purged = i64::try_from(run(conn, sql, both)?).unwrap_or(0);
        let sql = "UPDATE segment SET documents = max(documents - ?2, 0), made = 1 WHERE id = ?1";
        run(conn, sql, [self.into.id, purged]).map(|_| ())
    }
}
