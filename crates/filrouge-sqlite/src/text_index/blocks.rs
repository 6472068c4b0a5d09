//! The postings of a segment: its words with the documents that contain them. They are stored in blocks, ordered by the
//! words' numbers (hashes).
//!
//! The words of a block are in one row, and their lists of documents in another, so that a search for parts of words
//! reads only the words. A long list has a row of its own. A segment contains a word only while one of its documents
//! contains the word: when the last document is removed from a list, the word is removed too.

use std::collections::HashSet;

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Result;
use rusqlite::{Connection, Row, params};

use super::postings;
use super::rows::{execute, query_all, query_optional};
use super::segments::{PostingsTable, Segment};
use super::words::number;
use crate::error::{failure, malformed};

/// The maximum number of bytes of a block's words, and the same for its lists, so that each row fits in one page. Only
/// a block with one long word, or with words that share a number, can be larger.
const BLOCK_MAX_BYTES: usize = 3_900;
/// The maximum number of bytes of a list within a block; a longer list has its own row.
const SHORT_LIST_MAX_BYTES: usize = 250;

/// A stored block.
pub(super) struct Block {
    /// The number of its first word.
    pub(super) first: i64,
    /// The words, each preceded and followed by a line feed.
    words: Vec<u8>,
    /// The words' lists, each preceded by its length; the length 0 means a long list.
    lists: Vec<u8>,
}

/// The list of the documents that contain a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum List<'a> {
    /// The encoded numbers of the documents (see `postings.rs`), relative to the segment's first document.
    Short(&'a [u8]),
    /// A list in its own row.
    Long,
}

/// A word of a block.
pub(super) struct Entry<'a> {
    pub(super) number: u64,
    pub(super) word: &'a str,
    pub(super) list: List<'a>,
}

impl Block {
    /// Returns the block's words in order.
    pub(super) fn entries(&self) -> Result<Vec<Entry<'_>>> {
        let mut lists = Lists(&self.lists);
        let words = self
            .words
            .split(|byte| *byte == b'\n')
            .filter(|word| !word.is_empty());
        let entry = |word| {
            let word = std::str::from_utf8(word).map_err(|_| malformed("spelling"))?;
            Ok(Entry {
                number: number(word),
                word,
                list: lists.next().ok_or_else(|| malformed("posting"))?,
            })
        };
        words.map(entry).collect()
    }
}

/// Iterates over the concatenated lists of a block.
pub(super) struct Lists<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Lists<'a> {
    type Item = List<'a>;

    fn next(&mut self) -> Option<List<'a>> {
        let (len, rest) = self.0.split_first()?;
        let (list, rest) = rest.split_at_checked(usize::from(*len))?;
        self.0 = rest;
        Some(match list {
            [] => List::Long,
            list => List::Short(list),
        })
    }
}

/// Reads the first blocks of a segment, at most `limit`.
pub(super) fn read_first(conn: &Connection, segment: &Segment, limit: usize) -> Result<Vec<Block>> {
    let sql = "SELECT s.first, s.words, p.lists FROM spelling s JOIN posting p ON p.shard = s.shard
        AND p.segment = s.segment AND p.first = s.first
        WHERE s.shard = ?1 AND s.segment = ?2 ORDER BY s.first LIMIT ?3";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    query_all(conn, sql, [segment.shard, segment.id, limit], read_block)
}

/// Deletes a block from a segment, but not its long lists.
pub(super) fn delete(conn: &Connection, segment: &Segment, block: &Block) -> Result<()> {
    segment.remove(&PostingsTable::Spelling.member(block.first, &block.words));
    segment.remove(&PostingsTable::Posting.member(block.first, &block.lists));
    let row = [segment.shard, segment.id, block.first];
    for table in ["spelling", "posting"] {
        let sql = format!("DELETE FROM {table} WHERE shard = ?1 AND segment = ?2 AND first = ?3");
        execute(conn, &sql, row)?;
    }
    Ok(())
}

