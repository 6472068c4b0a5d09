//! The query plans of searches, at realistic sizes.

use filrouge_store::contract::text_index::{
    IndexTestExt as _, document, matching_bodies, shard, texts, update,
};
use filrouge_store::text_index::{Coverage, NewDocument, TextIndex};
use filrouge_testbed::Database;

use super::index_at;
use crate::database;

const WORDS: [&str; 12] = [
    "commit", "branch", "parser", "socket", "tenant", "ledger", "window", "cursor", "schema",
    "vector", "folder", "number",
];

/// Sessions of four owners in two realms, each with `sessions` × 25 documents of 200 words. The unique word of a
/// document is `own` and its number.
fn fill(database: &Database, sessions: usize) {
    let index = index_at(&database.url());
    for n in 0..sessions * 4 {
        let shard = shard(["r", "q"][n % 4 / 2], ["a", "b"][n % 2]);
        let text = |d: usize| {
            let words = (0..200).map(|w| WORDS[(w * w + w * n + d * 7 + n) % WORDS.len()]);
            format!("{} own{n:05}x{d:02}", words.collect::<Vec<_>>().join(" "))
        };
        let document_of = |d: usize| document(&d.to_string(), d as u64, &text(d));
        let documents: Vec<NewDocument> = (0..25).map(document_of).collect();
        let session = update(&shard, &format!("s{n}"), Coverage::All, documents);
        index.apply(&[session], None).unwrap();
    }
}

/// The plan of the query in `find.rs` for a word in a shard, with the number of rows read.
fn plan(database: &Database, word: &str) -> String {
    let sql = format!(
        "SET search_path = pg_catalog; SET enable_seqscan = off;
         EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off)
         SELECT d.no, d.session, d.kind, d.created FROM filrouge.search_document d
         WHERE d.shard = (SELECT o.no FROM filrouge.search_shard o WHERE o.realm = 'r' AND o.owner = 'a')
             AND (d.folded LIKE '%{word}%')"
    );
    let rows = database.sql(&sql);
    let lines: Vec<String> = rows
        .into_iter()
        .filter_map(|mut row| row.remove(0))
        .collect();
    lines.join("\n")
}

#[test]
fn words_are_found_by_the_trigram_index() {
    let database = database();
    fill(&database, 10);
    let index = index_at(&database.url());
    // The statistics that the planner uses are those after `tidy`, then those after autovacuum.
    for maintenance in ["tidy", "autovacuum"] {
        match maintenance {
            "tidy" => assert!(!index.tidy().unwrap()),
            _ => drop(database.sql("VACUUM ANALYZE filrouge.search_document")),
        }
        for word in ["own00004x07", "own00004", "wn00004x0"] {
            let plan = plan(&database, word);
            assert!(
                plan.contains("Bitmap Index Scan on search_words"),
                "{maintenance} {word}: {plan}"
            );
            // The plan reads no other owner's document, not even to filter it out.
            assert!(!plan.contains("Removed by Filter"), "{plan}");
        }
        // A frequent word, and words without trigrams: the plan reads at most all of the owner's documents, out of
        // 1,000.
        for word in ["ledger", "\u{5b66}\u{4e60}", "w "] {
            let plan = plan(&database, word);
            let (_, scan) = plan
                .split_once("Bitmap Index Scan on search_words (actual rows=")
                .unwrap();
            let rows: u64 = scan.split(' ').next().unwrap().parse().unwrap();
            assert!(rows <= 250 && !plan.contains("Removed by Filter"), "{plan}");
        }
    }
}

/// The server has `pg_trgm` without `btree_gin`.
#[test]
fn without_btree_gin_two_indexes_are_combined() {
    let database = database();
    database.sql(
        "DROP INDEX filrouge.search_words; DROP EXTENSION btree_gin;
         CREATE INDEX search_words ON filrouge.search_document USING gin (folded filrouge.gin_trgm_ops)",
    );
    fill(&database, 10);
    database.sql("VACUUM ANALYZE filrouge.search_document");
    let plan = plan(&database, "own00004x07");
    assert!(plan.contains("Bitmap Index Scan on search_words"), "{plan}");
    let index = index_at(&database.url());
    assert_eq!(
        matching_bodies(&index, &shard("r", "a"), &["own00004x07"]).len(),
        1
    );
    assert!(matching_bodies(&index, &shard("r", "b"), &["own00004x07"]).is_empty());
}

/// A plan made while the index was empty is not kept.
#[test]
fn queries_are_planned_each_time() {
    let database = database();
    let index = index_at(&database.url());
    for _ in 0..10 {
        assert!(matching_bodies(&index, &shard("r", "a"), &["own00004x07"]).is_empty());
    }
    fill(&database, 10);
    index.tidy().unwrap();
    let scans = || {
        let sql = "SELECT pg_stat_clear_snapshot();
            SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'search_words'";
        let rows = database.sql(sql);
        rows.last().unwrap()[0]
            .as_ref()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let before = scans();
    assert_eq!(
        matching_bodies(&index, &shard("r", "a"), &["own00004x07"]).len(),
        1
    );
    drop(index);
    crate::servers::block_on(crate::servers::callers::eventually(
        "the server reports its counters",
        || scans() > before,
    ));
}

/// Includes the wildcards of `LIKE`, and NUL, which a text in PostgreSQL cannot contain.
#[test]
fn every_character_matches_itself() {
    let database = database();
    let index = index_at(&database.url());
    let a = shard("r", "a");
    let bodies = [
        "snake_case",
        "snakeXcase",
        "100% sure",
        "100 sure",
        "c:\\temp",
        "nul\0here",
        "tab\there",
    ];
    index.apply(&[texts(&a, "s", &bodies)], None).unwrap();
    for (n, word) in [
        (0, "snake_case"),
        (2, "100% su"),
        (4, "c:\\temp"),
        (4, ":\\t"),
        (5, "nul\0here"),
    ] {
        let shown = matching_bodies(&index, &a, &[word]);
        assert_eq!(shown, [format!("{n}={}", bodies[n])], "{word}");
    }
}
