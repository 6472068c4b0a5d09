//! Faults of the database server and of connections to it: no acknowledged write is lost, and none is written twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use filrouge_store::command::Write;
use filrouge_store::contract::fixture::{anyone, append, cmd, keyed};
use filrouge_store::{Durability, Ledger, Outcome};
use filrouge_testbed::{Options as ServerOptions, Server};
use filrouge_types::{ErrorCode, Failure, TurnId};

use super::servers::callers::{Workload, assert_intact, items};
use super::servers::{block_on, close, open, separate_server_options, start_turn, two_ledgers};

mod cut_connections;
mod group_steps;
mod lock_holders;
mod readers;
mod refusals;

/// Starts a database server that flushes every commit to the disk.
fn durable_server() -> Server {
    Server::start(ServerOptions {
        durable: true,
        ..ServerOptions::default()
    })
}

/// A database server, and the name of a database on it.
fn server() -> (Server, String) {
    let server = durable_server();
    let database = server.database();
    (server, database)
}

fn append_one(turn: TurnId, words: &str) -> Write {
    append("s", turn, vec![keyed(words, words)], None)
}

/// Appends one item to session `s`; returns its seq, and whether the answer is a replay.
pub(crate) async fn put(
    ledger: &dyn Ledger,
    turn: TurnId,
    words: &str,
) -> Result<(u64, bool), Failure> {
    match ledger.put(cmd(&anyone(), append_one(turn, words))).await? {
        Outcome::Appended {
            first_seq,
            replayed,
            ..
        } => Ok((first_seq, replayed)),
        other => panic!("{other:?}"),
    }
}

/// The texts of session `s` after its question; each is also its item's key.
async fn texts(ledger: &dyn Ledger) -> Vec<String> {
    let items = items(ledger, "s").await;
    let key = |item: &filrouge_types::Item| item.body.item_id.as_ref().unwrap().to_string();
    items[1..].iter().map(key).collect()
}

/// Runs `action` on a thread that may block.
async fn run_blocking(server: &Arc<Server>, action: impl FnOnce(&Server) + Send + 'static) {
    let server = server.clone();
    tokio::task::spawn_blocking(move || action(&server))
        .await
        .unwrap();
}

#[test]
fn a_server_that_crashes_under_load_loses_no_write() {
    let (server, database) = server();
    let server = Arc::new(server);
    block_on(async {
        let ledgers = two_ledgers(&server.url(&database));
        let workload = Workload::start(&ledgers, 8, 4);
        for _ in 0..3 {
            workload.wait_for_writes(60).await;
            run_blocking(&server, Server::stop_immediate).await;
            // Writes and reads fail while the database server is down.
            tokio::time::sleep(Duration::from_millis(300)).await;
            run_blocking(&server, Server::restart).await;
        }
        workload.wait_for_writes(60).await;
        workload.finish_and_check().await;
        close(ledgers).await;
    });
}

/// Ends every connection to the tests' databases.
const END_ALL: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'test%'";

#[test]
fn connections_that_are_ended_repeatedly_lose_no_write() {
    let (server, database) = server();
    let server = Arc::new(server);
    block_on(async {
        let ledgers = two_ledgers(&server.url(&database));
        let workload = Workload::start(&ledgers, 8, 4);
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..40 {
            let ended = ended.clone();
            run_blocking(&server, move |server| {
                let found = server.sql("postgres", END_ALL).len();
                ended.fetch_add(found, Ordering::SeqCst);
            })
            .await;
            workload.wait_for_writes(5).await;
        }
        assert!(
            ended.load(Ordering::SeqCst) > 80,
            "too few connections were ended"
        );
        workload.finish_and_check().await;
        close(ledgers).await;
    });
}