/// Reads a long list of a segment into `documents`.
pub(super) fn read_long_list(
    conn: &Connection,
    segment: &Segment,
    word: u64,
    documents: &mut Vec<DocumentNo>,
) -> Result<()> {
    let sql = "SELECT documents FROM long_posting WHERE shard = ?1 AND segment = ?2 AND word = ?3";
    let row = [segment.shard, segment.id, word.cast_signed()];
    // The list is read in place, without a copy.
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query(row).map_err(failure)?;
    let row = rows.next().map_err(failure)?;
    let row = row.ok_or_else(|| malformed("posting"))?;
    let list = row.get_ref(0).and_then(|v| Ok(v.as_blob()?));
    postings::read(segment.first, list.map_err(failure)?, documents)
}

/// Deletes a long list from a segment, if it exists.
pub(super) fn delete_long_list(conn: &Connection, segment: &Segment, word: u64) -> Result<()> {
    let sql = "DELETE FROM long_posting WHERE shard = ?1 AND segment = ?2 AND word = ?3 RETURNING documents";
    let row = [segment.shard, segment.id, word.cast_signed()];
    let list: Option<Vec<u8>> = query_optional(conn, sql, row, |row| row.get(0))?;
    if let Some(list) = list {
        segment.remove(&PostingsTable::LongPosting.member(word.cast_signed(), &list));
    }
    Ok(())
}

fn insert_long_list(conn: &Connection, segment: &Segment, word: u64, list: &[u8]) -> Result<()> {
    let word = word.cast_signed();
    let sql = "INSERT INTO long_posting (shard, segment, word, documents) VALUES (?1, ?2, ?3, ?4)";
    execute(conn, sql, params![segment.shard, segment.id, word, list])?;
    segment.add(&PostingsTable::LongPosting.member(word, list));
    Ok(())
}

/// Removes documents, given in ascending order, from a segment.
pub(super) fn remove(conn: &Connection, segment: &Segment, documents: &[DocumentNo]) -> Result<()> {
    let emptied = remove_from_long_lists(conn, segment, documents)?;
    for block in affected_blocks(conn, segment, documents, !emptied.is_empty())? {
        delete(conn, segment, &block)?;
        let (mut writer, mut remaining) = (BlockWriter::new(conn, segment), Vec::new());
        for entry in block.entries()? {
            match entry.list {
                List::Long if emptied.contains(&entry.number) => {}
                List::Long => writer.add_encoded(entry.number, entry.word, List::Long)?,
                List::Short(list) => {
                    remaining.clear();
                    postings::read(segment.first, list, &mut remaining)?;
                    remaining.retain(|no| documents.binary_search(no).is_err());
                    if !remaining.is_empty() {
                        writer.add(entry.number, entry.word, &remaining)?;
                    }
                }
            }
        }
        writer.finish()?;
    }
    Ok(())
}

/// Removes documents from long lists; returns the words whose lists became empty.
fn remove_from_long_lists(
    conn: &Connection,
    segment: &Segment,
    documents: &[DocumentNo],
) -> Result<HashSet<u64>> {
    let mut changed: Vec<(i64, Vec<DocumentNo>)> = Vec::new();
    let sql = "SELECT word, documents FROM long_posting WHERE shard = ?1 AND segment = ?2";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement
        .query([segment.shard, segment.id])
        .map_err(failure)?;
    let mut remaining = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        let list = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
        remaining.clear();
        postings::read(segment.first, list.map_err(failure)?, &mut remaining)?;
        let before = remaining.len();
        remaining.retain(|no| documents.binary_search(no).is_err());
        if remaining.len() < before {
            let word = row.get(0).map_err(failure)?;
            changed.push((word, std::mem::take(&mut remaining)));
        }
    }
    let (mut emptied, mut list) = (HashSet::new(), Vec::new());
    for (word, remaining) in changed {
        delete_long_list(conn, segment, word.cast_unsigned())?;
        if remaining.is_empty() {
            emptied.insert(word.cast_unsigned());
            continue;
        }
        list.clear();
        postings::encode(segment.first, &remaining, &mut list);
        insert_long_list(conn, segment, word.cast_unsigned(), &list)?;
    }
    Ok(emptied)
}

