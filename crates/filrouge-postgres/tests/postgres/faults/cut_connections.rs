//! Connections that are cut around COMMIT, the only moment at which the loss leaves the outcome unknown.

use std::sync::Arc;
use std::time::Duration;

use filrouge_postgres::Options;
use filrouge_testbed::{FaultProxy, Loss, Server};
use filrouge_types::ErrorCode;

use super::{put, retry_until_written, run_blocking, server, texts};
use crate::servers::callers::{Workload, assert_intact, eventually};
use crate::servers::{block_on, close, open, separate_server_options, start_turn};

/// The last message of a write.
const COMMIT: &[u8] = b"COMMIT\0";

#[test]
fn an_outcome_whose_answer_is_lost_is_found_in_the_log() {
    let (server, database) = server();
    let proxy = FaultProxy::before(server.tcp());
    block_on(async {
        let ledger = open(separate_server_options(&proxy.url(&database)));
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        let mut expected = Vec::new();
        for (n, loss) in [Loss::Answer, Loss::Request, Loss::Connection]
            .into_iter()
            .cycle()
            .take(15)
            .enumerate()
        {
            proxy.cut_after(COMMIT, loss);
            let words = format!("k{n}");
            let (seq, replayed) = put(&*ledger, turn, &words).await.unwrap();
            // This is the answer to a first write, not a replay, even if the first connection was lost.
            assert_eq!((seq, replayed), (2 + n as u64, false), "{loss:?}");
            proxy.wait_for_cuts(n + 1);
            expected.push(words);
            assert_eq!(ledger.health().read_only, None);
        }
        assert_eq!(texts(&*ledger).await, expected);
        assert_intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}

#[test]
fn connections_cut_at_any_moment_lose_no_write() {
    let (server, database) = server();
    let proxy = FaultProxy::before(server.tcp());
    block_on(async {
        let cut_url = proxy.url(&database);
        let ledgers = vec![
            open(separate_server_options(&cut_url)),
            open(separate_server_options(&server.url(&database))),
        ];
        let workload = Workload::start(&ledgers, 8, 4);
        let needles: [&[u8]; 4] = [COMMIT, b"ROLLBACK", b"BEGIN", COMMIT];
        let losses = [Loss::Answer, Loss::Request, Loss::Connection];
        for n in 0..24 {
            let before = proxy.cuts();
            proxy.cut_after(needles[n % 4], losses[n % 3]);
            if n % 5 == 0 {
                proxy.cut();
            } else {
                wait_for_cuts(&proxy, before + 1).await;
            }
            workload.wait_for_writes(5).await;
        }
        workload.finish_and_check().await;
        close(ledgers).await;
    });
}

/// Waits until the proxy has closed this many connections.
async fn wait_for_cuts(proxy: &FaultProxy, number: usize) {
    eventually("the connection is cut", || proxy.cuts() >= number).await;
}

/// Options with a short timeout, so that a test can exceed it.
fn short_timeout_options(url: &str) -> Options {
    let mut options = separate_server_options(url);
    options.settle_timeout = Duration::from_millis(400);
    options
}

/// The answer to COMMIT is lost, and the server stays down until the ledger gives up.
#[test]
fn an_unknown_outcome_is_reported_and_a_retry_finds_it() {
    let (server, database) = server();
    let proxy = FaultProxy::before(server.tcp());
    let server = Arc::new(server);
    block_on(async {
        let ledger = open(short_timeout_options(&proxy.url(&database)));
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        let mut unknown = 0;
        let rounds = 6;
        for n in 0..rounds {
            let loss = [Loss::Answer, Loss::Request][n % 2];
            let words = format!("k{n}");
            let before = proxy.cuts();
            proxy.cut_after(COMMIT, loss);
            let write = put(&*ledger, turn, &words);
            let fault = async {
                wait_for_cuts(&proxy, before + 1).await;
                match n % 3 {
                    0 => run_blocking(&server, Server::stop_immediate).await,
                    _ => proxy.hold(),
                }
            };
            let (result, ()) = tokio::join!(write, fault);
            match n % 3 {
                0 => run_blocking(&server, Server::restart).await,
                _ => proxy.release(),
            }
            if let Err(failure) = result {
                unknown += 1;
                assert_eq!(failure.code, ErrorCode::StoreUnavailable, "{failure:?}");
                let hint = failure.hint.unwrap();
                assert!(hint.contains("retry with the same key"), "{hint}");
            }
            let (seq, replayed) = retry_until_written(&*ledger, turn, &words).await;
            assert_eq!(seq, 2 + n as u64);
            assert!(replayed || loss == Loss::Request, "{loss:?}");
            assert_eq!(ledger.health().read_only, None);
        }
        assert!(unknown > 0, "no outcome was unknown");
        assert_eq!(texts(&*ledger).await.len(), rounds);
        assert_intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}

/// The network drops everything for longer than any timeout.
#[test]
fn requests_over_a_network_that_drops_everything_fail() {
    let (server, database) = server();
    let proxy = FaultProxy::before(server.tcp());
    block_on(async {
        let mut options = short_timeout_options(&proxy.url(&database));
        options.answer_timeout = Duration::from_millis(400);
        let ledger = open(options);
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        assert_eq!(texts(&*ledger).await, Vec::<String>::new());
        proxy.hold();
        let session = "s".parse().unwrap();
        for _ in 0..2 {
            let write = put(&*ledger, turn, "k").await.unwrap_err();
            let anyone = filrouge_store::contract::fixture::anyone();
            let read = ledger.items(&anyone, &session, 0, 9).await.unwrap_err();
            let note = ledger.note("n").await.unwrap_err();
            for failure in [write, read, note] {
                assert_eq!(failure.code, ErrorCode::StoreUnavailable, "{failure:?}");
            }
        }
        proxy.release();
        assert_eq!(retry_until_written(&*ledger, turn, "k").await.0, 2);
        assert_eq!(texts(&*ledger).await, ["k"]);
        assert_intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}
