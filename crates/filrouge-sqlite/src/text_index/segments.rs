//! Segments: a shard's postings are divided into segments. New documents get a new segment; maintenance merges small
//! segments into larger ones.

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;
use rusqlite::{Connection, Row};

use super::rows::query_all;

/// A row of the table `segment`: a set of postings of one shard.
pub(super) struct Segment {
    pub(super) shard: i64,
    pub(super) id: i64,
    /// The lowest number of the documents from which the segment was built.
    pub(super) first: DocumentNo,
    /// The highest number of the documents from which the segment was built.
    pub(super) last: DocumentNo,
    /// Whether no merge is moving words into or out of the segment.
    pub(super) is_settled: bool,
}

impl Segment {
    /// The columns that [`Self::from_row`] reads.
    pub(super) const COLUMNS: &str = "id, shard, first, last, made AND target IS NULL";

    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            shard: row.get(1)?,
            first: row.get::<_, i64>(2)?.cast_unsigned(),
            last: row.get::<_, i64>(3)?.cast_unsigned(),
            is_settled: row.get(4)?,
        })
    }

    /// All segments of a shard, including the sources and the unfinished target of a merge.
    pub(super) fn all(conn: &Connection, shard: i64) -> Result<Vec<Self>, Failure> {
        let sql = format!("SELECT {} FROM segment WHERE shard = ?1", Self::COLUMNS);
        query_all(conn, &sql, [shard], Self::from_row)
    }
}
