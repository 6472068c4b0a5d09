//! The junctions of a segment with the documents that have them: pairs of both as numbers, in sets of some thousands.
//!
//! A pair goes by the junction times how many numbers the segment spans, and the document's place in it. Pairs are alike:
//! each is there with the same chance, so that their distances are those of numbers drawn by chance.

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;
use rusqlite::{Connection, params};

use super::rows::{all, one, run};
use super::segments::Segment;
use super::sparse;
use crate::error::failure;

/// A set has at most so many bytes: it lies within its page.
const SET: usize = 3_900;

/// A junction and a document that has it.
pub(super) type Pair = (u16, DocumentNo);

/// How many documents a segment has room for.
fn span(of: &Segment) -> u64 {
    of.last - of.first + 1
}

fn number(of: &Segment, (junction, document): Pair) -> u64 {
    u64::from(junction) * span(of) + document.saturating_sub(of.first)
}

fn pair(of: &Segment, number: u64) -> Pair {
    let junction = u16::try_from(number / span(of)).unwrap_or(u16::MAX);
    (junction, of.first + number % span(of))
}

/// Shows `each` the numbers of a set with their pairs.
fn each_pair(
    of: &Segment,
    first: i64,
    set: &[u8],
    mut each: impl FnMut(u64, Pair),
) -> Result<(), Failure> {
    let (first, span) = (first.cast_unsigned(), span(of));
    let (mut junction, _) = pair(of, first);
    let mut begin = u64::from(junction) * span;
    sparse::decode(first, set, |number| {
        // A division takes longer than the number itself.
        while number - begin >= span {
            begin += span;
            junction = junction.saturating_add(1);
        }
        each(number, (junction, of.first + (number - begin)));
        true
    })
}

/// Writes pairs of a segment, in order.
pub(super) fn put(
    conn: &Connection,
    of: &Segment,
    pairs: impl Iterator<Item = Pair>,
) -> Result<(), Failure> {
    let mut numbers = Vec::with_capacity(sparse::NUMBERS);
    for pair in pairs {
        if numbers.len() == sparse::NUMBERS {
            put_set(conn, of, &numbers)?;
            numbers.clear();
        }
        numbers.push(number(of, pair));
    }
    put_set(conn, of, &numbers)
}

fn put_set(conn: &Connection, of: &Segment, numbers: &[u64]) -> Result<(), Failure> {
    let Some(first) = numbers.first() else {
        return Ok(());
    };
    let set = sparse::encode(numbers);
    if set.len() > SET && numbers.len() > 1 {
        let (one, other) = numbers.split_at(numbers.len() / 2);
        put_set(conn, of, one)?;
        return put_set(conn, of, other);
    }
    let sql = "INSERT INTO junction (shard, segment, first, pairs) VALUES (?1, ?2, ?3, ?4)";
    let row = params![of.shard, of.id, first.cast_signed(), set];
    run(conn, sql, row).map(|_| ())
}

/// Puts the documents of a segment that have a junction, or another one that goes by the same number, into `documents`.
pub(super) fn read(
    conn: &Connection,
    of: &Segment,
    junction: u16,
    documents: &mut Vec<DocumentNo>,
) -> Result<(), Failure> {
    let begin = u64::from(junction) * span(of);
    let end = begin + span(of);
    // The set in which they begin, and those behind it.
    let sql = "SELECT first, pairs FROM junction WHERE shard = ?1 AND segment = ?2 AND first < ?4
        AND first >= coalesce((SELECT max(first) FROM junction WHERE shard = ?1 AND segment = ?2 AND first <= ?3), ?3)";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let row = [of.shard, of.id, begin.cast_signed(), end.cast_signed()];
    let mut rows = statement.query(row).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        let first: i64 = row.get(0).map_err(failure)?;
        let set = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
        sparse::decode(first.cast_unsigned(), set.map_err(failure)?, |number| {
            if number >= begin && number < end {
                documents.push(of.first + (number - begin));
            }
            number < end
        })?;
    }
    Ok(())
}

/// The least junction of a segment.
pub(super) fn least(conn: &Connection, of: &Segment) -> Result<Option<u16>, Failure> {
    let sql = "SELECT min(first) FROM junction WHERE shard = ?1 AND segment = ?2";
    let first = one(conn, sql, [of.shard, of.id], |row| {
        row.get::<_, Option<i64>>(0)
    })?;
    Ok(first
        .flatten()
        .map(|first| pair(of, first.cast_unsigned()).0))
}

/// Takes the pairs of a segment whose junctions are below `end` out of it, and puts them into `taken`, in order.
pub(super) fn take(
    conn: &Connection,
    of: &Segment,
    end: u64,
    taken: &mut Vec<Pair>,
) -> Result<(), Failure> {
    let end = end * span(of);
    let sql = "SELECT first, pairs FROM junction WHERE shard = ?1 AND segment = ?2 AND first < ?3";
    let row = [of.shard, of.id, end.cast_signed()];
    for (first, set) in sets(conn, sql, row)? {
        delete(conn, of, first)?;
        let mut left = Vec::new();
        each_pair(of, first, &set, |number, pair| match number < end {
            true => taken.push(pair),
            false => left.push(number),
        })?;
        put_set(conn, of, &left)?;
    }
    Ok(())
}

/// Strikes documents, in order, from a segment.
pub(super) fn strike(
    conn: &Connection,
    of: &Segment,
    documents: &[DocumentNo],
) -> Result<(), Failure> {
    let (Some(first), Some(last)) = (documents.first(), documents.last()) else {
        return Ok(());
    };
    let sql = "SELECT first, pairs FROM junction WHERE shard = ?1 AND segment = ?2";
    let mut changed = Vec::new();
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query([of.shard, of.id]).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        let begin: i64 = row.get(0).map_err(failure)?;
        let set = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
        let (mut left, mut struck) = (Vec::new(), false);
        each_pair(of, begin, set.map_err(failure)?, |number, (_, document)| {
            let near = (*first..=*last).contains(&document);
            match near && documents.binary_search(&document).is_ok() {
                true => struck = true,
                false => left.push(number),
            }
        })?;
        if struck {
            changed.push((begin, left));
        }
    }
    for (begin, left) in changed {
        delete(conn, of, begin)?;
        put_set(conn, of, &left)?;
    }
    Ok(())
}

type Sets = Vec<(i64, Vec<u8>)>;

fn sets(conn: &Connection, sql: &str, row: [i64; 3]) -> Result<Sets, Failure> {
    all(conn, sql, row, |row| Ok((row.get(0)?, row.get(1)?)))
}

fn delete(conn: &Connection, of: &Segment, first: i64) -> Result<(), Failure> {
    let sql = "DELETE FROM junction WHERE shard = ?1 AND segment = ?2 AND first = ?3";
    run(conn, sql, [of.shard, of.id, first]).map(|_| ())
}
