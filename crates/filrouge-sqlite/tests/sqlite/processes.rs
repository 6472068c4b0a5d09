//! Several ledgers on one file, as separate processes open them, and many writers in one ledger.

use std::sync::Arc;
use std::time::Duration;

use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::contract::Fixture;
use filrouge_store::contract::fixture::{anyone, append, cmd, item, keyed, sid};
use filrouge_store::{Ledger, OsEntropy};
use filrouge_types::{Channel, SystemClock};
use rusqlite::Connection;
use tokio::task::JoinSet;

use super::{fixture, fixture_at, keyring};

fn block_on(work: impl std::future::Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(8)
        .enable_time()
        .build();
    runtime.unwrap().block_on(work);
}

/// A ledger as a separate process would open it.
fn process(path: &std::path::Path) -> Arc<dyn Ledger> {
    let mut options = Options::new(path, keyring(), Arc::new(OsEntropy), Arc::new(SystemClock));
    options.busy_timeout = Duration::from_secs(60);
    Arc::new(SqliteLedger::open(options).unwrap())
}

#[test]
fn concurrent_processes_lose_no_write_and_report_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let f = fixture_at(&path, keyring());
    block_on(async {
        let who = anyone();
        let turn = f.start(&who, "shared", "r").await;
        let ledgers = [process(&path), process(&path), f.ledger.clone()];
        let mut tasks = JoinSet::new();
        for (p, ledger) in ledgers.iter().cloned().enumerate() {
            for task in 0..4 {
                let (ledger, who, id) = (ledger.clone(), who.clone(), turn.turn_id);
                tasks.spawn(async move {
                    for n in 0..40 {
                        let batch = vec![
                            keyed(&format!("{p}-{task}-{n}"), "x"),
                            item(Channel::Plan, "y"),
                        ];
                        ledger
                            .write(cmd(&who, append("shared", id, batch, None)))
                            .await
                            .unwrap();
                    }
                });
                let (ledger, who) = (ledgers[(p + task) % 3].clone(), anyone());
                tasks.spawn(async move {
                    let mut newest = 0;
                    for _ in 0..150 {
                        let last = ledger.session(&who, &sid("shared")).await.unwrap().last_seq;
                        assert!(last >= newest, "no read returns less than an earlier one");
                        newest = last;
                        let after = last.saturating_sub(20);
                        ledger.items(&who, &sid("shared"), after, 50).await.unwrap();
                    }
                });
            }
        }
        tasks.join_all().await;
        let items = f.items(&who, "shared", 500).await;
        assert_eq!(items.len(), 1 + 3 * 4 * 40 * 2);
        assert!(items.iter().zip(1..).all(|(i, seq)| i.seq == seq));
        for ledger in &ledgers {
            assert_eq!(ledger.health().integrity, None);
            let report = ledger.verify(None).await.unwrap();
            assert_eq!(report.findings, Vec::new());
        }
        let newest = f.ledger.position();
        assert!(
            ledgers.iter().all(|l| l.position() == newest),
            "after its reads, each ledger knows the newest commit"
        );
        for ledger in ledgers {
            ledger.close().await;
        }
        let again = fixture_at(&path, keyring());
        again.assert_intact().await;
        assert_eq!(again.ledger.position(), newest);
    });
}

#[test]
fn processes_that_create_a_store_share_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let ledgers: Vec<_> = std::thread::scope(|s| {
        let all: Vec<_> = (0..6).map(|_| s.spawn(|| process(&path))).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(
        ledgers
            .iter()
            .all(|l| l.store_id() == ledgers[0].store_id())
    );
}

#[test]
fn a_change_that_coincides_with_a_commit_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    block_on(async {
        let (f, other) = (fixture_at(&path, keyring()), fixture_at(&path, keyring()));
        let who = anyone();
        f.complete_turn(&who, "victim", "r", "a").await;
        f.complete_turn(&who, "s", "r", "a").await;
        let raw = Connection::open(&path).unwrap();
        raw.busy_timeout(Duration::from_secs(5)).unwrap();
        // The commit log explains a part of the difference in the file, so the comparison is deferred, not skipped.
        other.complete_turn(&who, "s", "r2", "a").await;
        raw.execute_batch("DELETE FROM session WHERE session_id = 'victim'")
            .unwrap();
        let _ = f.ledger.session(&who, &sid("s")).await;
        f.clock.advance(60_000_000);
        let refused = f.ledger.session(&who, &sid("victim")).await.unwrap_err();
        assert_eq!(refused.code, filrouge_types::ErrorCode::IntegrityError);
        f.ledger.session(&who, &sid("s")).await.unwrap();
        let g = fixture_at(&path, keyring());
        assert!(
            g.ledger.health().integrity.is_some(),
            "a ledger that is opened after the change finds it"
        );
    });
}

#[test]
fn a_change_after_the_ledgers_own_commit_is_detected() {
    for write_first in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.db");
        block_on(async {
            let f = fixture_at(&path, keyring());
            let who = anyone();
            f.complete_turn(&who, "victim", "r", "a").await;
            f.ledger.session(&who, &sid("victim")).await.unwrap();
            f.complete_turn(&who, "s", "r", "a").await;
            let raw = Connection::open(&path).unwrap();
            raw.execute_batch("DELETE FROM session WHERE session_id = 'victim'")
                .unwrap();
            if write_first {
                f.complete_turn(&who, "s", "r2", "a").await;
            }
            let refused = f.ledger.session(&who, &sid("victim")).await.unwrap_err();
            assert_eq!(refused.code, filrouge_types::ErrorCode::IntegrityError);
        });
    }
}

