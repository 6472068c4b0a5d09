use std::sync::atomic::Ordering;

use filrouge_types::ErrorCode;

use super::world::{World, code, nobody, operator, page_of, sid, until, user};
use crate::caller::Caller;
use crate::scopes::DurablePolicy;

/// While the ledger does not answer, those alone get an answer whom it has shown the session before.
#[tokio::test]
async fn an_outage_of_the_ledger_is_bridged_for_those_who_were_seen() {
    for durable in [DurablePolicy::All, DurablePolicy::Authenticated] {
        let world = World::new(durable);
        let (process, other) = (world.process(), world.process());
        let (s, ada) = (sid("s"), user("ada"));
        for request in ["a", "b", "c"] {
            process.whole(&ada, &s, request).await.unwrap();
        }
        process.scopes.settle().await;
        let expected = world.page(&ada, &s, 2).await.unwrap();
        let seq = process.ledger().session(&ada, &s).await.unwrap().last_seq;
        for process in [&process, &other] {
            process.ledger_fate.down.store(true, Ordering::Relaxed);
        }
        let recent = process
            .scopes
            .recent_turns(&ada, &s, 2)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(recent.as_of_seq, Some(seq));
        assert_eq!(page_of(recent), expected);
        for scope in [nobody(), user("bob"), operator()] {
            let answer = process.page(&scope, &s, 2).await;
            assert_eq!(code(answer), ErrorCode::StoreUnavailable, "{scope:?}");
        }
        assert_eq!(
            code(other.page(&ada, &s, 2).await),
            ErrorCode::StoreUnavailable
        );
        assert_eq!(
            code(process.whole(&ada, &s, "d").await),
            ErrorCode::StoreUnavailable
        );
        assert_eq!(process.scopes.counts().recent_as_of, 1);
        process.ledger_fate.down.store(false, Ordering::Relaxed);
        let recent = process
            .scopes
            .recent_turns(&ada, &s, 2)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(recent.as_of_seq, None);
    }
}

/// A copy that is older or another one than what the viewer was shown is no answer.
#[tokio::test]
async fn an_older_copy_does_not_bridge_an_outage() {
    let world = World::new(DurablePolicy::All);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    process.whole(&ada, &s, "a").await.unwrap();
    process.scopes.settle().await;
    // The step of this one is lost.
    process.hot_fate.down.store(true, Ordering::Relaxed);
    process.whole(&ada, &s, "b").await.unwrap();
    process.scopes.settle().await;
    process.hot_fate.down.store(false, Ordering::Relaxed);
    process.ledger_fate.down.store(true, Ordering::Relaxed);
    assert_eq!(
        code(process.page(&ada, &s, 5).await),
        ErrorCode::StoreUnavailable
    );
    assert_eq!(process.scopes.counts().steps_dropped, 1);
}

/// Whoever has seen nobody's session must not see it once it is somebody's, whoever has linked it.
#[tokio::test]
async fn a_link_elsewhere_ends_what_nobody_was_shown() {
    let world = World::new(DurablePolicy::All);
    let (process, other) = (world.process(), world.process());
    let (s, ada) = (sid("s"), user("ada"));
    process.whole(&nobody(), &s, "a").await.unwrap();
    process.scopes.settle().await;
    assert_eq!(process.page(&nobody(), &s, 5).await.unwrap().0.len(), 1);
    let identity = ada.viewer.identity().unwrap().clone();
    other
        .engine
        .sessions
        .link(&Caller::from(&ada), s.clone(), identity)
        .await
        .unwrap();
    other.whole(&ada, &s, "mine").await.unwrap();
    other.page(&ada, &s, 5).await.unwrap();
    other.scopes.settle().await;
    assert_eq!(other.page(&ada, &s, 5).await.unwrap().0.len(), 2);
    assert!(other.scopes.counts().recent_hits > 0, "there is a copy");
    process.ledger_fate.down.store(true, Ordering::Relaxed);
    assert_eq!(
        code(process.page(&nobody(), &s, 5).await),
        ErrorCode::StoreUnavailable
    );
    process.ledger_fate.down.store(false, Ordering::Relaxed);
    assert_eq!(
        code(process.page(&nobody(), &s, 5).await),
        ErrorCode::SessionNotFound
    );
}

/// A hot store that never answers gives up by itself; nobody durable fails for it.
#[tokio::test]
async fn a_slow_hot_store_costs_its_own_timeout() {
    for durable in [DurablePolicy::All, DurablePolicy::Authenticated] {
        let world = World::new(durable);
        let process = world.process();
        let (s, ada) = (sid("s"), user("ada"));
        let turn = process.whole(&ada, &s, "a").await.unwrap();
        process.hot_fate.slow.store(true, Ordering::Relaxed);
        process.whole(&ada, &s, "b").await.unwrap();
        assert_eq!(
            process.page(&ada, &s, 5).await.unwrap(),
            world.page(&ada, &s, 5).await.unwrap()
        );
        process.redact(&ada, &s, turn.turn_id).await.unwrap();
        assert_eq!(
            process.page(&ada, &s, 5).await.unwrap(),
            world.page(&ada, &s, 5).await.unwrap()
        );
        assert!(process.scopes.counts().hot_failures > 0);
        if durable == DurablePolicy::Authenticated {
            let started = process.whole(&nobody(), &sid("e"), "a").await;
            assert_eq!(code(started), ErrorCode::HotUnavailable);
        }
        process.hot_fate.slow.store(false, Ordering::Relaxed);
        until("the removal", async || {
            process.scopes.counts().removals_waiting == 0
        })
        .await;
        assert_eq!(
            process.page(&ada, &s, 5).await.unwrap(),
            world.page(&ada, &s, 5).await.unwrap()
        );
    }
}

/// What this process has shown anybody, no answer of a copy is behind.
#[tokio::test]
async fn an_older_copy_is_not_shown_after_a_newer_history() {
    let world = World::new(DurablePolicy::All);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    for shown_to in [&ada, &operator()] {
        process.whole(&ada, &s, "a").await.unwrap();
        process.page(&ada, &s, 5).await.unwrap();
        process.scopes.settle().await;
        process.ledger_fate.down.store(true, Ordering::Relaxed);
        let recent = process
            .scopes
            .recent_turns(&ada, &s, 5)
            .await
            .unwrap()
            .unwrap();
        assert!(recent.as_of_seq.is_some());
        process.ledger_fate.down.store(false, Ordering::Relaxed);
        // Somebody who knows nothing of the hot store.
        let start = crate::StartTurn {
            question_neutral: super::world::text("b"),
            ..crate::StartTurn::new(
                format!("{:?}", shown_to.viewer.identity().is_some())
                    .parse()
                    .unwrap(),
            )
        };
        world
            .bypass()
            .turns
            .start(&Caller::from(&ada), s.clone(), start)
            .await
            .unwrap();
        process.turns(shown_to, &s).await.unwrap();
        // A stranger learns nothing, and changes nothing.
        assert_eq!(
            code(process.turns(&user("bob"), &s).await),
            ErrorCode::SessionNotFound
        );
        process.ledger_fate.down.store(true, Ordering::Relaxed);
        assert_eq!(
            code(process.page(&ada, &s, 5).await),
            ErrorCode::StoreUnavailable,
            "{shown_to:?}"
        );
        process.ledger_fate.down.store(false, Ordering::Relaxed);
    }
}
