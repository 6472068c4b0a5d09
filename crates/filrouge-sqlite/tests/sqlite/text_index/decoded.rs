//! Decodes an index's postings from its tables according to docs/format.md, without the code that wrote them.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;

/// The document numbers in all lists, and all words.
pub(super) struct Decoded {
    pub(super) numbers: Vec<u64>,
    pub(super) words: Vec<String>,
}

/// Reads one variable-length number: the distance from a document number to the next.
fn read_distance(list: &mut &[u8]) -> u64 {
    let (mut distance, mut shift) = (0, 0);
    loop {
        let (byte, rest) = list.split_first().unwrap();
        *list = rest;
        distance |= u64::from(byte & 0x7F) << shift;
        shift += 7;
        if *byte < 0x80 {
            return distance;
        }
    }
}

fn decode_list(mut number: u64, mut list: &[u8], numbers: &mut Vec<u64>) {
    while !list.is_empty() {
        number += read_distance(&mut list);
        numbers.push(number);
    }
}

/// Decodes all postings; asserts that each word has a list, that each long list has a word, and that all numbers are
/// within their segment's range.
pub(super) fn decode(path: &Path) -> Decoded {
    let raw = Connection::open(path).unwrap();
    let rows = |sql: &str| {
        let mut statement = raw.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| {
            let number = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
            Ok((number(0)?, number(1)?, number(2)?, number(3)?, row.get(4)?))
        });
        let rows: Vec<(u64, u64, u64, u64, Vec<u8>)> = rows.unwrap().map(Result::unwrap).collect();
        rows
    };
    let (mut all, mut words) = (Vec::new(), Vec::new());
    let mut long = BTreeSet::new();
    let join_segment = "JOIN segment g ON g.shard = t.shard AND g.id = t.segment";
    let sql = format!(
        "SELECT g.id, g.first, g.last, t.word, t.documents FROM long_posting t {join_segment}"
    );
    for (segment, first, last, word, list) in rows(&sql) {
        let mut numbers = Vec::new();
        decode_list(first, &list, &mut numbers);
        assert!(numbers.iter().all(|no| (first..=last).contains(no)));
        all.extend(numbers);
        long.insert((segment, word));
    }
    let mut long_words = 0;
    let sql = format!(
        "SELECT g.id, g.first, g.last, t.first, t.words FROM spelling t {join_segment} ORDER BY t.shard, t.segment, t.first"
    );
    let blocks = rows(&sql);
    let sql = format!(
        "SELECT g.id, g.first, g.last, t.first, t.lists FROM posting t {join_segment} ORDER BY t.shard, t.segment, t.first"
    );
    let lists = rows(&sql);
    assert_eq!(blocks.len(), lists.len());
    for (block, (segment, first, last, begin, lists)) in blocks.iter().zip(lists) {
        assert_eq!((block.0, block.3), (segment, begin));
        let own = std::str::from_utf8(&block.4).unwrap();
        let mut lists = lists.as_slice();
        for word in own.strip_prefix('\n').unwrap().lines() {
            let (len, rest) = lists.split_first().unwrap();
            let (list, rest) = rest.split_at(usize::from(*len));
            lists = rest;
            long_words += usize::from(list.is_empty());
            let mut numbers = Vec::new();
            decode_list(first, list, &mut numbers);
            assert!(numbers.iter().all(|no| (first..=last).contains(no)));
            all.extend(numbers);
            words.push(word.to_owned());
        }
        assert!(lists.is_empty());
    }
    assert_eq!(
        long_words,
        long.len(),
        "a long list for each word without a short one"
    );
    for table in ["long_posting", "spelling", "posting"] {
        let sql = format!(
            "SELECT count(*) FROM {table} WHERE (shard, segment) NOT IN (SELECT shard, id FROM segment)"
        );
        let orphans: i64 = raw.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(orphans, 0, "{table}");
    }
    Decoded {
        numbers: all,
        words,
    }
}