/// Reads the blocks that contain one of these documents in a short list. If `with_long_lists` is true, also all blocks
/// that contain a word with a long list.
fn affected_blocks(
    conn: &Connection,
    segment: &Segment,
    documents: &[DocumentNo],
    with_long_lists: bool,
) -> Result<Vec<Block>> {
    let (Some(lowest), Some(highest)) = (documents.first(), documents.last()) else {
        return Ok(Vec::new());
    };
    let sql = "SELECT s.first, s.words, p.lists FROM spelling s JOIN posting p ON p.shard = s.shard
        AND p.segment = s.segment AND p.first = s.first WHERE s.shard = ?1 AND s.segment = ?2";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement
        .query([segment.shard, segment.id])
        .map_err(failure)?;
    let mut blocks = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        let lists = row.get_ref(2).and_then(|v| Ok(v.as_blob()?));
        let mut is_affected = false;
        for list in Lists(lists.map_err(failure)?) {
            match list {
                List::Long => is_affected |= with_long_lists,
                List::Short(list) => postings::decode(segment.first, list, |no| {
                    is_affected |= no >= *lowest && documents.binary_search(&no).is_ok();
                    !is_affected && no < *highest
                })?,
            }
        }
        if is_affected {
            blocks.push(read_block(row).map_err(failure)?);
        }
    }
    Ok(blocks)
}

fn read_block(row: &Row<'_>) -> rusqlite::Result<Block> {
    Ok(Block {
        first: row.get(0)?,
        words: row.get(1)?,
        lists: row.get(2)?,
    })
}

/// Writes blocks of a segment, from words in the order of their numbers.
pub(super) struct BlockWriter<'a> {
    conn: &'a Connection,
    segment: &'a Segment,
    words: Vec<u8>,
    lists: Vec<u8>,
    first: u64,
    /// The number of the word that was added last.
    previous: Option<u64>,
    /// A buffer for encoding lists.
    list: Vec<u8>,
}

impl<'a> BlockWriter<'a> {
    pub(super) fn new(conn: &'a Connection, segment: &'a Segment) -> Self {
        Self {
            conn,
            segment,
            words: Vec::with_capacity(BLOCK_MAX_BYTES),
            lists: Vec::with_capacity(BLOCK_MAX_BYTES),
            first: 0,
            previous: None,
            list: Vec::new(),
        }
    }

    /// Adds a word with its documents, of which there must be at least one. Words must be added in the order of their
    /// numbers. Words that share a number must have the same documents.
    pub(super) fn add(&mut self, number: u64, word: &str, documents: &[DocumentNo]) -> Result<()> {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        postings::encode(self.segment.first, documents, &mut list);
        let is_short = list.len() <= SHORT_LIST_MAX_BYTES;
        if !is_short && self.previous != Some(number) {
            insert_long_list(self.conn, self.segment, number, &list)?;
        }
        let result = self.add_encoded(
            number,
            word,
            match is_short {
                true => List::Short(&list),
                false => List::Long,
            },
        );
        self.list = list;
        result
    }

    /// Adds a word whose list is encoded (a short list) or already stored in its own row (a long list).
    pub(super) fn add_encoded(&mut self, number: u64, word: &str, list: List<'_>) -> Result<()> {
        let list = match list {
            List::Short(list) => list,
            List::Long => &[],
        };
        let is_full = self.words.len() + word.len() + 1 > BLOCK_MAX_BYTES
            || self.lists.len() + list.len() + 1 > BLOCK_MAX_BYTES;
        // Words that share a number stay in one block, so that no two blocks begin with the same number.
        if is_full && self.previous != Some(number) {
            self.write()?;
        }
        if self.words.is_empty() {
            self.words.push(b'\n');
            self.first = number;
        }
        self.words.extend(word.as_bytes());
        self.words.push(b'\n');
        self.lists.push(u8::try_from(list.len()).unwrap_or(0));
        self.lists.extend(list);
        self.previous = Some(number);
        Ok(())
    }

    /// Writes the last block.
    pub(super) fn finish(mut self) -> Result<()> {
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        if self.words.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO spelling (shard, segment, first, words) VALUES (?1, ?2, ?3, ?4)";
        let first = self.first.cast_signed();
        let row = params![self.segment.shard, self.segment.id, first, self.words];
        execute(self.conn, sql, row)?;
        let sql = "INSERT INTO posting (shard, segment, first, lists) VALUES (?1, ?2, ?3, ?4)";
        let row = params![self.segment.shard, self.segment.id, first, self.lists];
        execute(self.conn, sql, row)?;
        self.segment
            .add(&PostingsTable::Spelling.member(first, &self.words));
        self.segment
            .add(&PostingsTable::Posting.member(first, &self.lists));
        self.words.clear();
        self.lists.clear();
        Ok(())
    }
}
