//! The words of a segment with the documents that have them: in blocks, in the order of the words' numbers.
//!
//! Of a block the words lie in one row and their lists in another one: whoever looks for pieces of words goes through the
//! words alone. Lists that are long have rows of their own. A word is spelled in a segment as long as a document has it
//! there, and not longer: what is struck from lists is gone from here as well.

use std::collections::HashSet;

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;
use rusqlite::{Connection, Row, params};

use super::postings;
use super::rows::{all, run};
use super::segments::Segment;
use super::words::number;
use crate::error::{failure, malformed};

/// The words of a block, and its lists, have at most so many bytes, but for a word that is longer alone: each lies within
/// its page.
const BLOCK: usize = 3_900;
/// A list of more bytes has a row of its own.
const SHORT: usize = 250;

/// A block as it is stored.
pub(super) struct Block {
    pub(super) first: i64,
    words: Vec<u8>,
    lists: Vec<u8>,
}

/// The documents of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum List<'a> {
    /// Distances, the first one from the segment's first document.
    Short(&'a [u8]),
    /// In a row of its own.
    Long,
}

/// A word of a block.
pub(super) struct Entry<'a> {
    pub(super) number: u64,
    pub(super) word: &'a str,
    pub(super) list: List<'a>,
}

impl Block {
    /// Its words in their order.
    pub(super) fn entries(&self) -> Result<Vec<Entry<'_>>, Failure> {
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

/// The lists of a block, one after the other.
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

/// The first blocks of a segment, at most so many.
pub(super) fn load(conn: &Connection, of: &Segment, most: usize) -> Result<Vec<Block>, Failure> {
    let sql = "SELECT s.first, s.words, p.lists FROM spelling s JOIN posting p ON p.shard = s.shard
        AND p.segment = s.segment AND p.first = s.first
        WHERE s.shard = ?1 AND s.segment = ?2 ORDER BY s.first LIMIT ?3";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    all(conn, sql, [of.shard, of.id, most], block)
}

/// Takes a block out of a segment; its long lists stay.
pub(super) fn delete(conn: &Connection, of: &Segment, first: i64) -> Result<(), Failure> {
    let row = [of.shard, of.id, first];
    for table in ["spelling", "posting"] {
        let sql = format!("DELETE FROM {table} WHERE shard = ?1 AND segment = ?2 AND first = ?3");
        run(conn, &sql, row)?;
    }
    Ok(())
}

/// A long list of a segment.
pub(super) fn long(
    conn: &Connection,
    of: &Segment,
    word: u64,
    documents: &mut Vec<DocumentNo>,
) -> Result<(), Failure> {
    let sql = "SELECT documents FROM long_posting WHERE shard = ?1 AND segment = ?2 AND word = ?3";
    let row = [of.shard, of.id, word.cast_signed()];
    // It is read where it lies.
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query(row).map_err(failure)?;
    let row = rows.next().map_err(failure)?;
    let row = row.ok_or_else(|| malformed("posting"))?;
    let list = row.get_ref(0).and_then(|v| Ok(v.as_blob()?));
    postings::read(of.first, list.map_err(failure)?, documents)
}

/// Takes a long list out of a segment, if it has one.
pub(super) fn delete_long(conn: &Connection, of: &Segment, word: u64) -> Result<(), Failure> {
    let sql = "DELETE FROM long_posting WHERE shard = ?1 AND segment = ?2 AND word = ?3";
    run(conn, sql, [of.shard, of.id, word.cast_signed()]).map(|_| ())
}

/// Strikes documents, in order, from a segment.
pub(super) fn strike(
    conn: &Connection,
    of: &Segment,
    documents: &[DocumentNo],
) -> Result<(), Failure> {
    let struck = strike_long(conn, of, documents)?;
    for block in struck_blocks(conn, of, documents, !struck.is_empty())? {
        delete(conn, of, block.first)?;
        let (mut writer, mut left) = (Writer::new(conn, of), Vec::new());
        for entry in block.entries()? {
            match entry.list {
                List::Long if struck.contains(&entry.number) => {}
                List::Long => writer.keep(entry.number, entry.word, List::Long)?,
                List::Short(list) => {
                    left.clear();
                    postings::read(of.first, list, &mut left)?;
                    left.retain(|no| documents.binary_search(no).is_err());
                    if !left.is_empty() {
                        writer.add(entry.number, entry.word, &left)?;
                    }
                }
            }
        }
        writer.finish()?;
    }
    Ok(())
}

/// Strikes documents from long lists; the words of which nothing is left.
fn strike_long(
    conn: &Connection,
    of: &Segment,
    documents: &[DocumentNo],
) -> Result<HashSet<u64>, Failure> {
    let mut changed: Vec<(i64, Vec<DocumentNo>)> = Vec::new();
    let sql = "SELECT word, documents FROM long_posting WHERE shard = ?1 AND segment = ?2";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query([of.shard, of.id]).map_err(failure)?;
    let mut left = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        let list = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
        left.clear();
        postings::read(of.first, list.map_err(failure)?, &mut left)?;
        let before = left.len();
        left.retain(|no| documents.binary_search(no).is_err());
        if left.len() < before {
            let word = row.get(0).map_err(failure)?;
            changed.push((word, std::mem::take(&mut left)));
        }
    }
    let (mut struck, mut list) = (HashSet::new(), Vec::new());
    for (word, left) in changed {
        if left.is_empty() {
            delete_long(conn, of, word.cast_unsigned())?;
            struck.insert(word.cast_unsigned());
            continue;
        }
        list.clear();
        postings::encode(of.first, &left, &mut list);
        let sql = "UPDATE long_posting SET documents = ?4 WHERE shard = ?1 AND segment = ?2 AND word = ?3";
        run(conn, sql, params![of.shard, of.id, word, list])?;
    }
    Ok(struck)
}

