//! Redacted contents are in no file: neither in the database nor in its WAL.

use std::path::Path;
use std::process::{Command, Stdio};

use filrouge_store::command::RedactionTarget;
use filrouge_store::contract::fixture::{
    Fixture, anyone, finalize, item, keyed, redact, redact_items, rid, sid,
};
use filrouge_types::{Channel, Item, ItemBody, Turn};
use rusqlite::Connection;

use super::{fixture_at, keyring};

mod sessions;

/// The environment variable that names the folder of the child process.
const FOLDER: &str = "FILROUGE_TEST_ERASURE";

fn block_on(work: impl std::future::Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(work);
}

/// A text that no other session or item contains.
fn words(session: &str, n: usize, length: usize) -> String {
    let mut state = session.bytes().map(u64::from).sum::<u64>() + n as u64 * 7919;
    let mut text = format!("{session}-secret-{n} ");
    while text.len() < length {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        text += &format!("{:08x} ", state >> 32);
    }
    text
}

/// A turn of plain, compressed and large items, in several records.
async fn fill(f: &Fixture, session: &str, request: &str) -> Turn {
    let who = anyone();
    let turn = f.start(&who, session, request).await;
    for (n, length) in [10, 90, 400, 3000, 40_000, 20, 300_000]
        .into_iter()
        .enumerate()
    {
        let secret = words(&format!("{session}{request}"), n, length);
        let batch = vec![
            item(Channel::Thought, &secret),
            keyed(&format!("{request}{n}"), "k"),
        ];
        f.append(&who, &turn, batch).await.unwrap();
    }
    f.write_turn(&who, finalize(session, turn.turn_id, Some("an answer")))
        .await
        .unwrap()
}

/// Byte sequences that must disappear: the text, and pieces of the stored bodies, including salts and compressed
/// frames.
fn needles(path: &Path, session: &str, seqs: &[u64], items: &[Item]) -> Vec<Vec<u8>> {
    let conn = Connection::open(path).unwrap();
    let sql =
        "SELECT k.first_seq, k.count, r.body FROM record_key k JOIN record r ON r.id = k.record_id
         WHERE session_pk = (SELECT pk FROM session WHERE session_id = ?1)";
    let mut statement = conn.prepare(sql).unwrap();
    let read = |r: &rusqlite::Row<'_>| Ok((r.get(0)?, r.get(1)?, r.get(2)?));
    let rows = statement.query_map([session], read).unwrap();
    let mut needles = Vec::new();
    for row in rows {
        let (first, count, body): (i64, i64, Vec<u8>) = row.unwrap();
        let mut seqs_of_record = (first..first + count).map(i64::unsigned_abs);
        if seqs_of_record.all(|seq| seqs.contains(&seq)) && body.len() > 200 {
            // The leading fields of an uncompressed body are kept.
            needles.extend(
                body[100..]
                    .chunks(24)
                    .filter(|c| c.len() == 24)
                    .map(<[u8]>::to_vec),
            );
        }
    }
    for item in items.iter().filter(|i| seqs.contains(&i.seq)) {
        let text = item.body.parts.as_str().as_bytes();
        if text.windows(8).any(|w| w == b"-secret-") {
            needles.extend(
                text[25..]
                    .chunks(20)
                    .filter(|c| c.len() == 20)
                    .map(<[u8]>::to_vec),
            );
        }
    }
    needles
}

/// The salts of the items of uncompressed records.
fn salts(path: &Path, items: &[Item]) -> Vec<Vec<u8>> {
    let conn = Connection::open(path).unwrap();
    let mut statement = conn.prepare("SELECT body FROM record").unwrap();
    let bodies = statement.query_map([], |r| r.get::<_, Vec<u8>>(0)).unwrap();
    let mut salts = Vec::new();
    for body in bodies {
        let body = body.unwrap();
        for item in items.iter().filter(|i| i.body.parts.as_str().len() < 128) {
            let mut text = vec![u8::try_from(item.body.parts.as_str().len()).unwrap()];
            text.extend(item.body.parts.as_str().bytes());
            if let Some(at) = body.windows(text.len()).position(|w| *w == *text) {
                salts.push(body[at - 16..at].to_vec());
            }
        }
    }
    salts
}

