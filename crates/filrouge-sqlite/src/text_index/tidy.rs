//! Keeps queries fast by maintenance in small steps: pending documents are moved into postings, and small segments are
//! merged into larger ones.
//!
//! Eight segments of a level are merged into one of the next level, a few words per step. One transaction removes these
//! words from the eight segments and writes them to the new one. So every query finds each document exactly once, and
//! an interrupted step is repeated. The merge drops removed documents.

use std::collections::HashSet;

use filrouge_store::text_index::{DocumentNo, IndexKey};
use filrouge_types::Failure;
use rusqlite::Connection;

use super::apply::IndexChange;
use super::blocks::{self, BlockWriter, Entry, List};
use super::postings;
use super::rows::{execute, query_all, query_number, query_optional};
use super::segments::Segment;

/// The number of pending documents at which a shard's pending documents are moved into postings.
const FLUSH_DOCUMENTS: i64 = 32;
/// The bytes of pending documents' texts at which a shard's pending documents are moved into postings.
const FLUSH_TEXT: i64 = 128 << 10;
/// The number of segments of one level at which they are merged.
const SEGMENTS_PER_MERGE: i64 = 8;
/// The approximate number of blocks of words that one step of a merge reads from all its sources.
const BLOCKS_PER_STEP: usize = 16;

/// A merge in progress.
struct Merge {
    /// The new segment, unfinished.
    target: Segment,
    /// The segments that the merge empties and, in its last step, deletes.
    sources: Vec<Segment>,
}

/// Does one step of maintenance; returns whether more work may remain.
pub(super) fn step(conn: &Connection, key: Option<&IndexKey>) -> Result<bool, Failure> {
    let sql = "SELECT id FROM shard WHERE pending >= ?1 OR pending_text >= ?2 LIMIT 1";
    if let Some(shard) = query_optional(conn, sql, [FLUSH_DOCUMENTS, FLUSH_TEXT], |row| row.get(0))?
    {
        let mut change = IndexChange::begin(conn, key)?;
        change.flush(shard)?;
        change.finish(None)?;
        return Ok(true);
    }
    let merge = match unfinished_merge(conn, key)? {
        None => begin_merge(conn, key)?,
        merge => merge,
    };
    merge.map_or(Ok(false), |merge| merge.step(conn, key).map(|()| true))
}

fn unfinished_merge(conn: &Connection, key: Option<&IndexKey>) -> Result<Option<Merge>, Failure> {
    let columns = Segment::COLUMNS;
    let sql = format!("SELECT {columns} FROM segment WHERE made = 0 LIMIT 1");
    let Some(target) = query_optional(conn, &sql, [], Segment::from_row)? else {
        return Ok(None);
    };
    // Others may have changed `target`: a segment is never merged into itself.
    let sql =
        format!("SELECT {columns} FROM segment WHERE shard = ?1 AND target = ?2 AND id <> ?2");
    let sources = query_all(conn, &sql, [target.shard, target.id], Segment::from_row)?;
    let sources = sources.into_iter().map(|source| source.open(key));
    Ok(Some(Merge {
        sources: sources.collect::<Result<_, _>>()?,
        target: target.open(key)?,
    }))
}

