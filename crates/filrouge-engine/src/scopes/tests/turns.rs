//! Callers of ephemeral sessions take turns.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use filrouge_store::{Ledger, Scope, WorkSize};
use tokio::task::JoinSet;

use super::super::EPHEMERAL_SLOTS;
use super::world::{TierWorld, anonymous, sid};
use crate::scopes::DurablePolicy;

/// The requests of one key.
const REQUESTS: usize = 50;

#[tokio::test]
async fn a_key_with_many_ephemeral_requests_delays_no_other() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let process = Arc::new(world.process());
    let with_key = |key: &str| Scope {
        key: Some(Arc::from(key)),
        ..anonymous()
    };
    for session in ["read", "written"] {
        process
            .complete_turn(&anonymous(), &sid(session), "first")
            .await
            .unwrap();
    }
    let slots = &process.tiers.ephemeral_slots;
    let mut held = Vec::new();
    for n in 0..EPHEMERAL_SLOTS.total {
        held.push(slots.acquire(&("held", n), WorkSize::Small).await);
    }
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for number in 0..=REQUESTS {
        let (process, order) = (process.clone(), order.clone());
        let is_other = number == REQUESTS;
        let scope = with_key(if is_other { "app" } else { "desk" });
        tasks.spawn(async move {
            if number % 2 == 0 {
                let ledger: &dyn Ledger = process.ledger();
                ledger.session(&scope, &sid("read")).await.unwrap();
            } else {
                let request = number.to_string();
                let id = sid("written");
                let written = process.complete_turn(&scope, &id, &request);
                written.await.unwrap();
            }
            order.lock().unwrap().push(is_other);
        });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(order.lock().unwrap().is_empty(), "all wait for a slot");
    held.pop();
    tasks.join_all().await;
    let order = order.lock().unwrap();
    let position = order.iter().position(|is_other| *is_other).unwrap();
    assert!(position < REQUESTS / 4, "{position}");
}