/// The bytes of the store's files, concatenated.
fn bytes(path: &Path) -> Vec<u8> {
    let folder = path.parent().unwrap();
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // The folder of the writers' names has no contents.
        if path.is_file() {
            all.extend(std::fs::read(path).unwrap());
        }
    }
    all
}

fn count_matches(haystack: &[u8], needles: &[Vec<u8>]) -> usize {
    // Needles of one length are searched for together.
    let mut by_length =
        std::collections::BTreeMap::<usize, std::collections::HashSet<&[u8]>>::new();
    for needle in needles {
        by_length.entry(needle.len()).or_default().insert(needle);
    }
    let count = |(length, set): (&usize, &std::collections::HashSet<&[u8]>)| {
        let windows = haystack.windows(*length);
        windows.filter(|w| set.contains(w)).count()
    };
    by_length.iter().map(count).sum()
}

/// The size of the WAL in bytes.
fn wal_bytes(path: &Path) -> u64 {
    let path = path.with_extension("db-wal");
    std::fs::metadata(path).map_or(0, |m| m.len())
}

/// The number of erasures that the store has recorded as unfinished.
fn erasure_notes(path: &Path) -> i64 {
    let sql = "SELECT count(*) FROM store WHERE name = 'erasing'";
    let conn = Connection::open(path).unwrap();
    conn.query_row(sql, [], |r| r.get(0)).unwrap()
}

#[test]
fn no_file_keeps_redacted_contents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let f = fixture_at(&path, keyring());
    block_on(async {
        let who = anyone();
        let mut turns = Vec::new();
        for n in 0..6 {
            turns.push(fill(&f, "victim", &format!("r{n}")).await);
            fill(&f, "other", &format!("r{n}")).await;
        }
        let items = f.items(&who, "victim", 500).await;
        let others = f.items(&who, "other", 500).await;
        let span = |t: &Turn| (t.first_seq..=t.last_seq).collect::<Vec<u64>>();
        for turn in [&turns[0], &turns[3], &turns[5]] {
            let mut traces = needles(&path, "victim", &span(turn), &items);
            let of_turn: Vec<Item> = items
                .iter()
                .filter(|i| {
                    i.turn_id == Some(turn.turn_id) && i.body.parts.as_str().contains("secret")
                })
                .cloned()
                .collect();
            let salts = salts(&path, &of_turn);
            assert!(salts.len() >= 2 && traces.len() > 1000);
            traces.extend(salts);
            assert!(
                count_matches(&bytes(&path), &traces) > 1000,
                "present before"
            );
            f.redact_turn(&who, turn).await.unwrap();
            assert_eq!(
                count_matches(&bytes(&path), &traces),
                0,
                "at once, without a restart"
            );
        }
        // Redacts single items in records that keep their other items.
        let kept = &turns[1];
        let secret = items
            .iter()
            .find(|i| i.turn_id == Some(kept.turn_id) && i.body.parts.as_str().len() > 3000)
            .unwrap();
        let traces = needles(&path, "victim", &[secret.seq], &items);
        assert!(traces.len() > 20);
        let write = redact_items("victim", &[(secret.seq, secret.seq)]);
        f.write_redaction(&who, write).await.unwrap();
        assert_eq!(count_matches(&bytes(&path), &traces), 0);

        assert_eq!(f.items(&who, "other", 500).await, others);
        let now = f.items(&who, "victim", 500).await;
        for (old, new) in items.iter().zip(&now).filter(|(_, new)| !new.redacted) {
            assert_eq!(old, new);
        }
        f.assert_intact().await;
        f.ledger.close().await;
    });
    assert_eq!(erasure_notes(&path), 0);
}

