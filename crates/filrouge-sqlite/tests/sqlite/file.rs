//! The file: schema, migration, reopening, readers.

use std::path::Path;

use filrouge_sqlite::{SCHEMA_VERSION, SqliteLedger};
use filrouge_store::contract::fixture::{anyone, code, sid};
use filrouge_types::{ErrorCode, Failure};
use rusqlite::Connection;

use super::{fixture, fixture_at, keyring, options};

fn open(path: &Path) -> Result<SqliteLedger, Failure> {
    SqliteLedger::open(options(path, keyring()))
}

fn block_on(work: impl std::future::Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(work);
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE other (x); INSERT INTO other VALUES (1)")
        .unwrap();
    assert_eq!(open(&path).err().unwrap().code, ErrorCode::Invalid);
    let kept: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT x FROM other", [], |r| r.get(0))
        .unwrap();
    assert_eq!(kept, 1);
    std::fs::write(
        folder.path().join("text"),
        "a text file that is longer than the header of a database".repeat(99),
    )
    .unwrap();
    assert_eq!(
        open(&folder.path().join("text")).err().unwrap().code,
        ErrorCode::IntegrityError
    );
    let nowhere = open(&folder.path().join("no/folder/f.db")).err().unwrap();
    assert_eq!(nowhere.code, ErrorCode::StoreUnavailable);
    assert!(nowhere.hint.is_some());
}

#[test]
fn a_newer_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    drop(open(&path).unwrap());
    let conn = Connection::open(&path).unwrap();
    conn.pragma_update(None, "user_version", SCHEMA_VERSION as i64 + 1)
        .unwrap();
    drop(conn);
    assert_eq!(open(&path).err().unwrap().code, ErrorCode::Invalid);
}

#[test]
fn a_migration_killed_at_any_step_restarts() {
    let script = include_str!("../../src/migrations/0001_ledger.sql");
    let ends: Vec<usize> = script.match_indices(';').map(|(at, _)| at + 1).collect();
    for end in ends {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.db");
        let conn = Connection::open(&path).unwrap();
        conn.pragma_update(None, "journal_mode", "WAL").unwrap();
        if conn
            .execute_batch(&format!("BEGIN; {}", &script[..end]))
            .is_err()
        {
            // The split at semicolons also cuts comments.
            continue;
        }
        // Simulates a kill: the connection is closed without a commit.
        drop(conn);
        let f = fixture_at(&path, keyring());
        block_on(async {
            f.complete_turn(&anyone(), "s", "r", "a").await;
            f.assert_intact().await;
            f.ledger.close().await;
        });
    }
}

#[test]
fn a_ledger_reopens_after_close_and_after_drop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let mut names = std::collections::BTreeSet::new();
    for n in 0..4 {
        let f = fixture_at(&path, keyring());
        block_on(async {
            f.complete_turn(&anyone(), "s", &format!("r{n}"), "a").await;
            assert_eq!(f.last_seq(&anyone(), "s").await, 2 * (n + 1));
            f.assert_intact().await;
            names.insert(f.ledger.store_id().to_owned());
            if n % 2 == 0 {
                f.ledger.close().await;
                let late = f.ledger.session(&anyone(), &sid("s")).await;
                assert_eq!(code(late), ErrorCode::StoreUnavailable);
                let late = f.create(&anyone(), "late").await;
                assert_eq!(code(late), ErrorCode::StoreUnavailable);
            }
        });
    }
    assert_eq!(names.len(), 1);
}

#[test]
fn a_query_that_panics_does_not_lose_a_reader() {
    let f = fixture();
    block_on(async {
        f.complete_turn(&anyone(), "s", "r", "a").await;
        for _ in 0..20 {
            let result = f
                .ledger
                .inspect(
                    filrouge_store::QuerySubject::Store,
                    Box::new(|_| panic!("on purpose")),
                )
                .await;
            assert_eq!(code(result), ErrorCode::Internal);
        }
        for _ in 0..20 {
            assert_eq!(f.last_seq(&anyone(), "s").await, 2);
        }
        f.complete_turn(&anyone(), "s", "r2", "a").await;
        f.assert_intact().await;
    });
}
