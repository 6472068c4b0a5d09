//! Outages of the ledger and of the hot store, and the use of copies during them.

use std::sync::atomic::Ordering;

use filrouge_types::ErrorCode;

use super::world::{TierWorld, anonymous, code, operator, page_of, sid, user, wait_until};
use crate::caller::Caller;
use crate::scopes::DurablePolicy;

/// While the ledger does not answer, only viewers to whom it has shown the session before get an answer.
#[tokio::test]
async fn during_an_outage_of_the_ledger_only_earlier_viewers_get_answers() {
    for durable in [DurablePolicy::All, DurablePolicy::Authenticated] {
        let world = TierWorld::new(durable);
        let (process, other) = (world.process(), world.process());
        let (s, ada) = (sid("s"), user("ada"));
        for request in ["a", "b", "c"] {
            process.complete_turn(&ada, &s, request).await.unwrap();
        }
        process.tiers.flush().await;
        let expected = world.page(&ada, &s, 2).await.unwrap();
        let seq = process.ledger().session(&ada, &s).await.unwrap().last_seq;
        for process in [&process, &other] {
            process.ledger_switch.down.store(true, Ordering::Relaxed);
        }
        let recent = process
            .tiers
            .recent_turns(&ada, &s, 2)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(recent.as_of_seq, Some(seq));
        assert_eq!(page_of(recent), expected);
        for scope in [anonymous(), user("bob"), operator()] {
            let answer = process.page(&scope, &s, 2).await;
            assert_eq!(code(answer), ErrorCode::StoreUnavailable, "{scope:?}");
        }
        assert_eq!(
            code(other.page(&ada, &s, 2).await),
            ErrorCode::StoreUnavailable
        );
        assert_eq!(
            code(process.complete_turn(&ada, &s, "d").await),
            ErrorCode::StoreUnavailable
        );
        assert_eq!(process.tiers.counts().recent_as_of, 1);
        process.ledger_switch.down.store(false, Ordering::Relaxed);
        let recent = process
            .tiers
            .recent_turns(&ada, &s, 2)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(recent.as_of_seq, None);
    }
}

/// A copy of an older or another history than the viewer was shown is not returned.
#[tokio::test]
async fn an_older_copy_is_not_used_during_an_outage() {
    let world = TierWorld::new(DurablePolicy::All);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    process.complete_turn(&ada, &s, "a").await.unwrap();
    process.tiers.flush().await;
    // The step of this write is lost.
    process.hot_switch.down.store(true, Ordering::Relaxed);
    process.complete_turn(&ada, &s, "b").await.unwrap();
    process.tiers.flush().await;
    process.hot_switch.down.store(false, Ordering::Relaxed);
    process.ledger_switch.down.store(true, Ordering::Relaxed);
    assert_eq!(
        code(process.page(&ada, &s, 5).await),
        ErrorCode::StoreUnavailable
    );
    assert_eq!(process.tiers.counts().steps_dropped, 1);
}

/// Once an anonymous session has an owner, callers who saw it before no longer see it, even if another process has
/// linked it.
#[tokio::test]
async fn a_link_by_another_process_ends_the_access_of_anonymous_callers() {
    let world = TierWorld::new(DurablePolicy::All);
    let (process, other) = (world.process(), world.process());
    let (s, ada) = (sid("s"), user("ada"));
    process.complete_turn(&anonymous(), &s, "a").await.unwrap();
    process.tiers.flush().await;
    assert_eq!(process.page(&anonymous(), &s, 5).await.unwrap().0.len(), 1);
    let identity = ada.viewer.identity().unwrap().clone();
    other
        .engine
        .sessions
        .link(&Caller::from(&ada), s.clone(), identity)
        .await
        .unwrap();
    other.complete_turn(&ada, &s, "of ada").await.unwrap();
    other.page(&ada, &s, 5).await.unwrap();
    other.tiers.flush().await;
    assert_eq!(other.page(&ada, &s, 5).await.unwrap().0.len(), 2);
    assert!(other.tiers.counts().recent_hits > 0, "there is a copy");
    process.ledger_switch.down.store(true, Ordering::Relaxed);
    assert_eq!(
        code(process.page(&anonymous(), &s, 5).await),
        ErrorCode::StoreUnavailable
    );
    process.ledger_switch.down.store(false, Ordering::Relaxed);
    assert_eq!(
        code(process.page(&anonymous(), &s, 5).await),
        ErrorCode::SessionNotFound
    );
}

/// Requests to a silent hot store time out; no request for a durable session fails because of it.
#[tokio::test]
async fn a_slow_hot_store_delays_answers_only_by_its_own_timeout() {
    for durable in [DurablePolicy::All, DurablePolicy::Authenticated] {
        let world = TierWorld::new(durable);
        let process = world.process();
        let (s, ada) = (sid("s"), user("ada"));
        let turn = process.complete_turn(&ada, &s, "a").await.unwrap();
        process.hot_switch.slow.store(true, Ordering::Relaxed);
        process.complete_turn(&ada, &s, "b").await.unwrap();
        assert_eq!(
            process.page(&ada, &s, 5).await.unwrap(),
            world.page(&ada, &s, 5).await.unwrap()
        );
        process.redact(&ada, &s, turn.turn_id).await.unwrap();
        assert_eq!(
            process.page(&ada, &s, 5).await.unwrap(),
            world.page(&ada, &s, 5).await.unwrap()
        );
        assert!(process.tiers.counts().hot_failures > 0);
        if durable == DurablePolicy::Authenticated {
            let started = process.complete_turn(&anonymous(), &sid("e"), "a").await;
            assert_eq!(code(started), ErrorCode::HotUnavailable);
        }
        process.hot_switch.slow.store(false, Ordering::Relaxed);
        wait_until("the removal is done", async || {
            process.tiers.counts().removals_waiting == 0
        })
        .await;
        assert_eq!(
            process.page(&ada, &s, 5).await.unwrap(),
            world.page(&ada, &s, 5).await.unwrap()
        );
    }
}

/// No answer from a copy is older than a version that this process has shown to any viewer.
#[tokio::test]
async fn an_older_copy_is_not_shown_after_a_newer_history() {
    let world = TierWorld::new(DurablePolicy::All);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    for shown_to in [&ada, &operator()] {
        process.complete_turn(&ada, &s, "a").await.unwrap();
        process.page(&ada, &s, 5).await.unwrap();
        process.tiers.flush().await;
        process.ledger_switch.down.store(true, Ordering::Relaxed);
        let recent = process
            .tiers
            .recent_turns(&ada, &s, 5)
            .await
            .unwrap()
            .unwrap();
        assert!(recent.as_of_seq.is_some());
        process.ledger_switch.down.store(false, Ordering::Relaxed);
        // This write comes from a process without a hot store.
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
        // The refused request of another user does not change what this process has shown.
        assert_eq!(
            code(process.turns(&user("bob"), &s).await),
            ErrorCode::SessionNotFound
        );
        process.ledger_switch.down.store(true, Ordering::Relaxed);
        assert_eq!(
            code(process.page(&ada, &s, 5).await),
            ErrorCode::StoreUnavailable,
            "{shown_to:?}"
        );
        process.ledger_switch.down.store(false, Ordering::Relaxed);
    }
}
