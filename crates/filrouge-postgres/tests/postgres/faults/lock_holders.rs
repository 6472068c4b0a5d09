//! Writes that wait for another holder of their lane.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::contract::lanes::session_in;
use filrouge_store::{Lane, Ledger};
use filrouge_testbed::{Database, FaultProxy};
use filrouge_types::ErrorCode;
use tokio_postgres::{Client, NoTls};

use super::{put, retry_until_written, texts};
use crate::servers::callers::{Ledgers, TIMEOUT, assert_intact, eventually};
use crate::servers::{block_on, close, open, separate_server_options, start_turn};
use crate::{database, lane_of};

/// The number of transactions that have locked lanes and wait for their client.
fn silent_holders(database: &Database) -> usize {
    let sql = "SELECT a.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.relation = 'filrouge.lane'::regclass AND l.mode = 'RowShareLock' AND l.granted
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND a.state LIKE 'idle in transaction%'";
    database.sql(sql).len()
}

/// A server that freezes in the middle of its transaction must not block the others; when it continues, it writes what
/// it was about to commit exactly once.
#[test]
fn the_transaction_of_a_frozen_server_is_ended() {
    let database = database();
    let proxy = FaultProxy::before(database.tcp());
    block_on(async {
        let (healthy, frozen) = (
            open(separate_server_options(&database.url())),
            open(separate_server_options(&proxy.url(database.name()))),
        );
        let turn = start_turn(&*healthy, "s", "r").await.turn_id;
        let writing = freeze_during_a_write(&frozen, &proxy, &database, turn).await;
        let words = format!("healthy{}", writing.written);
        // Returns once the database has ended the other server's transaction.
        let (seq, replayed) = put(&*healthy, turn, &words).await.unwrap();
        assert!(!replayed);
        proxy.release();
        let (late, _) = writing.last.await.unwrap();
        assert_eq!(late, seq + 1, "the frozen write follows");
        let mut expected: Vec<String> = (0..writing.written).map(|n| format!("k{n}")).collect();
        expected.extend([words, format!("k{}", writing.written)]);
        assert_eq!(texts(&*healthy).await, expected);
        assert_intact(&*frozen).await;
        close(vec![healthy, frozen]).await;
    });
}

/// A write that is frozen in its transaction.
struct FrozenWrite {
    /// The number of writes before it, all of which were answered.
    written: usize,
    /// The frozen write.
    last: tokio::task::JoinHandle<(u64, bool)>,
}

/// Freezes the network repeatedly until a write is caught between its two round trips.
async fn freeze_during_a_write(
    ledger: &Arc<dyn Ledger>,
    proxy: &FaultProxy,
    database: &Database,
    turn: filrouge_types::TurnId,
) -> FrozenWrite {
    for written in 0..1_000 {
        let own = ledger.clone();
        let last =
            tokio::spawn(
                async move { retry_until_written(&*own, turn, &format!("k{written}")).await },
            );
        tokio::time::sleep(Duration::from_micros(written as u64 * 37 % 4_000)).await;
        proxy.hold();
        tokio::time::sleep(Duration::from_millis(20)).await;
        if silent_holders(database) == 1 && !last.is_finished() {
            return FrozenWrite { written, last };
        }
        proxy.release();
        last.await.unwrap();
    }
    panic!("no write was frozen between its round trips");
}

async fn raw(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Begins a transaction that locks the lane of session `s`, as a writer does.
fn lock_lane(ledger: &dyn Ledger) -> String {
    let lane = lane_of(ledger, "s");
    format!("BEGIN; SELECT lane FROM filrouge.lane WHERE lane = {lane} FOR NO KEY UPDATE")
}

#[test]
fn waiting_for_a_busy_holder_is_bounded() {
    let database = database();
    block_on(async {
        let mut options = separate_server_options(&database.url());
        options.lock_timeout = Duration::from_millis(200);
        let ledger = open(options);
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        let holder = raw(&database.url()).await;
        holder.batch_execute(&lock_lane(&*ledger)).await.unwrap();
        let busy = tokio::spawn(async move {
            let ended = holder.batch_execute("SELECT pg_sleep(600)").await;
            assert!(ended.is_err(), "the test cancels this query");
        });
        for _ in 0..2 {
            let refused = put(&*ledger, turn, "k").await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::StoreUnavailable);
            assert!(refused.detail.contains("55P03"), "{refused:?}");
            let hint = refused.hint.unwrap();
            assert!(hint.contains("another server"), "{hint}");
            assert!(ledger.health().read_only.is_some());
        }
        // Reads need no lock.
        assert_eq!(texts(&*ledger).await, Vec::<String>::new());
        database.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()");
        busy.await.unwrap();
        assert_eq!(retry_until_written(&*ledger, turn, "k").await, (2, false));
        assert_eq!(ledger.health().read_only, None);
        assert_intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}

/// A lock that is released in time only causes a delay.
#[test]
fn a_write_waits_for_a_holder_that_ends() {
    let database = database();
    block_on(async {
        let ledger = open(separate_server_options(&database.url()));
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        let holder = raw(&database.url()).await;
        holder.batch_execute(&lock_lane(&*ledger)).await.unwrap();
        let own = ledger.clone();
        let waiting = tokio::spawn(async move { put(&*own, turn, "k").await });
        let waits = "SELECT 1 FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually("the write waits for the lane", || {
            !database.sql(waits).is_empty()
        })
        .await;
        holder.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), (2, false));
        close(vec![ledger]).await;
    });
}

/// While somebody holds a lane, both servers go on in all others.
#[test]
fn a_held_lane_delays_only_its_own_writes() {
    let database = database();
    block_on(async {
        let ledgers: Ledgers = (0..2)
            .map(|_| {
                let mut options = separate_server_options(&database.url());
                options.lock_timeout = TIMEOUT;
                open(options)
            })
            .collect();
        let (lanes, held) = (ledgers[0].lanes(), Lane::new(3));
        let holder = raw(&database.url()).await;
        let lock = "BEGIN; SELECT lane FROM filrouge.lane WHERE lane = 3 FOR NO KEY UPDATE";
        holder.batch_execute(lock).await.unwrap();
        let write_held = |ledger: &Arc<dyn Ledger>| {
            let (ledger, session) = (ledger.clone(), session_in(lanes, held, "held"));
            tokio::spawn(async move { start_turn(&*ledger, &session, "r").await })
        };
        let waiting: Vec<_> = ledgers.iter().map(write_held).collect();
        for round in 0..3 {
            for lane in lanes.iter().filter(|lane| *lane != held) {
                let session = session_in(lanes, lane, "free");
                for (n, ledger) in ledgers.iter().enumerate() {
                    let request = format!("r{round}-{n}");
                    let write = start_turn(&**ledger, &session, &request);
                    let written = tokio::time::timeout(Duration::from_secs(5), write).await;
                    assert!(!written.unwrap().replayed);
                }
            }
        }
        assert!(waiting.iter().all(|write| !write.is_finished()));
        assert!(ledgers.iter().all(|l| l.health().read_only.is_none()));
        holder.batch_execute("ROLLBACK").await.unwrap();
        let mut replays = 0;
        for write in waiting {
            replays += usize::from(write.await.unwrap().replayed);
        }
        assert_eq!(replays, 1, "both servers wrote the same turn");
        assert_intact(&*ledgers[0]).await;
        close(ledgers).await;
    });
}
