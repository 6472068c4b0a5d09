//! Writes documents into new segments of postings: pending documents, and those of a large change.

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;

use super::apply::IndexChange;
use super::blocks::BlockWriter;
use super::builder::Builder;
use super::rows::{execute, query_number};
use super::segments::Segment;
use super::spellings;
use crate::error::failure;

impl IndexChange<'_> {
    /// Moves the pending documents of a shard into postings.
    pub(super) fn flush(&mut self, shard: i64) -> Result<(), Failure> {
        let mut builder = Builder::default();
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
                let words = spellings::decode(list.map_err(failure)?);
                builder.add_words(no.cast_unsigned(), words, size);
            }
        }
        execute(self.conn, "DELETE FROM pending WHERE shard = ?1", [shard])?;
        self.counts(shard)?.reset_pending();
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
        let segment = Segment {
            shard,
            id: query_number(self.conn, sql, [shard, level, lowest, highest, count])?,
            first,
            last,
            is_settled: true,
        };
        let mut writer = BlockWriter::new(self.conn, &segment);
        builder.finish(|number, word, documents| writer.add(number, word, documents))?;
        writer.finish()
    }
}

/// The size class of a segment, from the bytes of its text: 0 below 2 MiB, 1 below 16 MiB, and one more for each
/// further factor of eight.
fn level_of(text: usize) -> i64 {
    let level = (text >> 21).checked_ilog2().map_or(0, |log| log / 3 + 1);
    i64::from(level)
}
