//! Callers that read a store with few connections. The in-memory ledger has none, so this is no part of the macro.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;

use super::fixture::{Fixture, user};
use crate::command::Scope;
use crate::ledger::Ledger;

/// The reads that one caller has waiting: many more than the ledger has connections.
const READS: usize = 300;

pub async fn a_caller_with_many_reads_delays_no_other(f: &Fixture) {
    let ann = |number: usize| Scope {
        // A caller may present another secret with each request.
        token: Some(f.keyring.session_token(&number.to_string())),
        ..user("ann")
    };
    many_reads_do_not_delay(f, ann, user("bob")).await;
}

pub async fn a_key_with_many_end_users_delays_no_other(f: &Fixture) {
    let with_key = |key: &str, end_user: &str| Scope {
        key: Some(Arc::from(key)),
        ..user(end_user)
    };
    let desk = |number: usize| with_key("desk", &number.to_string());
    many_reads_do_not_delay(f, desk, with_key("app", "bob")).await;
}

/// Starts the numbered reads of `many`, then one of `other`, which must be one of the first to end.
async fn many_reads_do_not_delay(f: &Fixture, many: impl Fn(usize) -> Scope, other: Scope) {
    let (open, order) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(Mutex::new(Vec::new())),
    );
    let read = |viewer: Scope, is_other: bool| {
        let (ledger, open, order) = (f.ledger.clone(), open.clone(), order.clone());
        async move {
            let ledger: &dyn Ledger = ledger.as_ref();
            let query = ledger.query_listed(&viewer, move |_| {
                while !open.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                order.lock().unwrap().push(is_other);
                Ok(())
            });
            query.await.unwrap();
        }
    };
    let mut tasks = JoinSet::new();
    for number in 0..READS {
        tasks.spawn(read(many(number), false));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    tasks.spawn(read(other, true));
    tokio::time::sleep(Duration::from_millis(200)).await;
    open.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    let order = order.lock().unwrap();
    let position = order.iter().position(|is_other| *is_other).unwrap();
    assert!(
        order.len() == READS + 1 && position < READS / 4,
        "{position}"
    );
}