/// The blocks that have one of these documents in a short list; with `long`, also those with a long one.
fn struck_blocks(
    conn: &Connection,
    of: &Segment,
    documents: &[DocumentNo],
    long: bool,
) -> Result<Vec<Block>, Failure> {
    let (Some(least), Some(most)) = (documents.first(), documents.last()) else {
        return Ok(Vec::new());
    };
    let sql = "SELECT s.first, s.words, p.lists FROM spelling s JOIN posting p ON p.shard = s.shard
        AND p.segment = s.segment AND p.first = s.first WHERE s.shard = ?1 AND s.segment = ?2";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query([of.shard, of.id]).map_err(failure)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        let lists = row.get_ref(2).and_then(|v| Ok(v.as_blob()?));
        let mut is_in = false;
        for list in Lists(lists.map_err(failure)?) {
            match list {
                List::Long => is_in |= long,
                List::Short(list) => postings::decode(of.first, list, |no| {
                    is_in |= no >= *least && documents.binary_search(&no).is_ok();
                    !is_in && no < *most
                })?,
            }
        }
        if is_in {
            found.push(block(row).map_err(failure)?);
        }
    }
    Ok(found)
}

fn block(row: &Row<'_>) -> rusqlite::Result<Block> {
    Ok(Block {
        first: row.get(0)?,
        words: row.get(1)?,
        lists: row.get(2)?,
    })
}

/// Writes blocks of a segment.
pub(super) struct Writer<'a> {
    conn: &'a Connection,
    of: &'a Segment,
    words: Vec<u8>,
    lists: Vec<u8>,
    first: u64,
    /// The number of the word before.
    before: Option<u64>,
    list: Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(conn: &'a Connection, of: &'a Segment) -> Self {
        Self {
            conn,
            of,
            words: Vec::with_capacity(BLOCK),
            lists: Vec::with_capacity(BLOCK),
            first: 0,
            before: None,
            list: Vec::new(),
        }
    }

    /// Adds a word with its documents, of which there are some; words come in the order of their numbers, those that share
    /// one with the same documents.
    pub(super) fn add(
        &mut self,
        number: u64,
        word: &str,
        documents: &[DocumentNo],
    ) -> Result<(), Failure> {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        postings::encode(self.of.first, documents, &mut list);
        let short = list.len() <= SHORT;
        if !short && self.before != Some(number) {
            let sql = "INSERT INTO long_posting (shard, segment, word, documents) VALUES (?1, ?2, ?3, ?4)";
            let row = params![self.of.shard, self.of.id, number.cast_signed(), list];
            run(self.conn, sql, row)?;
        }
        let added = self.keep(
            number,
            word,
            match short {
                true => List::Short(&list),
                false => List::Long,
            },
        );
        self.list = list;
        added
    }

    /// Adds a word whose list is there already.
    pub(super) fn keep(&mut self, number: u64, word: &str, list: List<'_>) -> Result<(), Failure> {
        let list = match list {
            List::Short(list) => list,
            List::Long => &[],
        };
        let full =
            self.words.len() + word.len() + 1 > BLOCK || self.lists.len() + list.len() + 1 > BLOCK;
        // Words that share a number stay together: no two blocks begin with the same one.
        if full && self.before != Some(number) {
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
        self.before = Some(number);
        Ok(())
    }

    /// Writes the last block.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.write()
    }

    fn write(&mut self) -> Result<(), Failure> {
        if self.words.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO spelling (shard, segment, first, words) VALUES (?1, ?2, ?3, ?4)";
        let first = self.first.cast_signed();
        let row = params![self.of.shard, self.of.id, first, self.words];
        run(self.conn, sql, row)?;
        let sql = "INSERT INTO posting (shard, segment, first, lists) VALUES (?1, ?2, ?3, ?4)";
        let row = params![self.of.shard, self.of.id, first, self.lists];
        run(self.conn, sql, row)?;
        self.words.clear();
        self.lists.clear();
        Ok(())
    }
}
