//! How the words of postings are spelled: by segment, in blocks, in the order of their numbers.
//!
//! A word is spelled in a segment as long as it has a posting there, and not longer: what is struck from postings is gone
//! from here as well.

use std::collections::{BTreeSet, HashSet};

use filrouge_types::Failure;
use memchr::{memchr, memmem, memrchr};
use rusqlite::{Connection, params};

use super::rows::{all, run};
use super::words::{WordPart, each_word, number};
use crate::error::failure;

/// A block has at most so many bytes, but for one whose only word is longer: it lies within its page.
const BLOCK: usize = 3_900;

/// Words with their numbers.
pub(super) type Spelled = Vec<(u64, Box<str>)>;

/// Spells words in a segment that has none of them, in the order of their numbers.
pub(super) fn put(
    conn: &Connection,
    [shard, level, segment]: [i64; 3],
    words: &Spelled,
) -> Result<(), Failure> {
    let sql =
        "INSERT INTO spelling (shard, level, segment, first, words) VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut insert = conn.prepare_cached(sql).map_err(failure)?;
    let mut block = Vec::with_capacity(BLOCK);
    let (mut first, mut before) = (0, None);
    for (no, word) in words {
        // Words that share a number stay together: no two blocks begin with the same one.
        let full = block.len() + word.len() + 1 > BLOCK && before != Some(*no);
        if full && !block.is_empty() {
            let row = params![shard, level, segment, first, block];
            insert.execute(row).map_err(failure)?;
            block.clear();
        }
        if block.is_empty() {
            block.push(b'\n');
            first = no.cast_signed();
        }
        block.extend(word.as_bytes());
        block.push(b'\n');
        before = Some(*no);
    }
    if !block.is_empty() {
        let row = params![shard, level, segment, first, block];
        insert.execute(row).map_err(failure)?;
    }
    Ok(())
}

/// Takes out of a segment what is spelled there up to the number `last`.
pub(super) fn take(
    conn: &Connection,
    at: [i64; 3],
    last: i64,
    taken: &mut Spelled,
) -> Result<(), Failure> {
    for (first, words) in blocks(conn, at, last)? {
        let (gone, left): (Spelled, Spelled) = read(&words)
            .map(|word| (number(word), Box::from(word)))
            .partition(|(no, _)| no.cast_signed() <= last);
        replace(conn, at, first, &left)?;
        taken.extend(gone);
    }
    Ok(())
}

/// Strikes words from a segment.
pub(super) fn strike(
    conn: &Connection,
    at: [i64; 3],
    numbers: &HashSet<u64>,
) -> Result<(), Failure> {
    for (first, words) in blocks(conn, at, i64::MAX)? {
        let is_left = |word: &&str| !numbers.contains(&number(word));
        if read(&words).all(|word| is_left(&word)) {
            continue;
        }
        let left = read(&words).filter(is_left);
        let left = left.map(|word| (number(word), word.into())).collect();
        replace(conn, at, first, &left)?;
    }
    Ok(())
}

/// The blocks of a segment that begin up to the number `last`.
fn blocks(
    conn: &Connection,
    [shard, level, segment]: [i64; 3],
    last: i64,
) -> Result<Vec<(i64, Vec<u8>)>, Failure> {
    let sql = "SELECT first, words FROM spelling WHERE shard = ?1 AND level = ?2 AND segment = ?3 AND first <= ?4";
    let row = [shard, level, segment, last];
    all(conn, sql, row, |row| Ok((row.get(0)?, row.get(1)?)))
}

fn replace(conn: &Connection, at: [i64; 3], first: i64, left: &Spelled) -> Result<(), Failure> {
    let [shard, level, segment] = at;
    let sql =
        "DELETE FROM spelling WHERE shard = ?1 AND level = ?2 AND segment = ?3 AND first = ?4";
    run(conn, sql, [shard, level, segment, first])?;
    put(conn, at, left)
}

