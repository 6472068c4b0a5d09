//! Connections for reads: a query that is canceled or fails does not affect other queries.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::command::{Scope, Write};
use filrouge_store::contract::fixture::{append, cmd, item, operator, sid, start, text};
use filrouge_store::{Lane, Ledger};
use filrouge_testbed::Database;
use filrouge_types::{Channel, ErrorCode};
use rand::Rng;
use tokio::task::JoinSet;

use crate::database;
use crate::servers::callers::{assert_intact, eventually};
use crate::servers::{block_on, close, open, separate_server_options, start_turn};

/// The number of transactions left open.
fn left_open(database: &Database) -> usize {
    let sql = "SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    database.sql(sql).len()
}

/// Waits until no transaction is open: the ledger's own transactions end soon, a leaked one would stay.
async fn assert_none_left_open(database: &Database) {
    eventually("no transaction is open", || left_open(database) == 0).await;
}

#[test]
fn a_query_that_panics_leaks_no_connection() {
    let database = database();
    block_on(async {
        let mut options = separate_server_options(&database.url());
        options.readers = 2;
        let ledger = open(options);
        start_turn(&*ledger, "s", "r").await;
        for _ in 0..10 {
            let result = ledger.query(|snapshot| -> Result<(), _> {
                snapshot.view.newest_log(Lane::FIRST)?;
                panic!("on purpose");
            });
            assert_eq!(result.await.unwrap_err().code, ErrorCode::Internal);
            let session = ledger.session(&operator("t"), &sid("s")).await.unwrap();
            assert_eq!(session.last_seq, 1);
        }
        assert_none_left_open(&database).await;
        assert_intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}

const TENANTS: usize = 6;

fn tenant(n: usize) -> Scope {
    operator(&format!("tenant{n}"))
}

/// The text of all of a tenant's items.
fn tenant_text(n: usize) -> String {
    format!("of tenant {n}")
}

/// Starts a read or a write as a tenant, and abandons it at a random moment; returns whether it was answered before.
async fn call_and_abandon(ledger: Arc<dyn Ledger>, n: usize, turn: filrouge_types::TurnId) -> bool {
    let (micros, writes) = {
        let mut rng = rand::rng();
        (1_u64 << rng.random_range(0..17), rng.random_bool(0.3))
    };
    let scope = tenant(n);
    let call = async {
        if writes {
            let items = vec![item(Channel::Plan, &tenant_text(n))];
            let write = append("s", turn, items, None);
            ledger.write(cmd(&scope, write)).await.unwrap();
        } else {
            let (items, _) = ledger.items(&scope, &sid("s"), 0, 100).await.unwrap();
            assert!(!items.is_empty());
            for item in items {
                assert_eq!(
                    item.body.parts,
                    text(&tenant_text(n)),
                    "an item of another tenant"
                );
            }
        }
    };
    tokio::time::timeout(Duration::from_micros(micros), call)
        .await
        .is_ok()
}

#[test]
fn an_abandoned_call_does_not_affect_others() {
    let database = database();
    block_on(async {
        let mut options = separate_server_options(&database.url());
        options.readers = 3;
        let ledger = open(options);
        let mut turns = Vec::new();
        for n in 0..TENANTS {
            let scope = tenant(n);
            let write = Write::Start(Arc::new(start(&scope, "s", "r", &tenant_text(n))));
            let turn = ledger
                .keyring()
                .turn_id(&scope.tenant, &sid("s"), &"r".parse().unwrap());
            ledger.write(cmd(&scope, write)).await.unwrap();
            turns.push(turn);
        }
        let mut tasks = JoinSet::new();
        let mut answered = 0;
        for n in 0..2_000 {
            let n = n % TENANTS;
            tasks.spawn(call_and_abandon(ledger.clone(), n, turns[n]));
            if tasks.len() >= 12 {
                answered += usize::from(tasks.join_next().await.unwrap().unwrap());
            }
        }
        answered += tasks.join_all().await.into_iter().filter(|a| *a).count();
        assert!(
            answered > 0 && answered < 2_000,
            "{answered} of 2000 were answered"
        );
        // Every connection works, and none has a transaction open.
        for (n, turn) in turns.iter().enumerate() {
            let write = append("s", *turn, vec![item(Channel::Plan, &tenant_text(n))], None);
            ledger.write(cmd(&tenant(n), write)).await.unwrap();
            ledger.turn(&tenant(n), &sid("s"), *turn).await.unwrap();
        }
        assert_none_left_open(&database).await;
        assert_intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}
