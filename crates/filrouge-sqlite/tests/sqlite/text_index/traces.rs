//! No page of any file contains a trace of forgotten documents.

use std::path::{Path, PathBuf};

use filrouge_store::contract::text_index::{
    IndexTestExt as _, document, matching_bodies, numbers, query, shard, texts, tidy_fully, update,
};
use filrouge_store::text_index::{Coverage, IndexScope, IndexUpdate, TextIndex};
use rusqlite::Connection;

use super::decoded::{Decoded, decode};
use super::index_at;

/// A text that only forgotten documents contain.
const SECRET: &str = "xylophonequartz";

fn files(path: &Path) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(path.parent().unwrap()).unwrap();
    folder.map(|entry| entry.unwrap().path()).collect()
}

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|w| w == word.as_bytes())
}

/// Whether any page of any file contains the word, in plain or in a zstd frame.
fn contains_trace(path: &Path, word: &str) -> bool {
    files(path).iter().any(|file| {
        let bytes = std::fs::read(file).unwrap();
        let magic = [0x28, 0xB5, 0x2F, 0xFD];
        let frames = bytes.windows(4).enumerate().filter(|(_, w)| *w == magic);
        let mut unpacked = frames.filter_map(|(at, _)| {
            let mut reader = zstd::stream::read::Decoder::new(&bytes[at..])
                .ok()?
                .single_frame();
            let mut text = Vec::new();
            // From a truncated frame, the remaining part is decompressed.
            let _ = std::io::Read::read_to_end(&mut reader, &mut text);
            Some(text)
        });
        contains(&bytes, word) || unpacked.any(|text| contains(&text, word))
    })
}

#[test]
fn forgotten_documents_leave_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let a = shard("r", "a");
    let long = format!("{SECRET} and words {}", "of no meaning ".repeat(900));
    for (round, tidy) in [false, true].into_iter().enumerate() {
        let index = index_at(&path);
        let others: Vec<String> = (0..120)
            .map(|n| format!("words of {round} {n} of all"))
            .collect();
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let apply_others = |index: &dyn TextIndex| {
            index
                .apply(&[texts(&a, &format!("t{round}"), &others)], None)
                .unwrap();
        };
        apply_others(&index);
        let documents = vec![
            document("0", 0, SECRET),
            document("1", 0, &long),
            document(SECRET, 1, "x"),
        ];
        let fruit = document("2", 2, "words of fruit");
        let documents = documents.into_iter().chain([fruit]).collect();
        index
            .apply(&[update(&a, "s", Coverage::All, documents)], None)
            .unwrap();
        // Enough documents to be written to postings together.
        let many: Vec<_> = (0..70)
            .map(|n| {
                document(
                    &format!("n{n}"),
                    if n == 3 { 4 } else { 3 },
                    &format!("{SECRET}{n}"),
                )
            })
            .collect();
        index
            .apply(&[update(&a, "s", Coverage::Units(Vec::new()), many)], None)
            .unwrap();
        let scope = IndexScope::Shard(a.clone());
        let session = [index.session(b"r", "s").unwrap().unwrap().no];
        let mut of_s = query(&scope, &[]);
        of_s.sessions = Some(&session);
        let mut forgotten = numbers(&index.candidates(&of_s).unwrap());
        // Postings also contain an older state of the session.
        index
            .apply(
                &[update(
                    &a,
                    "s",
                    Coverage::Units(vec![4]),
                    vec![document("n4", 3, "new")],
                )],
                None,
            )
            .unwrap();
        forgotten.extend(numbers(&index.candidates(&of_s).unwrap()));
        if tidy {
            tidy_fully(&index);
            apply_others(&index);
            tidy_fully(&index);
        }
        assert!(contains_trace(&path, SECRET));
        assert_eq!(index.forget(b"r", "s").unwrap(), 73);
        assert!(!contains_trace(&path, SECRET));
        let wal = files(&path)
            .into_iter()
            .find(|f| f.to_string_lossy().ends_with("-wal"));
        let wal = wal.map(|wal| std::fs::read(wal).unwrap());
        assert!(!wal.is_some_and(|wal| contains(&wal, SECRET)));
        let Decoded { numbers, words } = decode(&path);
        assert!(!numbers.is_empty());
        assert_eq!(numbers.iter().find(|no| forgotten.contains(no)), None);
        let remaining = words.iter().find(|word| word.contains(SECRET));
        assert_eq!(remaining, None);
        let raw = Connection::open(&path).unwrap();
        for (table, column) in [
            ("document", "id"),
            ("body", "document"),
            ("pending", "document"),
            ("gone", "document"),
            ("vector", "document"),
        ] {
            for no in &forgotten {
                let sql = format!("SELECT count(*) FROM {table} WHERE {column} = ?1");
                let count: i64 = raw
                    .query_row(&sql, [no.cast_signed()], |row| row.get(0))
                    .unwrap();
                assert_eq!(count, 0, "{table}");
            }
        }
        drop(raw);
        assert_eq!(
            matching_bodies(&index, &a, &["words of", "all"]).len(),
            120 * (round + 1)
        );
    }
}

#[test]
fn a_removed_session_leaves_no_trace_after_it_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let a = shard("r", "a");
    let index = index_at(&path);
    let many: Vec<String> = (0..100).map(|n| format!("{SECRET}{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    index
        .apply(&[texts(&a, "s", &many), texts(&a, "t", &["words"])], None)
        .unwrap();
    index
        .apply(&[IndexUpdate::Removed(((*b"r").into(), "s".into()))], None)
        .unwrap();
    assert_eq!(index.forget(b"r", "s").unwrap(), 0);
    assert!(!contains_trace(&path, SECRET));
    let Decoded { numbers, words } = decode(&path);
    assert!(!words.iter().any(|word| word.contains(SECRET)));
    assert_eq!(numbers.iter().max(), numbers.iter().min());
}

#[test]
fn clear_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let index = index_at(&path);
    let a = shard("r", "a");
    index.apply(&[texts(&a, "s", &[SECRET; 3])], None).unwrap();
    let scope = IndexScope::Shard(a);
    let no = numbers(&index.candidates(&query(&scope, &[])).unwrap())[0];
    index
        .put_vectors("m", &[(no, SECRET.bytes().map(u8::cast_signed).collect())])
        .unwrap();
    assert!(contains_trace(&path, SECRET));
    index.clear().unwrap();
    assert!(!contains_trace(&path, SECRET));
}

#[test]
fn an_erasure_delayed_by_a_reader_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let index = index_at(&path);
    let a = shard("r", "a");
    index.apply(&[texts(&a, "s", &[SECRET])], None).unwrap();
    let scope = IndexScope::Shard(a.clone());
    let reader = Connection::open(&path).unwrap();
    let count = "SELECT count(*) FROM document";
    reader.execute_batch("BEGIN").unwrap();
    let before: i64 = reader.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(before, 1);
    std::thread::scope(|threads| {
        let late = threads.spawn(|| index.forget(b"r", "s"));
        // New queries no longer see the session; `forget` waits for the running reader.
        while index
            .candidates(&query(&scope, &[]))
            .is_ok_and(|found| !found.is_empty())
        {
            std::thread::yield_now();
        }
        reader.execute_batch("COMMIT").unwrap();
        assert_eq!(late.join().unwrap().unwrap(), 1);
    });
    assert!(!contains_trace(&path, SECRET));
}
