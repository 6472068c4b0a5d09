//! Connections that read: whoever stops waiting or fails takes nothing from the others.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::Ledger;
use filrouge_store::command::{Scope, Write};
use filrouge_store::contract::fixture::{append, cmd, item, operator, sid, start, text};
use filrouge_testbed::Database;
use filrouge_types::{Channel, ErrorCode};
use rand::Rng;
use tokio::task::JoinSet;

use crate::database;
use crate::many::callers::{eventually, intact};
use crate::many::{close, of_its_own, open, started, wait};

/// Transactions that nobody ends.
fn left_open(database: &Database) -> usize {
    let sql = "SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    database.sql(sql).len()
}

/// Those of the ledger's own questions end; what is never ended is seen at every look.
async fn none_left_open(database: &Database) {
    eventually("a transaction stays open", || left_open(database) == 0).await;
}

#[test]
fn a_question_that_panics_leaves_no_connection_behind() {
    let database = database();
    wait(async {
        let mut options = of_its_own(&database.url());
        options.readers = 2;
        let ledger = open(options);
        started(&*ledger, "s", "r").await;
        for _ in 0..10 {
            let asked = ledger.ask(|sight| -> Result<(), _> {
                sight.view.newest_log()?;
                panic!("a fault in a question");
            });
            assert_eq!(asked.await.unwrap_err().code, ErrorCode::Internal);
            let session = ledger.session(&operator("t"), &sid("s")).await.unwrap();
            assert_eq!(session.last_seq, 1);
        }
        none_left_open(&database).await;
        intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}

const TENANTS: usize = 6;

fn tenant(n: usize) -> Scope {
    operator(&format!("tenant{n}"))
}

/// What a tenant's items say, all of them.
fn said(n: usize) -> String {
    format!("of tenant {n}")
}

/// Begins to read or to write as a tenant, and stops waiting at any moment; whether it was answered.
async fn impatient(ledger: Arc<dyn Ledger>, n: usize, turn: filrouge_types::TurnId) -> bool {
    let (micros, writes) = {
        let mut rng = rand::rng();
        (1_u64 << rng.random_range(0..17), rng.random_bool(0.3))
    };
    let scope = tenant(n);
    let act = async {
        if writes {
            let items = vec![item(Channel::Plan, &said(n))];
            let write = append("s", turn, items, None);
            ledger.write(cmd(&scope, write)).await.unwrap();
        } else {
            let (items, _) = ledger.items(&scope, &sid("s"), 0, 100).await.unwrap();
            assert!(!items.is_empty());
            for item in items {
                assert_eq!(item.body.parts, text(&said(n)), "another tenant's");
            }
        }
    };
    tokio::time::timeout(Duration::from_micros(micros), act)
        .await
        .is_ok()
}

#[test]
fn who_stops_waiting_takes_nothing_from_others() {
    let database = database();
    wait(async {
        let mut options = of_its_own(&database.url());
        options.readers = 3;
        let ledger = open(options);
        let mut turns = Vec::new();
        for n in 0..TENANTS {
            let scope = tenant(n);
            let write = Write::Start(Arc::new(start(&scope, "s", "r", &said(n))));
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
            tasks.spawn(impatient(ledger.clone(), n, turns[n]));
            if tasks.len() >= 12 {
                answered += usize::from(tasks.join_next().await.unwrap().unwrap());
            }
        }
        answered += tasks.join_all().await.into_iter().filter(|a| *a).count();
        assert!(
            answered > 0 && answered < 2_000,
            "{answered} of 2000 were answered"
        );
        // Every connection is there again, and none has a transaction open.
        for (n, turn) in turns.iter().enumerate() {
            let write = append("s", *turn, vec![item(Channel::Plan, &said(n))], None);
            ledger.write(cmd(&tenant(n), write)).await.unwrap();
            ledger.turn(&tenant(n), &sid("s"), *turn).await.unwrap();
        }
        none_left_open(&database).await;
        intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}
