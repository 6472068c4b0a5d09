//! Writes documents into new segments of postings: pending documents, and those of a large change.

use filrouge_store::text_index::{DocumentNo, Member, Members};
use filrouge_types::Failure;
use rusqlite::params;

use super::apply::IndexChange;
use super::blocks::BlockWriter;
use super::builder::Builder;
use super::rows::{execute, query_number};
use super::segments::{PostingsTable, Segment};
use super::spellings;
use crate::error::failure;

impl IndexChange<'_> {
    /// Moves the pending documents of a shard into postings.
    pub(super) fn flush(&mut self, shard: i64) -> Result<(), Failure> {
        let (mut builder, mut pending) = (Builder::default(), Members::default());
        {
            let sql =
                "SELECT document, size, words FROM pending WHERE shard = ?1 ORDER BY document";
            let mut statement = self.conn.prepare_cached(sql).map_err(failure)?;
            let mut rows = statement.query([shard]).map_err(failure)?;
            while let Some(row) = rows.next().map_err(failure)? {
                let no: i64 = row.get(0).map_err(failure)?;
                let size: i64 = row.get(1).map_err(failure)?;
                let list = row.get_ref(2).and_then(|v| Ok(v.as_blob()?));
                let size = usize::try_from(size).unwrap_or(0);
                let list = list.map_err(failure)?;
                let words = spellings::decode(list);
                builder.add_words(no.cast_unsigned(), words, size);
                if let Some(key) = self.key {
                    pending.add(key, &PostingsTable::Pending.member(no, list));
                }
            }
        }
        execute(self.conn, "DELETE FROM pending WHERE shard = ?1", [shard])?;
        let counts = self.counts(shard)?;
        counts.reset_pending();
        counts.members.remove_all(pending);
        self.write_segment(shard, builder)
    }

    /// Writes a builder's documents as a new segment of a shard.
    pub(super) fn write_segment(&mut self, shard: i64, builder: Builder) -> Result<(), Failure> {
        let Some((first, last)) = builder.range() else {
            return Ok(());
        };
        let level = level_of(builder.text_bytes());
        let count = i64::try_from(builder.len()).unwrap_or(i64::MAX);
        // The shard's row does not include the removals of this change yet. So a document of this segment that the same
        // change has removed counts as removed after the segment was built.
        let sql = "INSERT INTO segment (shard, level, first, last, documents, removal)
            VALUES (?1, ?2, ?3, ?4, ?5, coalesce((SELECT removals FROM shard WHERE id = ?1), 0)) RETURNING id";
        let [lowest, highest] = [first, last].map(DocumentNo::cast_signed);
        let id = query_number(self.conn, sql, [shard, level, lowest, highest, count])?;
        let segment = Segment::new((shard, id), first, last).open(self.key)?;
        let mut writer = BlockWriter::new(self.conn, &segment);
        builder.finish(|number, word, documents| writer.add(number, word, documents))?;
        writer.finish()?;
        self.seal_segment(&segment)
    }

    /// Seals a segment with its rows, after they were changed.
    pub(super) fn seal_segment(&mut self, segment: &Segment) -> Result<(), Failure> {
        let (Some(key), Some(seal)) = (self.key, segment.new_seal()?) else {
            return Ok(());
        };
        let sql = "UPDATE segment SET seal = ?2 WHERE id = ?1";
        execute(self.conn, sql, params![segment.id, seal])?;
        self.remove_segment(segment)?;
        let member = Member::Segment(segment.id.cast_unsigned(), &seal);
        self.counts(segment.shard)?.members.add(key, &member);
        Ok(())
    }

    /// Removes a segment from the members of its shard.
    pub(super) fn remove_segment(&mut self, segment: &Segment) -> Result<(), Failure> {
        if let (Some(key), Some(member)) = (self.key, segment.member()) {
            self.counts(segment.shard)?.members.remove(key, &member);
        }
        Ok(())
    }
}

/// The size class of a segment, from the bytes of its text: 0 below 2 MiB, 1 below 16 MiB, and one more for each
/// further factor of eight.
fn level_of(text: usize) -> i64 {
    let level = (text >> 21).checked_ilog2().map_or(0, |log| log / 3 + 1);
    i64::from(level)
}