/// Begins a merge if one is due: of [`SEGMENTS_PER_MERGE`] segments of one level, or of a single segment of which more
/// than a quarter of the documents (plus 16) were removed.
fn begin_merge(conn: &Connection, key: Option<&IndexKey>) -> Result<Option<Merge>, Failure> {
    let sql =
        "SELECT shard, level FROM segment GROUP BY shard, level HAVING count(*) >= ?1 LIMIT 1";
    let full_level = query_optional(conn, sql, [SEGMENTS_PER_MERGE], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    let (shard, level, sources) = match full_level {
        Some((shard, level)) => {
            let sql = "SELECT id FROM segment WHERE shard = ?1 AND level = ?2 ORDER BY id LIMIT ?3";
            let sources = query_all(conn, sql, [shard, level, SEGMENTS_PER_MERGE], |row| {
                row.get::<_, i64>(0)
            })?;
            (shard, level + 1, sources)
        }
        None => {
            // Counts only documents that were removed after the segment was built. If it counted all, the same
            // segment would be rebuilt again and again.
            let sql = "SELECT id, shard, level FROM segment s WHERE documents + 64 < 4 * (SELECT count(*) FROM gone g
                WHERE g.shard = s.shard AND g.document BETWEEN s.first AND s.last AND g.removal > s.removal) LIMIT 1";
            let sparse_segment = query_optional(conn, sql, [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
            let Some((segment, shard, level)) = sparse_segment else {
                return Ok(None);
            };
            (shard, level, vec![segment])
        }
    };
    let sql = "INSERT INTO segment (shard, level, first, last, documents, made, removal)
        VALUES (?1, ?2, 0, 0, 0, 0, (SELECT removals FROM shard WHERE id = ?1)) RETURNING id";
    let target = query_number(conn, sql, [shard, level])?;
    let sql = "UPDATE segment SET target = ?2 WHERE id = ?1";
    for source in &sources {
        execute(conn, sql, [*source, target])?;
    }
    let sql = "UPDATE segment SET (first, last, documents) =
        (SELECT min(first), max(last), sum(documents) FROM segment WHERE target = ?1 AND shard = ?2) WHERE id = ?1";
    execute(conn, sql, [target, shard])?;
    unfinished_merge(conn, key)
}

impl Merge {
    /// Moves the next words, or ends the merge if all words were moved.
    fn step(&self, conn: &Connection, key: Option<&IndexKey>) -> Result<(), Failure> {
        let removed = self.removed_documents(conn)?;
        let mut change = IndexChange::begin(conn, key)?;
        match self.move_words(conn, &removed)? {
            true => {
                for segment in self.sources.iter().chain([&self.target]) {
                    change.seal_segment(segment)?;
                }
            }
            false => self.finish(&mut change)?,
        }
        change.finish(None)
    }

    /// The removed documents that the merge drops. Others may have changed `gone`: documents that exist are kept.
    fn removed_documents(&self, conn: &Connection) -> Result<HashSet<u64>, Failure> {
        let sql = "SELECT document FROM gone WHERE shard = ?1 AND document BETWEEN ?2 AND ?3
            AND NOT EXISTS (SELECT 1 FROM document d WHERE d.id = gone.document)";
        let [first, last] = [self.target.first, self.target.last].map(DocumentNo::cast_signed);
        let removed = query_all(conn, sql, [self.target.shard, first, last], |row| {
            row.get::<_, i64>(0)
        })?;
        Ok(removed.into_iter().map(i64::cast_unsigned).collect())
    }

    /// Moves the next words; returns false if there were none.
    fn move_words(&self, conn: &Connection, removed: &HashSet<u64>) -> Result<bool, Failure> {
        let mut loaded = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            let quota = BLOCKS_PER_STEP / self.sources.len().max(1) + 1;
            loaded.push((source, blocks::read_first(conn, source, quota + 1)?, quota));
        }
        let (mut words, mut bound) = (Vec::new(), u64::MAX);
        for (source, blocks, quota) in &mut loaded {
            // If a source has more blocks, only words that precede its next block can be merged now.
            if blocks.len() > *quota
                && let Some(next) = blocks.pop()
            {
                bound = bound.min(next.first.cast_unsigned());
            }
            for block in blocks.iter() {
                blocks::delete(conn, source, block)?;
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
        let (complete, remaining) = words.split_at(split);
        self.write_words(conn, complete, removed)?;
        for source in &self.sources {
            let mut writer = BlockWriter::new(conn, source);
            for (entry, _) in remaining
                .iter()
                .filter(|(_, segment)| segment.id == source.id)
            {
                writer.add_encoded(entry.number, entry.word, entry.list)?;
            }
            writer.finish()?;
        }
        Ok(true)
    }

    /// Writes words, given in order, to the new segment. Each word gets its documents from all sources, without the
    /// removed ones.
    fn write_words(
        &self,
        conn: &Connection,
        words: &[(Entry<'_>, &Segment)],
        removed: &HashSet<u64>,
    ) -> Result<(), Failure> {
        let mut writer = BlockWriter::new(conn, &self.target);
        let mut documents = Vec::new();
        for same_number in words.chunk_by(|(a, _), (b, _)| a.number == b.number) {
            documents.clear();
            let mut read_long_lists = Vec::new();
            for (entry, source) in same_number {
                match entry.list {
                    List::Short(list) => {
                        postings::read(source.first, list, &mut documents)?;
                    }
                    // Different words with the same number share one long list of a segment.
                    List::Long if read_long_lists.contains(&source.id) => {}
                    List::Long => {
                        blocks::read_long_list(conn, source, entry.number, &mut documents)?;
                        blocks::delete_long_list(conn, source, entry.number)?;
                        read_long_lists.push(source.id);
                    }
                }
            }
            documents.sort_unstable();
            documents.dedup();
            if !removed.is_empty() {
                documents.retain(|no| !removed.contains(no));
            }
            if documents.is_empty() {
                continue;
            }
            for word in same_number.chunk_by(|(a, _), (b, _)| a.word == b.word) {
                if let Some((entry, _)) = word.first() {
                    writer.add(entry.number, entry.word, &documents)?;
                }
            }
        }
        writer.finish()
    }

    fn finish(&self, change: &mut IndexChange<'_>) -> Result<(), Failure> {
        for source in &self.sources {
            change.remove_segment(source)?;
        }
        let (conn, shard_and_id) = (change.conn, [self.target.shard, self.target.id]);
        let sql = "DELETE FROM segment WHERE shard = ?1 AND target = ?2 AND id <> ?2";
        execute(conn, sql, shard_and_id)?;
        // The new segment contains no document that was removed before the merge began. Such documents are deleted from
        // `gone`, unless an older segment, built before their removal, may still contain them.
        let sql = "DELETE FROM gone WHERE shard = ?1 AND removal <= (SELECT removal FROM segment WHERE id = ?2)
            AND document BETWEEN (SELECT first FROM segment WHERE id = ?2) AND (SELECT last FROM segment WHERE id = ?2)
            AND NOT EXISTS (SELECT 1 FROM segment s WHERE s.shard = ?1 AND s.removal < gone.removal
                AND gone.document BETWEEN s.first AND s.last)";
        let purged = i64::try_from(execute(conn, sql, shard_and_id)?).unwrap_or(0);
        let sql = "UPDATE segment SET documents = max(documents - ?2, 0), made = 1, target = NULL WHERE id = ?1";
        execute(conn, sql, [self.target.id, purged]).map(|_| ())
    }
}
