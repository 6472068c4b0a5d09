//! The words of a shard, asked: which of them have a part, and the documents that have them.

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;
use memchr::{memchr_iter, memmem};
use rusqlite::Connection;

use super::blocks::{self, List, Lists};
use super::files::Files;
use super::postings;
use super::segments::Segment;
use super::spellings::each_with;
use super::vocabulary::{Vocabulary, each_block};
use super::words::{WordPart, number};
use crate::error::{failure, malformed};

/// Where a word stands: in which of the segments, in which block, and the how many-eth of it.
#[derive(Clone, Copy)]
pub(super) struct Place {
    segment: usize,
    block: i64,
    at: usize,
    number: u64,
}

/// The places of the words of these segments, all of one shard, that have each of these parts.
pub(super) fn with(
    files: &Files,
    conn: &Connection,
    segments: &[Segment],
    parts: &[&WordPart],
) -> Result<Vec<Vec<Place>>, Failure> {
    let listed: Vec<Vec<u8>> = parts.iter().map(|part| part.listed()).collect();
    let finders: Vec<memmem::Finder<'_>> = listed.iter().map(memmem::Finder::new).collect();
    let mut found = vec![Vec::new(); parts.len()];
    for (segment, of) in segments.iter().enumerate() {
        if let Some(known) = Vocabulary::of(files, conn, of)? {
            for (finder, found) in finders.iter().zip(&mut found) {
                known.each_with(finder, &mut |block, at, word| {
                    found.push(Place {
                        segment,
                        block,
                        at,
                        number: number(word),
                    });
                });
            }
            continue;
        }
        each_block(conn, of, &mut |block, words| {
            for (finder, found) in finders.iter().zip(&mut found) {
                in_block(words, finder, (segment, block), found);
            }
        })?;
    }
    Ok(found)
}

fn in_block(
    words: &[u8],
    finder: &memmem::Finder<'_>,
    (segment, block): (usize, i64),
    found: &mut Vec<Place>,
) {
    let (mut from, mut at) = (0, 0);
    each_with(words, finder, &mut |start, word| {
        // As many line ends as words stand before it, and one.
        let passed = words.get(from..start).unwrap_or_default();
        at += memchr_iter(b'\n', passed).count();
        from = start;
        found.push(Place {
            segment,
            block,
            at: at.saturating_sub(1),
            number: number(word),
        });
    });
}

/// The places of a word.
pub(super) fn of_word(
    conn: &Connection,
    segments: &[Segment],
    word: &WordPart,
) -> Result<Vec<Place>, Failure> {
    let number = number(&word.text).cast_signed();
    let (listed, mut found) = (word.listed(), Vec::new());
    let finder = memmem::Finder::new(&listed);
    let sql = "SELECT first, words FROM spelling WHERE shard = ?1 AND segment = ?2 AND first <= ?3
        ORDER BY first DESC LIMIT 1";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    for (segment, of) in segments.iter().enumerate() {
        let mut rows = statement
            .query([of.shard, of.id, number])
            .map_err(failure)?;
        if let Some(row) = rows.next().map_err(failure)? {
            let words = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
            let place = (segment, row.get(0).map_err(failure)?);
            in_block(words.map_err(failure)?, &finder, place, &mut found);
        }
    }
    Ok(found)
}

/// Puts the documents of these places, which come in the order they were found in, into `documents`, in order.
pub(super) fn read(
    conn: &Connection,
    segments: &[Segment],
    places: &[Place],
    documents: &mut Vec<DocumentNo>,
) -> Result<(), Failure> {
    let sql = "SELECT lists FROM posting WHERE shard = ?1 AND segment = ?2 AND first = ?3";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let same = |a: &Place, b: &Place| (a.segment, a.block) == (b.segment, b.block);
    for places in places.chunk_by(same) {
        let Some((first, of)) = places
            .first()
            .and_then(|p| Some((p, segments.get(p.segment)?)))
        else {
            continue;
        };
        let mut rows = statement
            .query([of.shard, of.id, first.block])
            .map_err(failure)?;
        let row = rows.next().map_err(failure)?;
        let row = row.ok_or_else(|| malformed("posting"))?;
        let lists = row.get_ref(0).and_then(|v| Ok(v.as_blob()?));
        let (mut lists, mut passed) = (Lists(lists.map_err(failure)?), 0);
        for place in places {
            let list = lists.nth(place.at - passed);
            passed = place.at + 1;
            match list.ok_or_else(|| malformed("posting"))? {
                List::Short(list) => postings::read(of.first, list, documents)?,
                List::Long => blocks::long(conn, of, place.number, documents)?,
            }
        }
    }
    postings::settle(documents);
    Ok(())
}
