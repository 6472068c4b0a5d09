//! The tier to which the requests of a session go.

use std::sync::atomic::Ordering;

use filrouge_store::ledger::Durability;
use filrouge_store::verify::Verdict;
use filrouge_types::ErrorCode;

use super::world::{TierWorld, anonymous, code, operator, sid, text, user};
use crate::caller::Caller;
use crate::scopes::DurablePolicy;
use crate::{CreateSession, StartTurn};

#[tokio::test]
async fn under_durable_all_every_session_is_in_the_ledger() {
    let world = TierWorld::new(DurablePolicy::All);
    let process = world.process();
    let s = sid("s");
    let written = process.write_turn(&anonymous(), &s, "a").await.unwrap();
    assert_eq!(written.durability, Durability::Flushed);
    assert_eq!(world.page(&anonymous(), &s, 5).await.unwrap().0.len(), 1);
    assert!(!process.tiers.is_ephemeral(&anonymous(), &s).await.unwrap());
    assert!(!process.tiers.in_hot(&anonymous(), &s).await.unwrap());
}

#[tokio::test]
async fn anonymous_sessions_are_only_in_the_hot_store() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let process = world.process();
    let s = sid("s");
    assert!(process.tiers.is_ephemeral(&anonymous(), &s).await.unwrap());
    let turn = process.start(&anonymous(), &s, "a").await.unwrap();
    process
        .finalize(&anonymous(), &s, turn.turn_id, "b")
        .await
        .unwrap();
    assert_eq!(
        code(world.page(&operator(), &s, 5).await),
        ErrorCode::SessionNotFound
    );
    assert_eq!(process.page(&anonymous(), &s, 5).await.unwrap().0.len(), 1);
    assert!(process.tiers.in_hot(&anonymous(), &s).await.unwrap());
    let written = process.write_turn(&anonymous(), &s, "b").await.unwrap();
    assert_eq!(written.durability, Durability::Ephemeral);
    // Another process finds the session, too, also for the operator.
    let other = world.process();
    assert_eq!(other.turns(&anonymous(), &s).await.unwrap().len(), 2);
    assert_eq!(other.turns(&operator(), &s).await.unwrap().len(), 2);
    // A caller with an identity reads it as an anonymous session, without a login.
    assert_eq!(other.turns(&user("ada"), &s).await.unwrap().len(), 2);
    assert!(other.tiers.in_hot(&user("ada"), &s).await.unwrap());
    assert_eq!(
        code(world.page(&operator(), &s, 5).await),
        ErrorCode::SessionNotFound
    );
}

#[tokio::test]
async fn owned_sessions_are_in_the_ledger() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    assert!(!process.tiers.is_ephemeral(&ada, &s).await.unwrap());
    let written = process.write_turn(&ada, &s, "a").await.unwrap();
    assert_eq!(written.durability, Durability::Flushed);
    assert_eq!(world.page(&ada, &s, 5).await.unwrap().0.len(), 1);
    // An anonymous caller gets the same answer as without a hot store.
    assert_eq!(
        code(process.complete_turn(&anonymous(), &s, "b").await),
        ErrorCode::SessionConflict
    );
    assert_eq!(
        code(process.turns(&anonymous(), &s).await),
        ErrorCode::SessionNotFound
    );
    assert!(!process.tiers.is_ephemeral(&anonymous(), &s).await.unwrap());
    assert!(!process.tiers.in_hot(&anonymous(), &s).await.unwrap());
}

#[tokio::test]
async fn turns_of_an_expired_session_are_reported_as_expired() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let process = world.process();
    let s = sid("s");
    let turn = process.start(&anonymous(), &s, "a").await.unwrap().turn_id;
    world.clock.advance(25 * 60 * 60 * 1_000_000);
    let finalized = process.finalize(&anonymous(), &s, turn, "b").await;
    assert_eq!(code(finalized), ErrorCode::TurnExpired);
    let shown = process.ledger().turn(&anonymous(), &s, turn).await;
    assert_eq!(code(shown), ErrorCode::TurnExpired);
    assert_eq!(
        code(process.turns(&anonymous(), &s).await),
        ErrorCode::SessionNotFound
    );
    // For an identity the session never existed, because a login would have moved it into the ledger.
    let shown = process.ledger().turn(&user("ada"), &s, turn).await;
    assert_eq!(code(shown), ErrorCode::SessionNotFound);
    // A turn that a session never had is not found.
    process.start(&anonymous(), &s, "c").await.unwrap();
    let finalized = process.finalize(&anonymous(), &s, turn, "b").await;
    assert_eq!(code(finalized), ErrorCode::TurnNotFound);
}

