//! Connections that are cut around COMMIT: the one moment at which nobody can tell by the connection alone.

use std::sync::Arc;
use std::time::Duration;

use filrouge_postgres::Options;
use filrouge_testbed::{Cut, Loss, Server};
use filrouge_types::ErrorCode;

use super::{apart, put, server, texts, until_taken};
use crate::many::callers::{Crowd, eventually, intact};
use crate::many::{close, of_its_own, open, started, wait};

/// What the last round trip of a write ends with.
const COMMIT: &[u8] = b"COMMIT\0";

#[test]
fn a_lost_answer_is_found_in_the_log() {
    let (server, database) = server();
    let cut = Cut::before(server.tcp());
    wait(async {
        let ledger = open(of_its_own(&cut.url(&database)));
        let turn = started(&*ledger, "s", "r").await.turn_id;
        let mut expected = Vec::new();
        for (n, loss) in [Loss::Answer, Loss::Request, Loss::Connection]
            .into_iter()
            .cycle()
            .take(15)
            .enumerate()
        {
            cut.cut_after(COMMIT, loss);
            let words = format!("k{n}");
            let (seq, replayed) = put(&*ledger, turn, &words).await.unwrap();
            // The first answer, whatever has become of the first connection.
            assert_eq!((seq, replayed), (2 + n as u64, false), "{loss:?}");
            cut.wait_for_cuts(n + 1);
            expected.push(words);
            assert_eq!(ledger.health().read_only, None);
        }
        assert_eq!(texts(&*ledger).await, expected);
        intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}

#[test]
fn connections_cut_at_any_moment_lose_nothing() {
    let (server, database) = server();
    let cut = Cut::before(server.tcp());
    wait(async {
        let far = cut.url(&database);
        let ledgers = vec![
            open(of_its_own(&far)),
            open(of_its_own(&server.url(&database))),
        ];
        let crowd = Crowd::at_work(&ledgers, 8, 4);
        let needles: [&[u8]; 4] = [COMMIT, b"ROLLBACK", b"BEGIN", COMMIT];
        let losses = [Loss::Answer, Loss::Request, Loss::Connection];
        for n in 0..24 {
            let before = cut.cuts();
            cut.cut_after(needles[n % 4], losses[n % 3]);
            if n % 5 == 0 {
                cut.cut();
            } else {
                cuts(&cut, before + 1).await;
            }
            crowd.goes_on(5).await;
        }
        crowd.ends_well().await;
        close(ledgers).await;
    });
}

/// Waits until the proxy has closed so many connections.
async fn cuts(cut: &Cut, number: usize) {
    eventually("a cut", || cut.cuts() >= number).await;
}

/// A short patience, so that it can run out.
fn hasty(url: &str) -> Options {
    let mut options = of_its_own(url);
    options.settle_timeout = Duration::from_millis(400);
    options
}

/// COMMIT was answered to nobody, and then there is no server until the ledger has given up.
#[test]
fn what_cannot_be_found_out_is_told_and_found_by_a_retry() {
    let (server, database) = server();
    let cut = Cut::before(server.tcp());
    let server = Arc::new(server);
    wait(async {
        let ledger = open(hasty(&cut.url(&database)));
        let turn = started(&*ledger, "s", "r").await.turn_id;
        let mut unknown = 0;
        let rounds = 6;
        for n in 0..rounds {
            let loss = [Loss::Answer, Loss::Request][n % 2];
            let words = format!("k{n}");
            let before = cut.cuts();
            cut.cut_after(COMMIT, loss);
            let write = put(&*ledger, turn, &words);
            let gone = async {
                cuts(&cut, before + 1).await;
                match n % 3 {
                    0 => apart(&server, Server::stop_immediate).await,
                    _ => cut.hold(),
                }
            };
            let (told, ()) = tokio::join!(write, gone);
            match n % 3 {
                0 => apart(&server, Server::start_again).await,
                _ => cut.release(),
            }
            if let Err(failure) = told {
                unknown += 1;
                assert_eq!(failure.code, ErrorCode::StoreUnavailable, "{failure:?}");
                let hint = failure.hint.unwrap();
                assert!(hint.contains("retry with the same key"), "{hint}");
            }
            let (seq, replayed) = until_taken(&*ledger, turn, &words).await;
            assert_eq!(seq, 2 + n as u64);
            assert!(replayed || loss == Loss::Request, "{loss:?}");
            assert_eq!(ledger.health().read_only, None);
        }
        assert!(unknown > 0, "the ledger has always been faster");
        assert_eq!(texts(&*ledger).await.len(), rounds);
        intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}

/// A network that carries nothing and says nothing, for longer than anybody waits.
#[test]
fn a_network_that_swallows_everything_is_given_up() {
    let (server, database) = server();
    let cut = Cut::before(server.tcp());
    wait(async {
        let mut options = hasty(&cut.url(&database));
        options.answer_timeout = Duration::from_millis(400);
        let ledger = open(options);
        let turn = started(&*ledger, "s", "r").await.turn_id;
        assert_eq!(texts(&*ledger).await, Vec::<String>::new());
        cut.hold();
        let session = "s".parse().unwrap();
        for _ in 0..2 {
            let write = put(&*ledger, turn, "k").await.unwrap_err();
            let anyone = filrouge_store::contract::fixture::anyone();
            let read = ledger.items(&anyone, &session, 0, 9).await.unwrap_err();
            let apart = ledger.note("n").await.unwrap_err();
            for failure in [write, read, apart] {
                assert_eq!(failure.code, ErrorCode::StoreUnavailable, "{failure:?}");
            }
        }
        cut.release();
        assert_eq!(until_taken(&*ledger, turn, "k").await.0, 2);
        assert_eq!(texts(&*ledger).await, ["k"]);
        intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}
