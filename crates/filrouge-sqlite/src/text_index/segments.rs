//! Segments: a shard's postings are divided into segments. New documents get a new segment; maintenance merges small
//! segments into larger ones.

use std::cell::Cell;

use filrouge_store::text_index::{DocumentNo, IndexKey, Member, Members, SealedRow};
use filrouge_types::Failure;
use rusqlite::{Connection, Row};

use super::rows::query_all;
use crate::error::malformed;

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
    /// The stored seal.
    pub(super) seal: Option<Vec<u8>>,
    /// The key of the seals, with the rows that the segment has; `None` before [`Self::open`], and without a key.
    rows: Option<(IndexKey, Cell<Members>)>,
}

/// A table of postings.
#[derive(Clone, Copy)]
pub(super) enum PostingsTable {
    Spelling = 1,
    Posting = 2,
    LongPosting = 3,
    Pending = 4,
}

impl PostingsTable {
    /// A row of this table as a member: its number within the segment or shard, and its contents.
    pub(super) const fn member(self, no: i64, contents: &[u8]) -> Member<'_> {
        Member::Postings(self as u8, no.cast_unsigned(), contents)
    }
}

impl Segment {
    /// The columns that [`Self::from_row`] reads.
    pub(super) const COLUMNS: &str = "id, shard, first, last, made AND target IS NULL, seal";

    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            shard: row.get(1)?,
            first: row.get::<_, i64>(2)?.cast_unsigned(),
            last: row.get::<_, i64>(3)?.cast_unsigned(),
            is_settled: row.get(4)?,
            seal: row.get(5)?,
            rows: None,
        })
    }

    /// A new segment, whose row was just inserted.
    pub(super) const fn new((shard, id): (i64, i64), first: DocumentNo, last: DocumentNo) -> Self {
        Self {
            shard,
            id,
            first,
            last,
            is_settled: true,
            seal: None,
            rows: None,
        }
    }

    /// All segments of a shard, including the sources and the unfinished target of a merge.
    pub(super) fn all(conn: &Connection, shard: i64) -> Result<Vec<Self>, Failure> {
        let sql = format!("SELECT {} FROM segment WHERE shard = ?1", Self::COLUMNS);
        query_all(conn, &sql, [shard], Self::from_row)
    }

    /// The row, for its seal.
    const fn sealed_row(&self) -> SealedRow<'_> {
        SealedRow::Segment(self.id.cast_unsigned(), self.first, self.last)
    }

    /// The row as a member of its shard; `None` for a new segment.
    pub(super) fn member(&self) -> Option<Member<'_>> {
        let seal = self.seal.as_deref()?;
        Some(Member::Segment(self.id.cast_unsigned(), seal))
    }

    /// The rows with which the segment is sealed.
    pub(super) fn sealed_rows(&self, key: &IndexKey) -> Result<Members, Failure> {
        let members = key.open(&self.sealed_row(), self.seal.as_deref());
        members.ok_or_else(|| malformed("seal of a segment"))
    }

    /// Prepares the segment for changes of its rows, if there is a key.
    pub(super) fn open(mut self, key: Option<&IndexKey>) -> Result<Self, Failure> {
        if let Some(key) = key {
            self.rows = Some((key.clone(), Cell::new(self.sealed_rows(key)?)));
        }
        Ok(self)
    }

    /// Records that a row was added.
    pub(super) fn add(&self, row: &Member<'_>) {
        self.change(|key, rows| rows.add(key, row));
    }

    /// Records that a row was removed.
    pub(super) fn remove(&self, row: &Member<'_>) {
        self.change(|key, rows| rows.remove(key, row));
    }

    fn change(&self, change: impl FnOnce(&IndexKey, &mut Members)) {
        if let Some((key, cell)) = &self.rows {
            let mut rows = cell.get();
            change(key, &mut rows);
            cell.set(rows);
        }
    }

    /// The new seal, after changes; `None` without a key.
    pub(super) fn new_seal(&self) -> Result<Option<Vec<u8>>, Failure> {
        let Some((key, rows)) = &self.rows else {
            return Ok(None);
        };
        Ok(Some(key.seal(&self.sealed_row(), rows.get())?.into()))
    }
}