#[tokio::test]
async fn an_erased_session_counts_as_being_in_the_ledger() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let (process, other) = (world.process(), world.process());
    let (s, ada) = (sid("s"), user("ada"));
    process.complete_turn(&ada, &s, "a").await.unwrap();
    process
        .engine
        .erasure
        .erase(&Caller::from(&ada), s.clone())
        .await
        .unwrap();
    for process in [&process, &other] {
        assert_eq!(
            code(process.complete_turn(&anonymous(), &s, "b").await),
            ErrorCode::SessionConflict
        );
        assert_eq!(
            code(process.complete_turn(&ada, &s, "b").await),
            ErrorCode::SessionErased
        );
        assert_eq!(
            code(process.turns(&ada, &s).await),
            ErrorCode::SessionErased
        );
    }
}

#[tokio::test]
async fn an_operation_that_needs_the_chain_is_refused() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    process.complete_turn(&anonymous(), &s, "a").await.unwrap();
    let anyone = Caller::from(&anonymous());
    let export = || {
        let sink = Box::new(|_: &str| Ok(()));
        process.engine.bundles.export(&anyone, &s, sink)
    };
    assert_eq!(code(export().await), ErrorCode::SessionEphemeral);
    let sessions = &process.engine.sessions;
    let verified = sessions.verify(&anyone, s.clone()).await;
    assert_eq!(code(verified), ErrorCode::SessionEphemeral);
    process.complete_turn(&ada, &s, "b").await.unwrap();
    let verified = process
        .ledger()
        .verify(Some((ada.clone(), s.clone())))
        .await
        .unwrap();
    assert_eq!(verified.verdict(), Verdict::Intact);
    let sink = Box::new(|_: &str| Ok(()));
    process
        .engine
        .bundles
        .export(&Caller::from(&ada), &s, sink)
        .await
        .unwrap();
    assert_eq!(code(export().await), ErrorCode::SessionNotFound);
}

#[tokio::test]
async fn operations_without_the_chain_work_on_an_ephemeral_session() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let process = world.process();
    let (engine, s) = (&process.engine, sid("s"));
    let create = CreateSession {
        session_id: Some(s.clone()),
        title: Some("t".into()),
        ..CreateSession::default()
    };
    let created = engine
        .sessions
        .create(&Caller::from(&anonymous()), create)
        .await
        .unwrap();
    assert!(!created.replayed);
    let turn = process.complete_turn(&anonymous(), &s, "a").await.unwrap();
    let again = StartTurn {
        question_neutral: text("what"),
        answer_neutral: text("that"),
        ..StartTurn::new("b".parse().unwrap())
    };
    let viewer = anonymous();
    let caller = Caller::from(&viewer);
    let replaced = engine
        .turns
        .replace(&caller, s.clone(), turn.turn_id, again);
    assert_eq!(replaced.await.unwrap().record_version, 2);
    let conversation = engine
        .context
        .conversation(&Caller::from(&anonymous()), &s)
        .await
        .unwrap();
    assert_eq!(conversation.turns.len(), 2);
    let statistics = engine
        .stats
        .of(&Caller::from(&anonymous()), &s)
        .await
        .unwrap();
    assert_eq!(statistics.own.turns, 1);
    engine
        .stats
        .lineage(&Caller::from(&anonymous()), &s)
        .await
        .unwrap();
    engine
        .context
        .diagnose(&Caller::from(&anonymous()), &s, 10)
        .await
        .unwrap();
    let (items, _) = process
        .ledger()
        .items(&anonymous(), &s, 0, 100)
        .await
        .unwrap();
    assert_eq!(items.len(), 4);
    let commits = process.ledger().position().commit_count();
    assert_eq!(commits, 0, "the ledger has no commit");
}

#[tokio::test]
async fn a_follower_sees_an_ephemeral_session_grow() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let process = world.process();
    let s = sid("s");
    let open = process.start(&anonymous(), &s, "a").await.unwrap().turn_id;
    let (engine, viewer) = (&process.engine, anonymous());
    let caller = Caller::from(&viewer);
    let wait = std::time::Duration::from_secs(60);
    let waiting = engine.following.turn(&caller, &s, open, wait);
    let closing = async {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        process.finalize(&viewer, &s, open, "b").await.unwrap()
    };
    let (waited, closed) = tokio::join!(waiting, closing);
    assert_eq!(waited.unwrap(), closed);
    let other = sid("other");
    let expired = engine.following.turn(&caller, &other, open, wait);
    assert_eq!(code(expired.await), ErrorCode::TurnExpired);
}

#[tokio::test]
async fn queries_for_a_caller_take_the_callers_turns() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    assert!(process.turns(&anonymous(), &sid("other")).await.is_err());
    process.complete_turn(&anonymous(), &s, "a").await.unwrap();
    // A login.
    let turn = process.complete_turn(&ada, &s, "b").await.unwrap();
    process.page(&ada, &s, 5).await.unwrap();
    process.tiers.flush().await;
    process.redact(&ada, &s, turn.turn_id).await.unwrap();
    let queries = &process.ledger_switch.server_queries;
    assert_eq!(queries.load(Ordering::Relaxed), 0);
}