/// A subscriber learns of another process's commit within a second, without a query.
#[test]
fn commits_of_other_processes_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    block_on(async {
        let ledgers = [process(&path), process(&path)];
        let who = anyone();
        let mut receivers = [ledgers[0].commits(), ledgers[1].commits()];
        for n in 1..=6_u64 {
            let (writer, reader) = (usize::from(n % 2 == 0), usize::from(n % 2 == 1));
            let new = filrouge_store::command::NewSession::with_id(sid(&format!("s{n}")));
            let write = filrouge_store::command::Write::CreateSession(new);
            ledgers[writer].write(cmd(&who, write)).await.unwrap();
            let own_number = *receivers[writer].borrow_and_update();
            let wait = receivers[reader].wait_for(|newest| *newest >= n);
            let wait = tokio::time::timeout(Duration::from_secs(1), wait).await;
            assert_eq!((own_number, *wait.unwrap().unwrap()), (n, n));
            assert_eq!(ledgers[reader].position().commit_count(), n);
        }
        for ledger in &ledgers {
            assert_eq!(ledger.health().integrity, None);
            ledger.close().await;
        }
    });
}

/// A page of the change feed may end within a commit of many writes; the next page continues from there.
#[test]
fn the_feed_continues_within_a_commit() {
    let f = fixture();
    block_on(async {
        let who = anyone();
        let mut tasks = JoinSet::new();
        for n in 0..200 {
            let (ledger, who) = (f.ledger.clone(), who.clone());
            let new = filrouge_store::command::NewSession::with_id(sid(&format!("s{n}")));
            let write = filrouge_store::command::Write::CreateSession(new);
            tasks.spawn(async move { ledger.write(cmd(&who, write)).await.unwrap() });
        }
        tasks.join_all().await;
        let all = f.feed(&who, 500).await;
        assert_eq!(all.len(), 200);
        let within = all.iter().filter(|c| c.cursor.contains('.')).count();
        assert!(
            within > 50,
            "only {within} changes are followed by another of the same commit"
        );
        assert_eq!(f.feed(&who, 1).await, all);
        for (n, change) in all.iter().enumerate() {
            assert_eq!(f.feed_after(&who, &change.cursor, 64).await, all[n + 1..]);
        }
    });
}

fn commit_count(f: &Fixture) -> u64 {
    f.ledger.position().commit_count()
}

#[test]
fn writers_share_a_flush() {
    let f = fixture();
    block_on(async {
        let who = anyone();
        let mut tasks = JoinSet::new();
        for task in 0..64 {
            let (ledger, who) = (f.ledger.clone(), who.clone());
            tasks.spawn(async move {
                for n in 0..10 {
                    let start = filrouge_store::contract::fixture::start(
                        &who,
                        &format!("s{task}"),
                        &format!("r{n}"),
                        "q",
                    );
                    let write = filrouge_store::command::Write::Start(Arc::new(start));
                    ledger.write(cmd(&who, write)).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        let commits = commit_count(&f);
        assert!(commits < 320, "{commits} commits for 640 writes");
        f.assert_intact().await;
    });
}

#[test]
fn a_failed_write_does_not_fail_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    block_on(async {
        let f = fixture_at(&path, keyring());
        let who = anyone();
        let victim = f.start(&who, "victim", "r").await;
        let other = f.start(&who, "other", "r").await;
        // The record of the victim's question is damaged, so that a cancel fails only after it has written rows.
        let raw = Connection::open(&path).unwrap();
        raw.execute_batch(
            "UPDATE record SET body = zeroblob(length(body)) WHERE id =
             (SELECT record_id FROM record_key WHERE first_seq = 1 AND session_pk =
               (SELECT pk FROM session WHERE session_id = 'victim'))",
        )
        .unwrap();
        let mut tasks = JoinSet::new();
        for n in 0..40 {
            let (ledger, who) = (f.ledger.clone(), who.clone());
            let write = match n % 4 {
                0 => filrouge_store::contract::fixture::cancel("victim", victim.turn_id),
                _ => append(
                    "other",
                    other.turn_id,
                    vec![keyed(&format!("k{n}"), "x")],
                    None,
                ),
            };
            tasks.spawn(async move { (n, ledger.write(cmd(&who, write)).await) });
        }
        for (n, outcome) in tasks.join_all().await {
            match outcome {
                Ok(_) => assert_ne!(n % 4, 0),
                Err(failure) => {
                    assert_eq!(n % 4, 0, "{failure}");
                    assert_eq!(failure.code, filrouge_types::ErrorCode::IntegrityError);
                    assert_eq!(failure.location.unwrap().session_id, "victim");
                }
            }
        }
        assert_eq!(
            f.last_seq(&who, "victim").await,
            1,
            "a refused write leaves no item"
        );
        assert_eq!(f.last_seq(&who, "other").await, 31);
    });
}
