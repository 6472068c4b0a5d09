//! Looks up the words of a shard: those that contain a part, and the documents of words.

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;
use memchr::{memchr_iter, memmem};
use rusqlite::Connection;

use super::blocks::{self, List, Lists};
use super::files::IndexFile;
use super::postings;
use super::segments::Segment;
use super::spellings::each_with;
use super::vocabulary::{Vocabulary, each_block};
use super::words::{WordPart, number};
use crate::error::{failure, malformed};

/// A word's position: the segment, the block, and the index within the block.
#[derive(Clone, Copy)]
pub(super) struct WordPosition {
    segment: usize,
    block: i64,
    at: usize,
    number: u64,
}

/// Finds, for each part, the positions of the words that contain it; all segments must belong to one shard.
pub(super) fn words_containing(
    files: &IndexFile,
    conn: &Connection,
    segments: &[Segment],
    parts: &[&WordPart],
) -> Result<Vec<Vec<WordPosition>>, Failure> {
    let listed: Vec<Vec<u8>> = parts.iter().map(|part| part.listed()).collect();
    let finders: Vec<memmem::Finder<'_>> = listed.iter().map(memmem::Finder::new).collect();
    let mut found = vec![Vec::new(); parts.len()];
    for (index, segment) in segments.iter().enumerate() {
        if let Some(vocabulary) = Vocabulary::of(files, conn, segment)? {
            for (finder, found) in finders.iter().zip(&mut found) {
                vocabulary.each_with(finder, &mut |block, at, word| {
                    found.push(WordPosition {
                        segment: index,
                        block,
                        at,
                        number: number(word),
                    });
                });
            }
            continue;
        }
        each_block(conn, segment, &mut |block, words| {
            for (finder, found) in finders.iter().zip(&mut found) {
                in_block(words, finder, (index, block), found);
            }
        })?;
    }
    Ok(found)
}

fn in_block(
    words: &[u8],
    finder: &memmem::Finder<'_>,
    (segment, block): (usize, i64),
    found: &mut Vec<WordPosition>,
) {
    let (mut from, mut at) = (0, 0);
    each_with(words, finder, &mut |start, word| {
        // The number of line ends before it is the number of preceding words, plus one.
        let passed = words.get(from..start).unwrap_or_default();
        at += memchr_iter(b'\n', passed).count();
        from = start;
        found.push(WordPosition {
            segment,
            block,
            at: at.saturating_sub(1),
            number: number(word),
        });
    });
}

/// The positions of a word.
pub(super) fn of_word(
    conn: &Connection,
    segments: &[Segment],
    word: &WordPart,
) -> Result<Vec<WordPosition>, Failure> {
    let number = number(&word.text).cast_signed();
    let (listed, mut found) = (word.listed(), Vec::new());
    let finder = memmem::Finder::new(&listed);
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
            in_block(words.map_err(failure)?, &finder, block, &mut found);
        }
    }
    Ok(found)
}

/// Appends the documents of the words at these positions, given in the order in which they were found, to
/// `documents`, and sorts it.
pub(super) fn read(
    conn: &Connection,
    segments: &[Segment],
    positions: &[WordPosition],
    documents: &mut Vec<DocumentNo>,
) -> Result<(), Failure> {
    let sql = "SELECT lists FROM posting WHERE shard = ?1 AND segment = ?2 AND first = ?3";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let same = |a: &WordPosition, b: &WordPosition| (a.segment, a.block) == (b.segment, b.block);
    for positions in positions.chunk_by(same) {
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
            let list = lists.nth(position.at - passed);
            passed = position.at + 1;
            match list.ok_or_else(|| malformed("posting"))? {
                List::Short(list) => postings::read(segment.first, list, documents)?,
                List::Long => blocks::long(conn, segment, position.number, documents)?,
            }
        }
    }
    postings::sort_and_dedup(documents);
    Ok(())
}
