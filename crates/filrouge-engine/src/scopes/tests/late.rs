//! Turns that remained in the hot store when the ledger created their session without them.

use std::sync::atomic::Ordering;

use filrouge_store::hot::HotStore;
use filrouge_types::ErrorCode;

use super::login::{ledger_items, link};
use super::world::{TierWorld, anonymous, code, sid, user};
use crate::scopes::DurablePolicy;

fn world() -> TierWorld {
    TierWorld::new(DurablePolicy::Authenticated)
}

#[tokio::test]
async fn turns_in_an_unavailable_hot_store_are_moved_later() {
    let world = world();
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    let first = process.complete_turn(&anonymous(), &s, "a").await.unwrap();
    let open = process.start(&anonymous(), &s, "b").await.unwrap();
    let redacted = process
        .complete_turn(&anonymous(), &s, "secret")
        .await
        .unwrap();
    process
        .redact(&anonymous(), &s, redacted.turn_id)
        .await
        .unwrap();
    world.tick();
    process.hot_switch.down.store(true, Ordering::Relaxed);
    // Durable sessions continue without the hot store; requests that need it fail with its code.
    let own = process.complete_turn(&ada, &s, "c").await.unwrap();
    assert_eq!(own.ordinal, 1);
    let in_other_session = process
        .finalize(&ada, &sid("other"), open.turn_id, "x")
        .await;
    assert_eq!(code(in_other_session), ErrorCode::HotUnavailable);
    assert_eq!(
        code(process.turns(&anonymous(), &sid("other")).await),
        ErrorCode::HotUnavailable
    );
    assert_eq!(
        code(process.turns(&anonymous(), &s).await),
        ErrorCode::SessionNotFound
    );
    process.hot_switch.down.store(false, Ordering::Relaxed);
    // This write moves the remaining turns; then the open one is finalized in the ledger.
    let closed = process
        .finalize(&ada, &s, open.turn_id, "b it is")
        .await
        .unwrap();
    assert_eq!(closed.turn_id, open.turn_id);
    let turns = process.turns(&ada, &s).await.unwrap();
    let ids: Vec<_> = turns.iter().map(|t| t.turn_id).collect();
    assert_eq!(ids, [own.turn_id, first.turn_id, open.turn_id]);
    let (items, _) = ledger_items(&world, &s).await;
    let question = items
        .iter()
        .find(|i| i.turn_id == Some(first.turn_id))
        .unwrap();
    assert_eq!(
        question.body.occurred_at,
        Some(first.created_at),
        "the time of the question in the hot store"
    );
    let counts = process.tiers.counts();
    assert_eq!(
        (counts.late_turns, counts.late_refused),
        (2, 1),
        "redacted turns are not moved"
    );
    assert_eq!(world.hot.load(&world.key(&s)).await.unwrap(), None);
    assert!(
        process
            .ledger()
            .verify(None)
            .await
            .unwrap()
            .findings
            .is_empty()
    );
}

#[tokio::test]
async fn remaining_turns_are_moved_only_to_their_owner() {
    let world = world();
    let process = world.process();
    let (s, ada, bob) = (sid("s"), user("ada"), user("bob"));
    process.complete_turn(&anonymous(), &s, "a").await.unwrap();
    process.hot_switch.down.store(true, Ordering::Relaxed);
    process.complete_turn(&ada, &s, "b").await.unwrap();
    process.hot_switch.down.store(false, Ordering::Relaxed);
    let other = world.process();
    assert_eq!(
        code(other.complete_turn(&bob, &s, "c").await),
        ErrorCode::SessionConflict
    );
    assert_eq!(
        link(&other, "s", "bob").await,
        Err(ErrorCode::SessionLinked)
    );
    assert_eq!(
        code(other.turns(&bob, &s).await),
        ErrorCode::SessionNotFound
    );
    assert_eq!(other.turns(&ada, &s).await.unwrap().len(), 1);
    other.complete_turn(&ada, &s, "d").await.unwrap();
    assert_eq!(other.turns(&ada, &s).await.unwrap().len(), 3);
}

/// Until a caller presents the token of the remaining turns, each write searches for them again.
#[tokio::test]
async fn remaining_turns_with_a_token_are_moved_when_a_caller_presents_it() {
    let world = world();
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    let token = Some(world.keyring.session_token("secret"));
    let with_token = |mut scope: filrouge_store::Scope| {
        scope.token = token;
        scope
    };
    process
        .complete_turn(&with_token(anonymous()), &s, "a")
        .await
        .unwrap();
    process.hot_switch.down.store(true, Ordering::Relaxed);
    process.complete_turn(&ada, &s, "b").await.unwrap();
    process.hot_switch.down.store(false, Ordering::Relaxed);
    process.complete_turn(&ada, &s, "c").await.unwrap();
    assert_eq!(process.turns(&ada, &s).await.unwrap().len(), 2);
    process
        .complete_turn(&with_token(ada.clone()), &s, "d")
        .await
        .unwrap();
    assert_eq!(process.turns(&ada, &s).await.unwrap().len(), 4);
    assert_eq!(world.hot.load(&world.key(&s)).await.unwrap(), None);
}

/// The creation of a session of an identity does not wait for the hot store, whichever call creates it.
#[tokio::test]
async fn the_history_contract_creates_a_session_without_the_hot_store() {
    use std::sync::Arc;

    use crate::history::History;

    let world = world();
    let process = world.process();
    process.hot_switch.down.store(true, Ordering::Relaxed);
    let tenant = filrouge_types::TenantId::default_tenant();
    let identity: filrouge_types::IdentityId = "ada".parse().unwrap();
    let engine = Arc::new(process.engine);
    let history = History::new(engine, tenant);
    let request = crate::StartTurn {
        question_neutral: Some(filrouge_types::JsonText::from_plain("what")),
        ..crate::StartTurn::new("r".parse().unwrap())
    };
    history
        .on_request_started(Some(identity.clone()), sid("s"), request)
        .await
        .unwrap();
    history
        .upsert_session_link(identity.clone(), sid("t"))
        .await
        .unwrap();
    let ledger: &dyn filrouge_store::Ledger = world.ledger.as_ref();
    for name in ["s", "t"] {
        let session = ledger.session(&user("ada"), &sid(name)).await.unwrap();
        assert_eq!(session.identity_id.as_ref(), Some(&identity), "{name}");
    }
}