/// The words of a folded text, as a list.
pub(super) fn list(folded: &str) -> Vec<u8> {
    let mut words = BTreeSet::new();
    each_word(folded, &mut |word| {
        if !words.contains(word) {
            words.insert(Box::<str>::from(word));
        }
    });
    let mut list = vec![b'\n'];
    for word in words {
        list.extend(word.as_bytes());
        list.push(b'\n');
    }
    list
}

/// The words of a list, each between line ends.
pub(super) fn read(words: &[u8]) -> impl Iterator<Item = &str> {
    let words = words.split(|byte| *byte == b'\n');
    words.filter_map(|word| {
        std::str::from_utf8(word)
            .ok()
            .filter(|word| !word.is_empty())
    })
}

/// Whether a list has a word with this part; `listed` is [`WordPart::listed`].
pub(super) fn has(words: &[u8], listed: &[u8]) -> bool {
    memmem::find(words, listed).is_some()
}

/// The numbers of the words of a shard that have each of these parts, in order.
pub(super) fn with(
    conn: &Connection,
    shard: i64,
    levels: &[i64],
    parts: &[&WordPart],
) -> Result<Vec<Vec<u64>>, Failure> {
    let listed: Vec<Vec<u8>> = parts.iter().map(|part| part.listed()).collect();
    let finders: Vec<memmem::Finder<'_>> = listed.iter().map(memmem::Finder::new).collect();
    let mut found = vec![Vec::new(); parts.len()];
    let sql = "SELECT words FROM spelling WHERE shard = ?1 AND level = ?2";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    for level in levels {
        let mut rows = statement.query([shard, *level]).map_err(failure)?;
        while let Some(row) = rows.next().map_err(failure)? {
            let words = row.get_ref(0).and_then(|v| Ok(v.as_blob()?));
            let words = words.map_err(failure)?;
            for (finder, found) in finders.iter().zip(&mut found) {
                each_with(words, finder, &mut |word| found.push(number(word)));
            }
        }
    }
    for found in &mut found {
        found.sort_unstable();
        found.dedup();
    }
    Ok(found)
}

/// Shows `each` the words of a list in which something stands.
fn each_with(words: &[u8], finder: &memmem::Finder<'_>, each: &mut impl FnMut(&str)) {
    let mut from = 0;
    while let Some(at) = words.get(from..).and_then(|rest| finder.find(rest)) {
        let at = from + at;
        // What begins with a line end is in the word behind it.
        let inside = at + usize::from(words.get(at) == Some(&b'\n'));
        let start = words.get(..inside).and_then(|w| memrchr(b'\n', w));
        let start = start.map_or(0, |at| at + 1);
        let behind = words.get(inside..).and_then(|rest| memchr(b'\n', rest));
        let end = behind.map_or(words.len(), |len| inside + len);
        let word = words.get(start..end).map(std::str::from_utf8);
        if let Some(Ok(word)) = word {
            each(word);
        }
        from = end.max(at + 1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text_index::words::parts;

    proptest! {
        #[test]
        fn words_are_found_by_their_parts(words in proptest::collection::vec("[abé]{1,5}", 0..20), literal in "[abé]{1,3}", begins: bool, ends: bool) {
            let list = format!("\n{}\n", words.join("\n"));
            let mut part = parts(&literal).remove(0);
            (part.begins, part.ends) = (begins, ends);
            let listed = part.listed();
            let mut found = Vec::new();
            each_with(list.as_bytes(), &memmem::Finder::new(&listed), &mut |word| found.push(word.to_owned()));
            let is = |word: &&String| match (begins, ends) {
                (true, true) => **word == literal,
                (true, false) => word.starts_with(&literal),
                (false, true) => word.ends_with(&literal),
                (false, false) => word.contains(&literal),
            };
            let expected: Vec<String> = words.iter().filter(is).cloned().collect();
            prop_assert_eq!(has(list.as_bytes(), &listed), !expected.is_empty());
            prop_assert_eq!(found, expected);
        }
    }
}