#[test]
fn a_server_that_hangs_briefly_loses_no_write() {
    let (server, database) = server();
    let server = Arc::new(server);
    block_on(async {
        let ledgers = two_ledgers(&server.url(&database));
        let workload = Workload::start(&ledgers, 8, 4);
        for seconds in [1, 3] {
            workload.wait_for_writes(40).await;
            run_blocking(&server, Server::pause).await;
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            run_blocking(&server, Server::resume).await;
        }
        workload.wait_for_writes(40).await;
        assert_eq!(workload.finish_and_check().await, 0, "writes were refused");
        close(ledgers).await;
    });
}

/// The database server hangs longer than the ledger waits.
#[test]
fn a_server_that_hangs_for_long_is_given_up_until_it_answers_again() {
    let (server, database) = server();
    let server = Arc::new(server);
    block_on(async {
        let mut options = separate_server_options(&server.url(&database));
        options.answer_timeout = Duration::from_millis(300);
        options.settle_timeout = Duration::from_millis(300);
        let ledger = open(options);
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        for round in 0..3 {
            run_blocking(&server, Server::pause).await;
            let words = format!("k{round}");
            let refused = put(&*ledger, turn, &words).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::StoreUnavailable, "{refused:?}");
            assert!(refused.hint.unwrap().contains("with the same key"));
            assert!(ledger.health().read_only.is_some());
            let unread = ledger.items(&anyone(), &"s".parse().unwrap(), 0, 9).await;
            assert_eq!(unread.unwrap_err().code, ErrorCode::StoreUnavailable);
            run_blocking(&server, Server::resume).await;
            let (seq, _) = retry_until_written(&*ledger, turn, &words).await;
            assert_eq!(seq, 2 + round);
            assert_eq!(ledger.health().read_only, None);
        }
        assert_eq!(texts(&*ledger).await, ["k0", "k1", "k2"]);
        assert_intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}

/// Retries a write until it is answered, as its caller would.
pub(crate) async fn retry_until_written(
    ledger: &dyn Ledger,
    turn: TurnId,
    words: &str,
) -> (u64, bool) {
    let begun = std::time::Instant::now();
    loop {
        match put(ledger, turn, words).await {
            Ok(answer) => return answer,
            Err(failure) => {
                assert!(failure.code.retry(), "{failure:?}");
                assert!(
                    begun.elapsed() < super::servers::callers::TIMEOUT,
                    "{failure:?}"
                );
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

#[test]
fn writes_fail_while_a_server_is_down_and_succeed_afterwards() {
    let (server, database) = server();
    let server = Arc::new(server);
    block_on(async {
        let ledgers = two_ledgers(&server.url(&database));
        let ledger = &*ledgers[0];
        let turn = start_turn(ledger, "s", "r").await.turn_id;
        run_blocking(&server, Server::stop_immediate).await;
        for _ in 0..2 {
            let refused = put(ledger, turn, "k").await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::StoreUnavailable);
            assert!(refused.hint.unwrap().contains("with the same key"));
            assert!(ledger.health().read_only.is_some());
        }
        run_blocking(&server, Server::restart).await;
        assert_eq!(retry_until_written(ledger, turn, "k").await, (2, false));
        assert_eq!(ledger.health().read_only, None);
        assert_eq!(put(&*ledgers[1], turn, "k").await.unwrap(), (2, true));
        assert_intact(&*ledgers[1]).await;
        close(ledgers).await;
    });
}

#[test]
fn asynchronous_commit_is_overridden() {
    // With these settings the server would answer commits at once and flush them ten seconds later.
    let settings = [
        ("synchronous_commit", "off"),
        ("wal_writer_delay", "10000ms"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let server = Server::start(ServerOptions {
        durable: true,
        settings: settings.to_vec(),
    });
    let url = server.url(&server.database());
    block_on(async {
        let ledger = open(separate_server_options(&url));
        assert_eq!(ledger.backend().durability, Durability::Flushed);
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        for round in 0..4 {
            retry_until_written(&*ledger, turn, &format!("k{round}")).await;
            tokio::task::block_in_place(|| {
                server.stop_immediate();
                server.restart();
            });
            assert_eq!(texts(&*ledger).await.len(), 1 + round);
        }
        assert_intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}
