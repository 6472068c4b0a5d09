//! Queries between the steps of merges, and interruptions at any step.

use filrouge_store::contract::text_index::{
    IndexTestExt as _, matching_bodies, query, query_bodies, shard, texts, tidy_fully,
};
use filrouge_store::text_index::{IndexScope, SessionSelection, TextIndex};
use rusqlite::Connection;

use super::index_at;

/// Sixteen words that few other documents contain.
fn noise(n: usize) -> String {
    let mut state = n as u64 + 1;
    let mut letter = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        char::from(b'g' + (state >> 60) as u8)
    };
    let mut word = || (0..6).map(|_| letter()).collect::<String>();
    (0..16).map(|_| word()).collect::<Vec<_>>().join(" ")
}

/// Writes segments of eighty documents each.
fn fill(index: &dyn TextIndex, rounds: usize) {
    for round in 0..rounds {
        let all: Vec<String> = (0..80)
            .map(|n| format!("apple r{round}n{n} é中{n} {}", noise(round * 80 + n)))
            .collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let update = texts(&shard("r", "a"), &format!("s{round}"), &all);
        index.apply(&[update], None).unwrap();
    }
}

fn query_number(path: &std::path::Path, sql: &str) -> i64 {
    let raw = Connection::open(path).unwrap();
    raw.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The size of all lists.
const LISTS: &str = "SELECT (SELECT sum(length(lists)) FROM posting) + (SELECT ifnull(sum(length(documents)), 0) FROM long_posting)";
const SEGMENTS: &str = "SELECT count(*) FROM segment";

#[test]
fn every_document_is_found_between_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let a = shard("r", "a");
    let index = index_at(&path);
    fill(&index, 9);
    assert_eq!(query_number(&path, SEGMENTS), 9);
    let scope = IndexScope::Shard(a.clone());
    let mut steps = 0;
    while index.tidy().unwrap() {
        steps += 1;
        // A second process continues the interrupted merge; one session changes and one is forgotten during it.
        let other = index_at(&path);
        if steps == 1 {
            other
                .apply(&[texts(&a, "s3", &["plum r3n9"])], None)
                .unwrap();
        }
        if steps == 2 {
            assert_eq!(other.forget(b"r", "s4").unwrap(), 80);
        }
        for (word, hits) in [("r2n79", 1), ("apple r8n", 80), ("中7", 9 * 11)] {
            let gone = if word == "中7" { 11 * steps.min(2) } else { 0 };
            assert_eq!(
                matching_bodies(&other, &a, &[word]).len(),
                hits - gone,
                "{word} {steps}"
            );
        }
        assert_eq!(matching_bodies(&other, &a, &["r3n9"]), ["0=plum r3n9"]);
    }
    assert!(steps > 2);
    assert_eq!(query_number(&path, SEGMENTS), 2);
    assert_eq!(query_bodies(&index, &query(&scope, &[])).len(), 7 * 80 + 1);
}

#[test]
fn a_merge_drops_removed_documents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let index = index_at(&path);
    fill(&index, 3);
    let before = query_number(&path, LISTS);
    fill(&index, 3);
    tidy_fully(&index);
    assert_eq!(query_number(&path, "SELECT count(*) FROM gone"), 0);
    assert!(query_number(&path, LISTS) < before * 3 / 2);
    assert_eq!(
        matching_bodies(&index, &shard("r", "a"), &["apple"]).len(),
        240
    );
}

#[test]
fn a_segment_within_another_is_rebuilt_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let a = shard("r", "a");
    let index = index_at(&path);
    fill(&index, 4);
    // A segment with enough text for the next level, between smaller segments that are merged.
    let pad = "pear ".repeat(1_800);
    let large: Vec<String> = (0..300).map(|n| format!("{n} {pad}")).collect();
    let large: Vec<&str> = large.iter().map(String::as_str).collect();
    index.apply(&[texts(&a, "large", &large)], None).unwrap();
    for round in 4..8 {
        let more: Vec<String> = (0..80).map(|n| format!("plum r{round}n{n}")).collect();
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let update = texts(&a, &format!("more{round}"), &more);
        index.apply(&[update], None).unwrap();
    }
    tidy_fully(&index);
    assert_eq!(query_number(&path, SEGMENTS), 2);
    index
        .apply(&[texts(&a, "large", &["pear alone"])], None)
        .unwrap();
    tidy_fully(&index);
    let steps = (0..50).take_while(|_| index.tidy().unwrap()).count();
    assert_eq!(steps, 0);
    assert_eq!(matching_bodies(&index, &a, &["pear"]), ["0=pear alone"]);
    assert_eq!(matching_bodies(&index, &a, &["plum"]).len(), 320);
}

#[test]
fn cached_words_are_current() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let a = shard("r", "a");
    // One process queries repeatedly; the other one makes changes that the first does not know of.
    let (reader, writer) = (index_at(&path), index_at(&path));
    let assert_finds = |word: &str, count: usize| {
        for _ in 0..3 {
            assert_eq!(matching_bodies(&reader, &a, &[word]).len(), count, "{word}");
        }
    };
    fill(&writer, 2);
    assert_finds("ppl", 160);
    assert_finds("1n7", 11);
    fill(&writer, 9);
    assert_finds("ppl", 720);
    assert_finds("8n7", 11);
    tidy_fully(&writer);
    assert_finds("ppl", 720);
    assert_finds("8n7", 11);
    writer.forget(b"r", "s8").unwrap();
    assert_finds("ppl", 640);
    assert_finds("8n7", 0);
    assert_finds("7n7", 11);
    reader.forget(b"r", "s7").unwrap();
    assert_finds("7n7", 0);
    assert_finds("6n7", 11);
    writer.clear().unwrap();
    assert_finds("ppl", 0);
    fill(&writer, 1);
    assert_finds("ppl", 80);
}

#[test]
fn sessions_are_selected_by_few_or_many_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let (reader, writer) = (index_at(&path), index_at(&path));
    let a = shard("r", "a");
    let add_sessions = |from: u32, to: u32| {
        let updates: Vec<_> = (from..to)
            .map(|n| texts(&a, &format!("s{n}"), &["word"]))
            .collect();
        writer.apply(&updates, None).unwrap();
    };
    let scope = IndexScope::Shard(a.clone());
    for (from, to) in [(0, 100), (100, 150)] {
        add_sessions(from, to);
        let numbers: Vec<_> = writer
            .sessions(&scope)
            .unwrap()
            .iter()
            .map(|s| s.no)
            .collect();
        assert_eq!(numbers.len(), to as usize);
        let state_of = |numbers| {
            reader
                .state(SessionSelection::Numbers(&scope, numbers))
                .unwrap()
        };
        let many = state_of(&numbers).sessions;
        assert_eq!(many, reader.sessions(&scope).unwrap());
        assert_eq!(*state_of(&numbers[..3]).sessions, many[..3]);
    }
}
