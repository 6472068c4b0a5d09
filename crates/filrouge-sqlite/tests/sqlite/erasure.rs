//! What was redacted is in no file any more: neither in the database nor in its WAL.

use std::path::Path;
use std::process::{Command, Stdio};

use filrouge_store::command::Target;
use filrouge_store::contract::fixture::{
    Fixture, anyone, finalize, item, keyed, redact, redact_items, rid, sid,
};
use filrouge_types::{Channel, Item, ItemBody, Turn};
use rusqlite::Connection;

use super::{keyring, on};

mod sessions;

/// Told to the process that dies: the folder it works in.
const FOLDER: &str = "FILROUGE_TEST_ERASURE";

fn block_on(work: impl std::future::Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(work);
}

/// Words that stand nowhere else.
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
    f.turn_of(&who, finalize(session, turn.turn_id, Some("an answer")))
        .await
        .unwrap()
}

/// What must not be found again: the text, and pieces of the stored bodies, salts and compressed frames among them.
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
        let mut its = (first..first + count).map(i64::unsigned_abs);
        if its.all(|seq| seqs.contains(&seq)) && body.len() > 200 {
            // Fields stand at the front of an unpacked body and stay.
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

/// The bytes of the store's files, one after the other.
fn bytes(path: &Path) -> Vec<u8> {
    let folder = path.parent().unwrap();
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        all.extend(std::fs::read(entry.unwrap().path()).unwrap());
    }
    all
}

fn found(haystack: &[u8], needles: &[Vec<u8>]) -> usize {
    // Needles of one length are looked up together.
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

fn wal(path: &Path) -> u64 {
    let path = path.with_extension("db-wal");
    std::fs::metadata(path).map_or(0, |m| m.len())
}

fn noted(path: &Path) -> i64 {
    let sql = "SELECT count(*) FROM store WHERE name = 'erasing'";
    let conn = Connection::open(path).unwrap();
    conn.query_row(sql, [], |r| r.get(0)).unwrap()
}

#[test]
fn nothing_is_left_in_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let f = on(&path, keyring());
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
            let mut gone = needles(&path, "victim", &span(turn), &items);
            let of_turn: Vec<Item> = items
                .iter()
                .filter(|i| {
                    i.turn_id == Some(turn.turn_id) && i.body.parts.as_str().contains("secret")
                })
                .cloned()
                .collect();
            let salts = salts(&path, &of_turn);
            assert!(salts.len() >= 2 && gone.len() > 1000);
            gone.extend(salts);
            assert!(found(&bytes(&path), &gone) > 1000, "they can be found");
            f.redact_turn(&who, turn).await.unwrap();
            assert_eq!(found(&bytes(&path), &gone), 0, "at once, while it runs");
        }
        // Single items in records that keep others.
        let kept = &turns[1];
        let secret = items
            .iter()
            .find(|i| i.turn_id == Some(kept.turn_id) && i.body.parts.as_str().len() > 3000)
            .unwrap();
        let gone = needles(&path, "victim", &[secret.seq], &items);
        assert!(gone.len() > 20);
        let write = redact_items("victim", &[(secret.seq, secret.seq)]);
        f.redacted(&who, write).await.unwrap();
        assert_eq!(found(&bytes(&path), &gone), 0);

        assert_eq!(f.items(&who, "other", 500).await, others);
        let now = f.items(&who, "victim", 500).await;
        for (old, new) in items.iter().zip(&now).filter(|(_, new)| !new.redacted) {
            assert_eq!(old, new);
        }
        f.intact().await;
        f.ledger.close().await;
    });
    assert_eq!(noted(&path), 0);
}

