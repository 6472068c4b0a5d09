//! A removal is completed even if its caller disconnects.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use filrouge_store::hot::HotStore;
use filrouge_types::{ErrorCode, SessionId, TurnId};

use super::stores::FailureSwitch;
use super::world::{TierProcess, TierWorld, anonymous, code, sid, user, wait_until};
use crate::caller::Caller;
use crate::scopes::DurablePolicy;

async fn hot_store_contains(world: &TierWorld, s: &SessionId, word: &str) -> bool {
    let bytes = world.hot_bytes(s).await;
    bytes.windows(word.len()).any(|at| at == word.as_bytes())
}

/// Runs `write`, and drops it while call number `at` of a store is not answered. Returns whether that call was made.
async fn disconnect_at(
    process: &TierProcess,
    switch: &FailureSwitch,
    at: i64,
    write: impl Future<Output = ()>,
) -> bool {
    let from = switch.calls.load(Ordering::Relaxed) + at;
    *switch.held_from.lock().unwrap() = Some(from);
    let call_made = wait_until("the call is made", async || {
        switch.calls.load(Ordering::Relaxed) > from
    });
    let disconnected = tokio::select! {
        () = call_made => true,
        () = write => false,
    };
    *switch.held_from.lock().unwrap() = None;
    // Closing waits for running removals.
    drop(process.tiers.deletion_lock.write().await);
    disconnected
}

#[tokio::test]
async fn a_redaction_in_the_ledger_is_completed_in_the_hot_store() {
    let mut disconnects = 0;
    for erases in [false, true] {
        for at in 0..3 {
            let world = TierWorld::new(DurablePolicy::All);
            let process = world.process();
            let (s, ada) = (sid("s"), user("ada"));
            let turn = process
                .complete_turn(&ada, &s, "secret")
                .await
                .unwrap()
                .turn_id;
            process.tiers.flush().await;
            assert!(hot_store_contains(&world, &s, "is secret").await);
            let write = async {
                if erases {
                    process
                        .engine
                        .erasure
                        .erase(&Caller::from(&ada), s.clone())
                        .await
                        .unwrap();
                } else {
                    process.redact(&ada, &s, turn).await.unwrap();
                }
            };
            disconnects += i32::from(disconnect_at(&process, &process.hot_switch, at, write).await);
            assert!(!hot_store_contains(&world, &s, "is secret").await, "{at}");
        }
    }
    assert!(disconnects >= 2, "{disconnects} disconnects");
}

#[tokio::test]
async fn a_redaction_in_the_hot_store_is_completed_by_its_note_in_the_ledger() {
    let mut disconnects = 0;
    for at in 0..8 {
        let world = TierWorld::new(DurablePolicy::Authenticated);
        let process = world.process();
        let s = sid("s");
        let turn: TurnId = process
            .complete_turn(&anonymous(), &s, "secret")
            .await
            .unwrap()
            .turn_id;
        let old = world.hot.load(&world.key(&s)).await.unwrap().unwrap();
        let write = async {
            process.redact(&anonymous(), &s, turn).await.unwrap();
        };
        disconnects += i32::from(disconnect_at(&process, &process.ledger_switch, at, write).await);
        assert!(!hot_store_contains(&world, &s, "is secret").await, "{at}");
        world
            .dump
            .lock()
            .unwrap()
            .sessions
            .insert(world.key(&s), old);
        let shown = world.process().turns(&anonymous(), &s).await;
        assert_eq!(code(shown), ErrorCode::SessionNotFound, "{at}");
    }
    assert!(disconnects >= 3, "{disconnects} disconnects");
}

/// A redaction with an unknown outcome removes the copy.
#[tokio::test]
async fn a_redaction_without_an_answer_removes_the_copy() {
    let world = TierWorld::new(DurablePolicy::All);
    let (s, ada) = (sid("s"), user("ada"));
    let first = world.process();
    let turn = first
        .complete_turn(&ada, &s, "secret")
        .await
        .unwrap()
        .turn_id;
    first.tiers.flush().await;
    let dying = world.process_with(Arc::new(FailureSwitch::dies_after(0, true)), Arc::default());
    let redacted = dying.redact(&ada, &s, turn).await;
    assert_eq!(code(redacted), ErrorCode::StoreUnavailable);
    wait_until("the copy is removed", async || {
        !hot_store_contains(&world, &s, "is secret").await
    })
    .await;
    // A refused redaction does not remove the copy.
    let other = first.complete_turn(&ada, &s, "other").await.unwrap();
    first.page(&ada, &s, 5).await.unwrap();
    first.tiers.flush().await;
    let refused = first.redact(&user("bob"), &s, other.turn_id).await;
    assert_eq!(code(refused), ErrorCode::SessionNotFound);
    assert_eq!(first.tiers.counts().removals_waiting, 0);
    assert!(hot_store_contains(&world, &s, "other it is").await);
}
