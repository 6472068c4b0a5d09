//! Requests of the operator reach the session in either tier.

use std::sync::atomic::Ordering;

use filrouge_store::hot::HotStore;
use filrouge_store::ledger::Durability;
use filrouge_types::ErrorCode;

use super::world::{TierWorld, anonymous, code, operator, sid, user, wait_until};
use crate::caller::Caller;
use crate::scopes::DurablePolicy;

fn world() -> TierWorld {
    TierWorld::new(DurablePolicy::Authenticated)
}

#[tokio::test]
async fn the_operator_writes_to_an_anonymous_session() {
    let world = world();
    let (process, other) = (world.process(), world.process());
    let s = sid("s");
    let open = process.start(&anonymous(), &s, "a").await.unwrap().turn_id;
    // The write creates no second session with that id.
    let written = other.write_turn(&operator(), &s, "b").await.unwrap();
    assert_eq!(written.ordinal, 2);
    assert_eq!(written.durability, Durability::Ephemeral);
    let closed = other.finalize(&operator(), &s, open, "c").await.unwrap();
    assert_eq!(closed.turn_id, open);
    assert_eq!(process.turns(&anonymous(), &s).await.unwrap().len(), 2);
    assert_eq!(
        code(world.page(&operator(), &s, 5).await),
        ErrorCode::SessionNotFound
    );
    let redacted = other.redact(&operator(), &s, open).await.unwrap();
    assert!(redacted.deleted_at.is_some());
    assert!(other.tiers.in_hot(&operator(), &s).await.unwrap());
    other
        .engine
        .erasure
        .erase(&Caller::from(&operator()), s.clone())
        .await
        .unwrap();
    assert_eq!(
        code(process.turns(&anonymous(), &s).await),
        ErrorCode::SessionErased
    );
    // A session that exists in neither tier is created in the ledger.
    other
        .complete_turn(&operator(), &sid("new"), "a")
        .await
        .unwrap();
    assert_eq!(
        world
            .page(&operator(), &sid("new"), 5)
            .await
            .unwrap()
            .0
            .len(),
        1
    );
}

#[tokio::test]
async fn a_link_by_the_operator_is_a_login() {
    let world = world();
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    process.complete_turn(&anonymous(), &s, "a").await.unwrap();
    let identity = ada.viewer.identity().unwrap().clone();
    let viewer = operator();
    let caller = Caller::from(&viewer);
    let linked = process
        .engine
        .sessions
        .link(&caller, s.clone(), identity.clone());
    assert_eq!(linked.await.unwrap().identity_id, Some(identity));
    assert_eq!(world.page(&ada, &s, 5).await.unwrap().0.len(), 1);
    assert_eq!(world.hot.load(&world.key(&s)).await.unwrap(), None);
}

#[tokio::test]
async fn while_the_hot_store_is_down_the_operator_reaches_only_the_ledger() {
    let world = world();
    let process = world.process();
    let s = sid("s");
    let turn = process
        .complete_turn(&anonymous(), &s, "a")
        .await
        .unwrap()
        .turn_id;
    process
        .complete_turn(&user("ada"), &sid("durable"), "a")
        .await
        .unwrap();
    process.hot_switch.down.store(true, Ordering::Relaxed);
    // Writes that create a session succeed. Other requests fail, because the session may be in the hot store.
    process
        .complete_turn(&operator(), &sid("new"), "a")
        .await
        .unwrap();
    process
        .complete_turn(&operator(), &sid("durable"), "b")
        .await
        .unwrap();
    assert_eq!(
        process
            .turns(&operator(), &sid("durable"))
            .await
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        code(process.redact(&operator(), &s, turn).await),
        ErrorCode::HotUnavailable
    );
    assert_eq!(
        code(process.turns(&operator(), &s).await),
        ErrorCode::HotUnavailable
    );
    process.hot_switch.down.store(false, Ordering::Relaxed);
    wait_until("the redaction succeeds", async || {
        process.redact(&operator(), &s, turn).await.is_ok()
    })
    .await;
}
