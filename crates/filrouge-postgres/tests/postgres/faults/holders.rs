//! Other holders of the writers' lock.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::Ledger;
use filrouge_testbed::{Cut, Database};
use filrouge_types::ErrorCode;
use tokio_postgres::{Client, NoTls};

use super::{put, texts, until_taken};
use crate::database;
use crate::many::callers::{eventually, intact};
use crate::many::{close, open, separate_server_options, started, wait};

/// The number of transactions that hold an advisory lock and wait for their client.
fn silent_holders(database: &Database) -> usize {
    let sql = "SELECT a.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database
        WHERE datname = current_database()) AND a.state LIKE 'idle in transaction%'";
    database.sql(sql).len()
}

/// A server that freezes in the middle of its transaction must not block the others; when it continues, it writes what
/// it was about to commit exactly once.
#[test]
fn a_server_frozen_in_its_transaction_is_cut_off() {
    let database = database();
    let cut = Cut::before(database.tcp());
    wait(async {
        let (well, frozen) = (
            open(separate_server_options(&database.url())),
            open(separate_server_options(&cut.url(database.name()))),
        );
        let turn = started(&*well, "s", "r").await.turn_id;
        let writing = frozen_while_it_writes(&frozen, &cut, &database, turn).await;
        let words = format!("well{}", writing.written);
        // Returns once the database has ended the other server's transaction.
        let (seq, replayed) = put(&*well, turn, &words).await.unwrap();
        assert!(!replayed);
        cut.release();
        let (late, _) = writing.last.await.unwrap();
        assert_eq!(late, seq + 1, "the frozen write follows");
        let mut expected: Vec<String> = (0..writing.written).map(|n| format!("k{n}")).collect();
        expected.extend([words, format!("k{}", writing.written)]);
        assert_eq!(texts(&*well).await, expected);
        intact(&*frozen).await;
        close(vec![well, frozen]).await;
    });
}

struct Writing {
    /// Writes that were answered.
    written: usize,
    /// The write that hangs.
    last: tokio::task::JoinHandle<(u64, bool)>,
}

/// Freezes the network repeatedly until a write is caught between its two round trips.
async fn frozen_while_it_writes(
    ledger: &Arc<dyn Ledger>,
    cut: &Cut,
    database: &Database,
    turn: filrouge_types::TurnId,
) -> Writing {
    for written in 0..1_000 {
        let own = ledger.clone();
        let last =
            tokio::spawn(async move { until_taken(&*own, turn, &format!("k{written}")).await });
        tokio::time::sleep(Duration::from_micros(written as u64 * 37 % 4_000)).await;
        cut.hold();
        tokio::time::sleep(Duration::from_millis(20)).await;
        if silent_holders(database) == 1 && !last.is_finished() {
            return Writing { written, last };
        }
        cut.release();
        last.await.unwrap();
    }
    panic!("no write was frozen between its round trips");
}

async fn raw(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The lock of the store's writers, computed as the writers compute it.
fn lock(ledger: &dyn Ledger) -> i64 {
    let id = ledger.store_id().as_bytes();
    let hash = filrouge_store::chain::fingerprint(&[b"writers", id]);
    i64::from_be_bytes(hash[..8].try_into().unwrap())
}

#[test]
fn waiting_for_a_busy_holder_is_bounded() {
    let database = database();
    wait(async {
        let mut options = separate_server_options(&database.url());
        options.lock_timeout = Duration::from_millis(200);
        let ledger = open(options);
        let turn = started(&*ledger, "s", "r").await.turn_id;
        let holder = raw(&database.url()).await;
        let take = format!("BEGIN; SELECT pg_advisory_xact_lock({})", lock(&*ledger));
        holder.batch_execute(&take).await.unwrap();
        let busy = tokio::spawn(async move {
            let ended = holder.batch_execute("SELECT pg_sleep(600)").await;
            assert!(ended.is_err(), "it is ended by the test");
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
        assert_eq!(until_taken(&*ledger, turn, "k").await, (2, false));
        assert_eq!(ledger.health().read_only, None);
        intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}

/// A lock that is released in time only causes a delay.
#[test]
fn a_write_waits_for_a_holder_that_ends() {
    let database = database();
    wait(async {
        let ledger = open(separate_server_options(&database.url()));
        let turn = started(&*ledger, "s", "r").await.turn_id;
        let holder = raw(&database.url()).await;
        let take = format!("BEGIN; SELECT pg_advisory_xact_lock({})", lock(&*ledger));
        holder.batch_execute(&take).await.unwrap();
        let own = ledger.clone();
        let waiting = tokio::spawn(async move { put(&*own, turn, "k").await });
        let waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        eventually("it waits", || !database.sql(waits).is_empty()).await;
        holder.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), (2, false));
        close(vec![ledger]).await;
    });
}
