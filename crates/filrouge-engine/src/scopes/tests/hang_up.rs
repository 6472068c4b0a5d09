//! Whoever asks for a removal and hangs up has it done all the same.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use filrouge_store::hot::HotStore;
use filrouge_types::{ErrorCode, SessionId, TurnId};

use super::stores::Fate;
use super::world::{Process, World, code, nobody, sid, until, user};
use crate::caller::Caller;
use crate::scopes::DurablePolicy;

async fn says(world: &World, s: &SessionId, word: &str) -> bool {
    let bytes = world.hot_bytes(s).await;
    bytes.windows(word.len()).any(|at| at == word.as_bytes())
}

/// Redacts, and hangs up once so many calls of a store were made and the next one is not answered; whether there was one.
async fn hang_up(process: &Process, fate: &Fate, at: i64, write: impl Future<Output = ()>) -> bool {
    let from = fate.calls.load(Ordering::Relaxed) + at;
    *fate.held_from.lock().unwrap() = Some(from);
    let held = until("the call", async || {
        fate.calls.load(Ordering::Relaxed) > from
    });
    let hung_up = tokio::select! {
        () = held => true,
        () = write => false,
    };
    *fate.held_from.lock().unwrap() = None;
    // Closing waits for what is under way.
    drop(process.scopes.clearing.write().await);
    hung_up
}

#[tokio::test]
async fn what_was_redacted_in_the_ledger_goes_from_the_hot_store() {
    let mut hung_up = 0;
    for erases in [false, true] {
        for at in 0..3 {
            let world = World::new(DurablePolicy::All);
            let process = world.process();
            let (s, ada) = (sid("s"), user("ada"));
            let turn = process.whole(&ada, &s, "secret").await.unwrap().turn_id;
            process.scopes.settle().await;
            assert!(says(&world, &s, "is secret").await);
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
            hung_up += i32::from(hang_up(&process, &process.hot_fate, at, write).await);
            assert!(!says(&world, &s, "is secret").await, "{at}");
        }
    }
    assert!(hung_up >= 2, "{hung_up}");
}

#[tokio::test]
async fn a_redaction_in_the_hot_store_is_noted_in_the_ledger() {
    let mut hung_up = 0;
    for at in 0..8 {
        let world = World::new(DurablePolicy::Authenticated);
        let process = world.process();
        let s = sid("s");
        let turn: TurnId = process
            .whole(&nobody(), &s, "secret")
            .await
            .unwrap()
            .turn_id;
        let old = world.hot.load(&world.key(&s)).await.unwrap().unwrap();
        let write = async {
            process.redact(&nobody(), &s, turn).await.unwrap();
        };
        hung_up += i32::from(hang_up(&process, &process.ledger_fate, at, write).await);
        assert!(!says(&world, &s, "is secret").await, "{at}");
        world
            .dump
            .lock()
            .unwrap()
            .sessions
            .insert(world.key(&s), old);
        let shown = world.process().turns(&nobody(), &s).await;
        assert_eq!(code(shown), ErrorCode::SessionNotFound, "{at}");
    }
    assert!(hung_up >= 3, "{hung_up}");
}

/// A redaction of which it is not known whether it has happened takes the copy with it.
#[tokio::test]
async fn a_redaction_that_was_not_answered_clears_the_copy() {
    let world = World::new(DurablePolicy::All);
    let (s, ada) = (sid("s"), user("ada"));
    let first = world.process();
    let turn = first.whole(&ada, &s, "secret").await.unwrap().turn_id;
    first.scopes.settle().await;
    let dying = world.process_with(Arc::new(Fate::dies_after(0, true)), Arc::default());
    let redacted = dying.redact(&ada, &s, turn).await;
    assert_eq!(code(redacted), ErrorCode::StoreUnavailable);
    until("the removal", async || !says(&world, &s, "is secret").await).await;
    // One that was refused leaves it.
    let other = first.whole(&ada, &s, "other").await.unwrap();
    first.page(&ada, &s, 5).await.unwrap();
    first.scopes.settle().await;
    let refused = first.redact(&user("bob"), &s, other.turn_id).await;
    assert_eq!(code(refused), ErrorCode::SessionNotFound);
    assert_eq!(first.scopes.counts().removals_waiting, 0);
    assert!(says(&world, &s, "other it is").await);
}