/// A reader on an old snapshot keeps the WAL; what it holds up is done with a later commit.
#[test]
fn readers_hold_it_up_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let f = on(&path, keyring());
    block_on(async {
        let who = anyone();
        let turn = fill(&f, "victim", "r").await;
        let items = f.items(&who, "victim", 500).await;
        let all: Vec<u64> = items.iter().map(|i| i.seq).collect();
        let gone = needles(&path, "victim", &all, &items);
        let reader = Connection::open(&path).unwrap();
        reader
            .execute_batch("BEGIN; SELECT count(*) FROM record")
            .unwrap();
        f.redact_turn(&who, &turn).await.unwrap();
        assert!(wal(&path) > 0 && noted(&path) == 1);
        assert!(found(&bytes(&path), &gone) > 0, "the reader's snapshot");
        f.whole(&who, "other", "r1", "a").await;
        assert_eq!(noted(&path), 1);
        reader.execute_batch("COMMIT").unwrap();
        f.whole(&who, "other", "r2", "a").await;
        assert_eq!((found(&bytes(&path), &gone), noted(&path)), (0, 0));
        f.intact().await;
        f.ledger.close().await;
    });
}

/// The other process: writes, redacts while a reader holds up the WAL, and dies.
#[test]
fn dies_behind_a_redaction() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let path = Path::new(&folder).join("f.db");
    let f = on(&path, keyring());
    block_on(async {
        let id = f
            .keyring
            .turn_id(&anyone().tenant, &sid("victim"), &rid("r"));
        let reader = Connection::open(&path).unwrap();
        reader
            .execute_batch("BEGIN; SELECT count(*) FROM record")
            .unwrap();
        let write = redact("victim", Target::Turn(id));
        f.redacted(&anyone(), write).await.unwrap();
        std::process::abort();
    });
}

#[test]
fn a_kill_leaves_the_rest_to_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let (mut gone, mut seen) = (Vec::new(), Vec::<Item>::new());
    let f = on(&path, keyring());
    block_on(async {
        fill(&f, "victim", "r").await;
        seen = f.items(&anyone(), "victim", 500).await;
        let all: Vec<u64> = seen.iter().map(|i| i.seq).collect();
        gone = needles(&path, "victim", &all, &seen);
    });
    // The ledger stays open, so that nothing but the redaction empties the WAL.
    let killed = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "erasure::dies_behind_a_redaction", "--nocapture"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!killed.success());
    assert!(wal(&path) > 0);
    assert_eq!(noted(&path), 1);
    assert!(found(&bytes(&path), &gone) > 0, "in the WAL it left");
    let next = on(&path, keyring());
    assert_eq!((found(&bytes(&path), &gone), noted(&path)), (0, 0));
    block_on(async {
        let items = next.items(&anyone(), "victim", 500).await;
        assert_eq!(items.len(), seen.len() + 1);
        next.intact().await;
        f.intact().await;
        f.ledger.close().await;
        next.ledger.close().await;
    });
}

/// Writers of the first schema left copies of rows in the free space of pages.
#[test]
fn an_older_store_is_written_anew_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let f = on(&path, keyring());
    let mut items = Vec::new();
    block_on(async {
        fill(&f, "victim", "r").await;
        items = f.items(&anyone(), "victim", 500).await;
        f.ledger.close().await;
    });
    drop(f);
    let conn = Connection::open(&path).unwrap();
    crate::schema::back_to(&conn, 1);
    let left = "left in the free space of a page";
    conn.execute_batch(&format!(
        "PRAGMA secure_delete = OFF; INSERT INTO commit_log VALUES (9999999, '{left}');
         DELETE FROM commit_log WHERE commit_no = 9999999;
         PRAGMA wal_checkpoint(TRUNCATE);"
    ))
    .unwrap();
    drop(conn);
    let needle = vec![left.as_bytes().to_vec()];
    assert_eq!(found(&bytes(&path), &needle), 1);
    let f = on(&path, keyring());
    assert_eq!(found(&bytes(&path), &needle), 0);
    block_on(async {
        assert_eq!(f.items(&anyone(), "victim", 500).await, items);
        f.intact().await;
        f.ledger.close().await;
    });
}

/// A batch in one record of which a part goes: the rest must read as before.
#[test]
fn a_part_of_a_compressed_record() {
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
            f.redacted(&who, redact_items("s", &[(seq, seq)]))
                .await
                .unwrap();
            f.intact().await;
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
