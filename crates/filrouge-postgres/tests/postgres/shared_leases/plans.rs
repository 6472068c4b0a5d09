//! Statements are planned once, while the store is empty. Their plans must suit a large store.

use filrouge_store::Ledger;
use filrouge_store::command::{FencingToken, NewEvent, Write};
use filrouge_store::contract::fixture::{anyone, append, finalize, item, sid};
use filrouge_store::contract::session_writes::event;
use filrouge_types::{Channel, Timestamp};

use super::{acquire, acquire_lease, checkpoint, release_lease, server, start_turn, write};
use crate::servers::callers::eventually;
use crate::servers::{block_on, close};
use crate::{START_TIME, database};

/// The number of sessions of the tenant, and of turns of one of them.
const MANY: usize = 150;
/// The number of events in all sessions.
const EVENTS: i64 = 300;

async fn run_turn(ledger: &dyn Ledger, s: &str, n: usize, fence: u64) {
    let hold = Some(FencingToken::new(fence));
    let turn = start_turn(ledger, fence, s, &format!("r{n}")).await;
    let more = append(s, turn, vec![item(Channel::Plan, "p")], None);
    write(ledger, hold, more).await.unwrap();
    write(ledger, hold, finalize(s, turn, Some("a")))
        .await
        .unwrap();
    write(ledger, hold, checkpoint(s, None, "STATE", 3))
        .await
        .unwrap();
    ledger.turn(&anyone(), &sid(s), turn).await.unwrap();
    ledger.session(&anyone(), &sid(s)).await.unwrap();
}

async fn record_event(ledger: &dyn Ledger, s: &str, n: i64) {
    let new = NewEvent {
        at: Some(Timestamp::from_micros(START_TIME + n)),
        ..event(s, &format!("e{n}"), "kind")
    };
    let new = Write::RecordEvent(Box::new(new));
    write(ledger, None, new).await.unwrap();
}

/// Every write and read examines a few rows of each index, whatever the size of the store.
#[test]
fn plans_of_an_empty_store_suit_a_large_one() {
    let database = database();
    block_on(async {
        let server = server(&database.url());
        let ledger = &*server;
        let rows_read = || {
            let sql = "SELECT relname, sum(idx_tup_read)::bigint FROM pg_stat_user_indexes
                 WHERE schemaname = 'filrouge' AND relname <> 'commit_log' GROUP BY relname ORDER BY relname";
            let number = |row: Vec<Option<String>>| {
                (
                    row[0].clone().unwrap(),
                    row[1].as_ref().unwrap().parse::<u64>().unwrap(),
                )
            };
            database
                .sql(sql)
                .into_iter()
                .map(number)
                .collect::<Vec<_>>()
        };
        for n in 0..MANY {
            let s = format!("s{n}");
            acquire_lease(ledger, &s, "worker").await.unwrap();
            record_event(ledger, &s, n as i64).await;
        }
        for n in 0..MANY {
            run_turn(ledger, "s0", n, 1).await;
        }
        for n in MANY as i64..EVENTS {
            record_event(ledger, "s1", n).await;
        }
        for n in 2..MANY {
            write(
                ledger,
                Some(FencingToken::new(1)),
                checkpoint(&format!("s{n}"), None, "S", 3),
            )
            .await
            .unwrap();
            release_lease(ledger, &format!("s{n}"), "worker", 1).await;
        }
        let resume = acquire("s2", "other", Some(None));
        write(ledger, None, resume).await.unwrap();
        close(vec![server]).await;
        let writes = (2 * MANY + 4 * MANY + EVENTS as usize - MANY + 2 * MANY) as u64;
        eventually("the server reports its counters", || {
            rows_read()
                .iter()
                .any(|(name, read)| name == "head" && *read >= writes)
        })
        .await;
        for (name, read) in rows_read() {
            assert!(
                read <= 8 * writes,
                "{name}: {read} rows of its indexes for {writes} writes"
            );
        }
    });
}

/// Deleted rows are looked up by their keys, even if the statement was planned when the table had one row.
#[test]
fn deletes_planned_for_a_small_table_suit_a_large_one() {
    let database = database();
    let put = |s: &str, seq| checkpoint(s, Some(seq), "STATE", 1);
    block_on(async {
        let small = server(&database.url());
        acquire_lease(&*small, "small", "worker").await.unwrap();
        start_turn(&*small, 1, "small", "r").await;
        let hold = || Some(FencingToken::new(1));
        write(&*small, hold(), put("small", 1)).await.unwrap();
        close(vec![small]).await;
        database.sql("ANALYZE filrouge.checkpoint");
        let server = server(&database.url());
        let (ledger, checkpoints) = (&*server, 5);
        for n in 0..MANY {
            let s = format!("s{n}");
            acquire_lease(ledger, &s, "worker").await.unwrap();
            let turn = start_turn(ledger, 1, &s, "r").await;
            let items = (0..checkpoints).map(|_| item(Channel::Plan, "p")).collect();
            write(ledger, hold(), append(&s, turn, items, None))
                .await
                .unwrap();
            for seq in 1..=checkpoints {
                write(ledger, hold(), put(&s, seq)).await.unwrap();
            }
        }
        close(vec![server]).await;
        let counters = || {
            let sql = "SELECT t.n_tup_del, i.idx_tup_read FROM pg_stat_user_tables t
                 JOIN pg_stat_user_indexes i USING (relid)
                 WHERE t.schemaname = 'filrouge' AND t.relname = 'checkpoint'";
            let row = database.sql(sql).remove(0);
            [0, 1].map(|n: usize| row[n].as_ref().unwrap().parse::<u64>().unwrap())
        };
        let writes = MANY as u64 * checkpoints;
        eventually("the server reports its counters", || {
            counters()[0] >= writes - MANY as u64
        })
        .await;
        let read = counters()[1];
        assert!(read <= 8 * writes, "{read} rows for {writes} checkpoints");
    });
}
