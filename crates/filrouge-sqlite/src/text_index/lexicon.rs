//! Looks up words in the segments of a shard: the words that contain a given part, and the documents that contain given
//! words.

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;
use memchr::{memchr_iter, memmem};
use rusqlite::Connection;

use super::blocks::{self, List, Lists};
use super::files::IndexFile;
use super::postings;
use super::segments::Segment;
use super::spellings::each_match;
use super::vocabulary::{Vocabulary, each_block};
use super::words::{WordPart, number};
use crate::error::{failure, malformed};

/// The place where a word is stored.
#[derive(Clone, Copy)]
pub(super) struct WordPosition {
    /// The index of the segment in the caller's list of segments.
    segment: usize,
    /// The key of the block within the segment: the column `first`.
    block: i64,
    /// The index of the word within the block.
    index: usize,
    /// The word's number, under which a long list of documents is stored.
    number: u64,
}

/// Finds, for each part, the positions of the words that contain it; all segments must belong to one shard.
pub(super) fn words_containing(
    file: &IndexFile,
    conn: &Connection,
    segments: &[Segment],
    parts: &[&WordPart],
) -> Result<Vec<Vec<WordPosition>>, Failure> {
    let patterns: Vec<Vec<u8>> = parts.iter().map(|part| part.pattern()).collect();
    let finders: Vec<memmem::Finder<'_>> = patterns.iter().map(memmem::Finder::new).collect();
    let mut positions = vec![Vec::new(); parts.len()];
    for (index, segment) in segments.iter().enumerate() {
        if let Some(vocabulary) = Vocabulary::cached(file, conn, segment)? {
            for (finder, positions) in finders.iter().zip(&mut positions) {
                vocabulary.each_match(finder, &mut |block, at, word| {
                    positions.push(WordPosition {
                        segment: index,
                        block,
                        index: at,
                        number: number(word),
                    });
                });
            }
            continue;
        }
        each_block(conn, segment, &mut |block, words| {
            for (finder, positions) in finders.iter().zip(&mut positions) {
                find_in_block(words, finder, (index, block), positions);
            }
        })?;
    }
    Ok(positions)
}

fn find_in_block(
    words: &[u8],
    finder: &memmem::Finder<'_>,
    (segment, block): (usize, i64),
    positions: &mut Vec<WordPosition>,
) {
    let (mut from, mut count) = (0, 0);
    each_match(words, finder, &mut |start, word| {
        // The number of line ends before a word is the number of words before it, plus one.
        let passed = words.get(from..start).unwrap_or_default();
        count += memchr_iter(b'\n', passed).count();
        from = start;
        positions.push(WordPosition {
            segment,
            block,
            index: count.saturating_sub(1),
            number: number(word),
        });
    });
}

/// Finds the positions of a complete word in these segments.
pub(super) fn positions_of_word(
    conn: &Connection,
    segments: &[Segment],
    word: &WordPart,
) -> Result<Vec<WordPosition>, Failure> {
    let number = number(&word.text).cast_signed();
    let (pattern, mut positions) = (word.pattern(), Vec::new());
    let finder = memmem::Finder::new(&pattern);
    let sql = "SELECT first, words FROM spelling WHERE shard = ?1 AND segment = ?2 AND first <= ?3
        ORDER BY first DESC LIMIT 1";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    for (index, segment) in segments.iter().enumerate() {
        let mut rows = statement
            .query([segment.shard, segment.id, number])
            .map_err(failure)?;
        if let Some(row) = rows.next().map_err(failure)? {
            let words = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
            let block = (index, row.get(0).map_err(failure)?);
            find_in_block(words.map_err(failure)?, &finder, block, &mut positions);
        }
    }
    Ok(positions)
}

/// Appends the documents of the words at these positions to `documents`, then sorts `documents` and removes duplicates.
/// The positions must be in the order in which they were found.
pub(super) fn read_documents(
    conn: &Connection,
    segments: &[Segment],
    positions: &[WordPosition],
    documents: &mut Vec<DocumentNo>,
) -> Result<(), Failure> {
    let sql = "SELECT lists FROM posting WHERE shard = ?1 AND segment = ?2 AND first = ?3";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let is_same_block =
        |a: &WordPosition, b: &WordPosition| (a.segment, a.block) == (b.segment, b.block);
    for positions in positions.chunk_by(is_same_block) {
        let Some((first, segment)) = positions
            .first()
            .and_then(|p| Some((p, segments.get(p.segment)?)))
        else {
            continue;
        };
        let mut rows = statement
            .query([segment.shard, segment.id, first.block])
            .map_err(failure)?;
        let row = rows.next().map_err(failure)?;
        let row = row.ok_or_else(|| malformed("posting"))?;
        let lists = row.get_ref(0).and_then(|v| Ok(v.as_blob()?));
        let (mut lists, mut passed) = (Lists(lists.map_err(failure)?), 0);
        for position in positions {
            let list = lists.nth(position.index - passed);
            passed = position.index + 1;
            match list.ok_or_else(|| malformed("posting"))? {
                List::Short(list) => postings::read(segment.first, list, documents)?,
                List::Long => blocks::read_long_list(conn, segment, position.number, documents)?,
            }
        }
    }
    postings::sort_and_dedup(documents);
    Ok(())
}
