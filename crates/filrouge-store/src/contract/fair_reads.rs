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
    let (open, order) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(Mutex::new(Vec::new())),
    );
    let read = |name: &'static str, number: usize| {
        let (ledger, open, order) = (f.ledger.clone(), open.clone(), order.clone());
        // A caller may present another secret with each request.
        let token = Some(f.keyring.session_token(&number.to_string()));
        async move {
            let ledger: &dyn Ledger = ledger.as_ref();
            let viewer = Scope {
                token,
                ..user(name)
            };
            let query = ledger.query_listed(&viewer, move |_| {
                while !open.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                order.lock().unwrap().push(name);
                Ok(())
            });
            query.await.unwrap();
        }
    };
    let mut tasks = JoinSet::new();
    for number in 0..READS {
        tasks.spawn(read("ann", number));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    tasks.spawn(read("bob", 0));
    tokio::time::sleep(Duration::from_millis(200)).await;
    open.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    let order = order.lock().unwrap();
    let position = order.iter().position(|name| *name == "bob").unwrap();
    assert!(
        order.len() == READS + 1 && position < READS / 4,
        "{position}"
    );
}