/// A reader of an old snapshot prevents emptying the WAL; a later commit retries it.
#[test]
fn readers_delay_the_erasure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let f = fixture_at(&path, keyring());
    block_on(async {
        let who = anyone();
        let turn = fill(&f, "victim", "r").await;
        let items = f.items(&who, "victim", 500).await;
        let all: Vec<u64> = items.iter().map(|i| i.seq).collect();
        let traces = needles(&path, "victim", &all, &items);
        let reader = Connection::open(&path).unwrap();
        reader
            .execute_batch("BEGIN; SELECT count(*) FROM record")
            .unwrap();
        f.redact_turn(&who, &turn).await.unwrap();
        assert!(wal_bytes(&path) > 0 && erasure_notes(&path) == 1);
        assert!(
            count_matches(&bytes(&path), &traces) > 0,
            "the reader's snapshot"
        );
        f.complete_turn(&who, "other", "r1", "a").await;
        assert_eq!(erasure_notes(&path), 1);
        reader.execute_batch("COMMIT").unwrap();
        f.complete_turn(&who, "other", "r2", "a").await;
        assert_eq!(
            (count_matches(&bytes(&path), &traces), erasure_notes(&path)),
            (0, 0)
        );
        f.assert_intact().await;
        f.ledger.close().await;
    });
}

/// The child process: redacts while a reader prevents emptying the WAL, and aborts.
#[test]
fn child_aborts_after_a_redaction() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let path = Path::new(&folder).join("f.db");
    let f = fixture_at(&path, keyring());
    block_on(async {
        let id = f
            .keyring
            .turn_id(&anyone().tenant, &sid("victim"), &rid("r"));
        let reader = Connection::open(&path).unwrap();
        reader
            .execute_batch("BEGIN; SELECT count(*) FROM record")
            .unwrap();
        let write = redact("victim", RedactionTarget::Turn(id));
        f.write_redaction(&anyone(), write).await.unwrap();
        std::process::abort();
    });
}

#[test]
fn the_next_start_finishes_a_killed_erasure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let (mut traces, mut items_before) = (Vec::new(), Vec::<Item>::new());
    let f = fixture_at(&path, keyring());
    block_on(async {
        fill(&f, "victim", "r").await;
        items_before = f.items(&anyone(), "victim", 500).await;
        let all: Vec<u64> = items_before.iter().map(|i| i.seq).collect();
        traces = needles(&path, "victim", &all, &items_before);
    });
    // The ledger is kept open: closing it would empty the WAL too.
    let killed = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "erasure::child_aborts_after_a_redaction",
            "--nocapture",
        ])
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!killed.success());
    assert!(wal_bytes(&path) > 0);
    assert_eq!(erasure_notes(&path), 1);
    assert!(
        count_matches(&bytes(&path), &traces) > 0,
        "the WAL still holds them"
    );
    let next = fixture_at(&path, keyring());
    assert_eq!(
        (count_matches(&bytes(&path), &traces), erasure_notes(&path)),
        (0, 0)
    );
    block_on(async {
        let items = next.items(&anyone(), "victim", 500).await;
        assert_eq!(items.len(), items_before.len() + 1);
        next.assert_intact().await;
        f.assert_intact().await;
        f.ledger.close().await;
        next.ledger.close().await;
    });
}

/// Redacts single items of a batch that is stored as one record.
#[test]
fn redacting_part_of_a_compressed_record_keeps_its_other_items() {
    let f = super::fixture();
    block_on(async {
        let who = anyone();
        let turn = f.start(&who, "s", "r").await;
        let batch: Vec<ItemBody> = (0..60)
            .map(|n| item(Channel::Thought, &format!("{n} words ").repeat(20)))
            .collect();
        f.append(&who, &turn, batch).await.unwrap();
        let before = f.items(&who, "s", 100).await;
        for seq in [2, 61, 30, 31, 32] {
            f.write_redaction(&who, redact_items("s", &[(seq, seq)]))
                .await
                .unwrap();
            f.assert_intact().await;
        }
        for (old, new) in before.iter().zip(f.items(&who, "s", 100).await) {
            if [2, 61, 30, 31, 32].contains(&old.seq) {
                assert!(new.redacted && new.body.parts.as_str() == "[]");
            } else {
                assert_eq!(*old, new);
            }
        }
        f.ledger.close().await;
    });
}
