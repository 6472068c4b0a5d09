//! Small steps that keep questions fast: what waits goes into postings, and small postings into larger ones.
//!
//! Eight segments of a level become one of the next. Word by word: what a step has taken out of the eight stands in the
//! one, in one transaction, so that whoever asks finds each document in one of them, and a step that was cut short is
//! taken again. Documents that are gone are left behind.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use filrouge_types::Failure;
use rusqlite::{Connection, params};

use super::apply::Change;
use super::postings;
use super::rows::{all, base, one, run};
use super::spellings;
use crate::error::failure;

/// What waits is put into postings from here on…
const READY_DOCUMENTS: i64 = 32;
const READY_TEXT: i64 = 128 << 10;
/// …and so many segments of one level become one.
const SEGMENTS: i64 = 8;
/// A step takes at most so many rows and bytes, and stops after this time.
const STEP_ROWS: usize = 4096;
const STEP_BYTES: usize = 1 << 20;
const STEP_TIME: Duration = Duration::from_millis(15);

/// A merge that has begun.
struct Merge {
    base: u64,
    target: i64,
    shard: i64,
    to: i64,
    done: i64,
    /// The level of what is merged.
    from: i64,
    sources: Vec<i64>,
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
    let sql = "SELECT id, shard, level, done FROM segment WHERE done IS NOT NULL LIMIT 1";
    let found = one(conn, sql, [], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    let Some((target, shard, to, done)) = found else {
        return Ok(None);
    };
    let sql = "SELECT id, level FROM segment WHERE target = ?1 AND shard = ?2";
    let sources: Vec<(i64, i64)> = all(conn, sql, [target, shard], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(Some(Merge {
        base: base(conn)?,
        target,
        shard,
        to,
        done,
        from: sources.first().map_or(to, |s| s.1),
        sources: sources.into_iter().map(|s| s.0).collect(),
    }))
}

/// Begins a merge if one is due: of many of a level, or of one of whose documents many are gone.
fn begin(conn: &Connection) -> Result<Option<Merge>, Failure> {
    let sql =
        "SELECT shard, level FROM segment GROUP BY shard, level HAVING count(*) >= ?1 LIMIT 1";
    let many = one(conn, sql, [SEGMENTS], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (shard, from, to, sources) = match many {
        Some((shard, level)) => {
            let sql = "SELECT id FROM segment WHERE shard = ?1 AND level = ?2 ORDER BY id LIMIT ?3";
            let sources = all(conn, sql, [shard, level, SEGMENTS], |row| {
                row.get::<_, i64>(0)
            })?;
            (shard, level, level + 1, sources)
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
            (shard, level, level, vec![segment])
        }
    };
    run(conn, "UPDATE state SET last_segment = last_segment + 1", [])?;
    let sql = "SELECT last_segment FROM state";
    let target = one(conn, sql, [], |row| row.get(0))?.unwrap_or(0);
    for source in &sources {
        run(
            conn,
            "UPDATE segment SET target = ?2 WHERE id = ?1",
            [*source, target],
        )?;
    }
    let sql = "INSERT INTO segment (id, shard, level, first, last, documents, done, removal)
        SELECT ?1, ?2, ?3, min(first), max(last), sum(documents), -1, (SELECT removals FROM shard WHERE id = ?2)
        FROM segment WHERE target = ?1 AND shard = ?2";
    run(conn, sql, [target, shard, to])?;
    let done = -1;
    Ok(Some(Merge {
        base: base(conn)?,
        target,
        shard,
        to,
        done,
        from,
        sources,
    }))
}

type Taken = Vec<(i64, Vec<i64>, Vec<u64>)>;

impl Merge {
    fn step(&self, conn: &Connection) -> Result<(), Failure> {
        let sql = "SELECT document FROM gone WHERE shard = ?1
            AND document BETWEEN (SELECT first FROM segment WHERE id = ?2) AND (SELECT last FROM segment WHERE id = ?2)";
        let gone = all(conn, sql, [self.shard, self.target], |row| {
            row.get::<_, i64>(0)
        })?;
        let gone: HashSet<u64> = gone.into_iter().map(i64::cast_unsigned).collect();
        let (taken, more) = self.taken(conn)?;
        let mut delete = conn
            .prepare_cached(
                "DELETE FROM posting WHERE shard = ?1 AND level = ?2 AND word = ?3 AND segment = ?4",
            )
            .map_err(failure)?;
        let mut insert = conn
            .prepare_cached("INSERT INTO posting (shard, level, word, segment, documents) VALUES (?1, ?2, ?3, ?4, ?5)")
            .map_err(failure)?;
        let mut list = Vec::new();
        let mut left = HashSet::new();
        for (word, segments, mut documents) in taken {
            for segment in segments {
                delete
                    .execute([self.shard, self.from, word, segment])
                    .map_err(failure)?;
            }
            postings::settle(&mut documents);
            if !gone.is_empty() {
                documents.retain(|no| !gone.contains(no));
            }
            if !documents.is_empty() {
                left.insert(word.cast_unsigned());
                list.clear();
                postings::encode(self.base, &documents, &mut list);
                insert
                    .execute(params![self.shard, self.to, word, self.target, list])
                    .map_err(failure)?;
            }
        }
        self.spell(conn, more.unwrap_or(i64::MAX), &left)?;
        match more {
            Some(done) => run(
                conn,
                "UPDATE segment SET done = ?2 WHERE id = ?1",
                [self.target, done],
            )
            .map(|_| ()),
            None => self.end(conn),
        }
    }

    /// Moves the spellings of words up to the number `last`, of which those in `left` still have postings.
    fn spell(&self, conn: &Connection, last: i64, left: &HashSet<u64>) -> Result<(), Failure> {
        let mut words = Vec::new();
        for source in &self.sources {
            spellings::take(conn, [self.shard, self.from, *source], last, &mut words)?;
        }
        words.retain(|(number, _)| left.contains(number));
        words.sort_unstable();
        words.dedup();
        spellings::put(conn, [self.shard, self.to, self.target], &words)
    }

    /// The next words with the segments that have them and all their documents, and up to which word; nothing when it
    /// is up to the end.
    fn taken(&self, conn: &Connection) -> Result<(Taken, Option<i64>), Failure> {
        let begun = Instant::now();
        let sql = "SELECT word, segment, documents FROM posting WHERE shard = ?1 AND level = ?2 AND word > ?3
            ORDER BY word, segment";
        let mut statement = conn.prepare_cached(sql).map_err(failure)?;
        let mut rows = statement
            .query([self.shard, self.from, self.done])
            .map_err(failure)?;
        let mut taken: Taken = Vec::new();
        let (mut count, mut bytes, mut at) = (0, 0, self.done);
        while let Some(row) = rows.next().map_err(failure)? {
            let word: i64 = row.get(0).map_err(failure)?;
            let full = count >= STEP_ROWS || bytes >= STEP_BYTES || begun.elapsed() >= STEP_TIME;
            if word != at && count > 0 && full {
                return Ok((taken, Some(at)));
            }
            (at, count) = (word, count + 1);
            let segment: i64 = row.get(1).map_err(failure)?;
            if !self.sources.contains(&segment) {
                continue;
            }
            let list = row
                .get_ref(2)
                .and_then(|v| Ok(v.as_blob()?))
                .map_err(failure)?;
            bytes += list.len();
            match taken.last_mut() {
                Some((last, segments, documents)) if *last == word => {
                    segments.push(segment);
                    postings::read(self.base, list, documents)?;
                }
                _ => {
                    let mut documents = Vec::new();
                    postings::read(self.base, list, &mut documents)?;
                    taken.push((word, vec![segment], documents));
                }
            }
        }
        Ok((taken, None))
    }

    fn end(&self, conn: &Connection) -> Result<(), Failure> {
        let both = [self.shard, self.target];
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
        let sql =
            "UPDATE segment SET documents = max(documents - ?2, 0), done = NULL WHERE id = ?1";
        run(conn, sql, [self.target, purged]).map(|_| ())
    }
}
