//! Flat cost (P8): a late turn of a session costs the server as much as an early one, and lists use indexes.

use std::sync::Arc;
use std::time::Duration;

use filrouge_postgres::PostgresLedger;
use filrouge_store::Ledger;
use filrouge_store::command::SessionFilter;
use filrouge_store::contract::fixture::{Fixture, anyone, finalize, item, operator, sid, user};
use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_store::record::MacCheck;
use filrouge_testbed::Database;
use filrouge_types::{Channel, Turn};

use super::{database, fixture, fixture_at, keyring};

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(work);
}

/// The number of statements sent during `work`. It waits for the counter to settle, because a query's transaction ends
/// after its answer.
async fn count_statements(f: &Fixture, work: impl AsyncFnOnce()) -> u64 {
    let before = settled_count(&*f.ledger).await;
    work().await;
    settled_count(&*f.ledger).await - before
}

/// The count, once it no longer changes.
pub(crate) async fn settled_count(ledger: &dyn Ledger) -> u64 {
    loop {
        let count = ledger.load().statements;
        tokio::time::sleep(Duration::from_millis(30)).await;
        if ledger.load().statements == count {
            return count;
        }
    }
}

/// The statements of one turn and of the reads after it.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    start: u64,
    append: u64,
    finalize: u64,
    session: u64,
    newest_turns: u64,
    items: u64,
    turn: u64,
}

async fn measure_turn(f: &Fixture, n: usize) -> Cost {
    let who = anyone();
    let id = sid("s");
    let mut turn: Option<Turn> = None;
    let start = count_statements(f, async || {
        turn = Some(f.start(&who, "s", &format!("r{n}")).await);
    })
    .await;
    let turn = turn.unwrap();
    let append = count_statements(f, async || {
        f.append(&who, &turn, vec![item(Channel::Plan, "p")])
            .await
            .unwrap();
    })
    .await;
    let finalize = count_statements(f, async || {
        f.write_turn(&who, finalize("s", turn.turn_id, Some("a")))
            .await
            .unwrap();
    })
    .await;
    let last = turn.first_seq + 1;
    Cost {
        start,
        append,
        finalize,
        session: count_statements(f, async || drop(f.session(&who, "s").await.unwrap())).await,
        newest_turns: count_statements(f, async || {
            let query = TurnQuery {
                status: None,
                include_redacted: false,
                order: TurnOrder::Newest,
                cursor: None,
                limit: 3,
            };
            f.ledger.turns(&who, &id, query).await.unwrap();
        })
        .await,
        items: count_statements(f, async || {
            drop(f.ledger.items(&who, &id, last, 2).await.unwrap());
        })
        .await,
        turn: count_statements(f, async || {
            drop(f.ledger.turn(&who, &id, turn.turn_id).await.unwrap());
        })
        .await,
    }
}

#[test]
fn late_turns_cost_as_much_as_early_ones() {
    block_on(async {
        let f = fixture();
        for n in 0..3 {
            f.complete_turn(&anyone(), "s", &format!("w{n}"), "a").await;
        }
        // The first query of each kind opens its connection, and is not counted.
        measure_turn(&f, 3).await;
        let early = measure_turn(&f, 4).await;
        for n in 5..300 {
            f.complete_turn(&anyone(), "s", &format!("w{n}"), "a").await;
        }
        let late = measure_turn(&f, 300).await;
        assert_eq!(early, late);
        // A write: one round trip sends BEGIN and the queries; a second one sends the rows, COMMIT and the notification.
        assert!(
            early.start <= 10 && early.append <= 10 && early.finalize <= 13,
            "{early:?}"
        );
        // A read: BEGIN with the newest commit of the session's lane, its queries, ROLLBACK.
        assert!(early.session <= 4 && early.newest_turns <= 8, "{early:?}");
        assert!(early.turn <= 9 && early.items <= 6, "{early:?}");
        f.ledger.close().await;
    });
}

#[test]
fn appends_update_heads_and_turns_in_place() {
    block_on(async {
        let database = database();
        let f = fixture_at(&database.url(), keyring());
        for s in ["s", "other"] {
            let open = f.start(&anyone(), s, "r").await;
            for _ in 0..100 {
                f.append(&anyone(), &open, vec![item(Channel::Plan, "p")])
                    .await
                    .unwrap();
            }
        }
        f.ledger.close().await;
        drop(f);
        for table in ["head", "turn"] {
            let sql = format!(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
                 WHERE schemaname = 'filrouge' AND relname = '{table}'"
            );
            let updates = || -> (u64, u64) {
                let row = database.sql(&sql).remove(0);
                let [all, hot] = [0, 1].map(|n: usize| row[n].as_ref().unwrap().parse().unwrap());
                (all, hot)
            };
            // A server process reports its counters when it ends, at the latest.
            for _ in 0..600 {
                if updates().0 >= 200 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let (all, hot) = updates();
            assert!(
                all >= 200 && hot * 100 >= all * 95,
                "{table}: {hot} of {all} within the page"
            );
        }
    });
}

/// Many sessions of several owners, most of them anonymous.
const MANY_SESSIONS: &str = "SET session_replication_role = replica;
    INSERT INTO filrouge.session
        (lane, pk, tenant_id, session_id, identity_id, parent_session_id, status, metadata, created_at)
    SELECT n % 8, n, 't', 's' || n, CASE n % 10 WHEN 0 THEN 'owner' || n % 50 END,
           CASE n % 100 WHEN 0 THEN 'parent' END, 0, '{}', n
    FROM generate_series(1000, 21000) AS n;
    INSERT INTO filrouge.session_agent SELECT n % 8, n, 'planner', '' FROM generate_series(1000, 21000, 51) AS n;
    ANALYZE filrouge.session; ANALYZE filrouge.session_agent; ANALYZE filrouge.head";

/// The number of index rows read, whether the expected index was used, and the number of table scans.
fn index_use(database: &Database, index: &str) -> (u64, bool, u64) {
    let sql = format!(
        "SELECT sum(idx_tup_read), bool_or(indexrelname = '{index}' AND idx_scan > 0) FROM pg_stat_user_indexes
         WHERE relname IN ('session', 'session_agent', 'head');
         SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname IN ('session', 'session_agent', 'head')"
    );
    let rows = database.sql(&sql);
    let number = |row: usize| rows[row][0].as_ref().unwrap().parse().unwrap();
    (number(0), rows[0][1].as_deref() == Some("t"), number(1))
}

/// The server's own counters show how a list was found.
#[test]
fn lists_use_their_indexes() {
    let database = database();
    database.sql(MANY_SESSIONS);
    let none = SessionFilter::default;
    let parent = SessionFilter {
        parent_session_id: Some(sid("parent")),
        ..none()
    };
    let agent = SessionFilter {
        agent: Some("planner".into()),
        ..none()
    };
    for (index, who, filter, max_rows) in [
        ("session_tenant", operator("t"), none(), 1000),
        ("session_owner", user("owner20"), none(), 1000),
        ("session_parent", operator("t"), parent, 1000),
        // Either newest first until a lane has filled the page, or by the agent: both are bounded. One session in 51 has
        // the agent.
        ("session_pkey", operator("t"), agent, 10_000),
    ] {
        database.sql("SELECT pg_stat_reset()");
        // The rows have no MACs, but the query still runs.
        let mut options = super::options(&database.url(), keyring());
        options.check = MacCheck::Unverified;
        let ledger: Arc<dyn Ledger> = Arc::new(PostgresLedger::open(options).unwrap());
        block_on(async {
            let found = ledger.sessions(&who, filter, None, 20).await;
            assert!(found.is_err(), "sessions without heads are refused");
            ledger.close().await;
        });
        drop(ledger);
        // A server process reports its counters when it ends, at the latest.
        for _ in 0..600 {
            if index_use(&database, index).1 {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let (read, used, table_scans) = index_use(&database, index);
        assert!(
            used && table_scans == 0,
            "{index}: {read} rows, {table_scans} table scans"
        );
        assert!(read <= max_rows, "{index}: {read} rows read for 20");
    }
}
