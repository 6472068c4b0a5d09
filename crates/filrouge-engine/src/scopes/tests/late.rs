//! What the hot store still had when a session came into the ledger without it.

use std::sync::atomic::Ordering;

use filrouge_store::hot::HotStore;
use filrouge_types::ErrorCode;

use super::login::{link, world_items};
use super::world::{World, code, nobody, sid, user};
use crate::scopes::DurablePolicy;

fn world() -> World {
    World::new(DurablePolicy::Authenticated)
}

#[tokio::test]
async fn what_the_hot_store_had_when_it_was_down_comes_late() {
    let world = world();
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    let first = process.whole(&nobody(), &s, "a").await.unwrap();
    let open = process.start(&nobody(), &s, "b").await.unwrap();
    let gone = process.whole(&nobody(), &s, "secret").await.unwrap();
    process.redact(&nobody(), &s, gone.turn_id).await.unwrap();
    world.tick();
    process.hot_fate.down.store(true, Ordering::Relaxed);
    // Durable sessions go on without the hot store; what would need it says so.
    let own = process.whole(&ada, &s, "c").await.unwrap();
    assert_eq!(own.ordinal, 1);
    let elsewhere = process
        .finalize(&ada, &sid("other"), open.turn_id, "x")
        .await;
    assert_eq!(code(elsewhere), ErrorCode::HotUnavailable);
    assert_eq!(
        code(process.turns(&nobody(), &sid("other")).await),
        ErrorCode::HotUnavailable
    );
    assert_eq!(
        code(process.turns(&nobody(), &s).await),
        ErrorCode::SessionNotFound
    );
    process.hot_fate.down.store(false, Ordering::Relaxed);
    // The turn that is open there is ended here.
    let closed = process
        .finalize(&ada, &s, open.turn_id, "b it is")
        .await
        .unwrap();
    assert_eq!(closed.turn_id, open.turn_id);
    let turns = process.turns(&ada, &s).await.unwrap();
    let ids: Vec<_> = turns.iter().map(|t| t.turn_id).collect();
    assert_eq!(ids, [own.turn_id, first.turn_id, open.turn_id]);
    let (items, _) = world_items(&world, &s).await;
    let question = items
        .iter()
        .find(|i| i.turn_id == Some(first.turn_id))
        .unwrap();
    assert_eq!(
        question.body.occurred_at,
        Some(first.created_at),
        "when it was said"
    );
    let counts = process.scopes.counts();
    assert_eq!(
        (counts.late_turns, counts.late_refused),
        (2, 1),
        "what was redacted stays away"
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
async fn what_is_left_goes_to_nobody_but_the_owner() {
    let world = world();
    let process = world.process();
    let (s, ada, bob) = (sid("s"), user("ada"), user("bob"));
    process.whole(&nobody(), &s, "a").await.unwrap();
    process.hot_fate.down.store(true, Ordering::Relaxed);
    process.whole(&ada, &s, "b").await.unwrap();
    process.hot_fate.down.store(false, Ordering::Relaxed);
    let other = world.process();
    assert_eq!(
        code(other.whole(&bob, &s, "c").await),
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
    other.whole(&ada, &s, "d").await.unwrap();
    assert_eq!(other.turns(&ada, &s).await.unwrap().len(), 3);
}

/// The secret of what is left was not shown yet: it is looked for again.
#[tokio::test]
async fn what_is_left_with_a_secret_comes_with_it() {
    let world = world();
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    let token = Some(world.keyring.session_token("secret"));
    let with = |mut scope: filrouge_store::Scope| {
        scope.token = token;
        scope
    };
    process.whole(&with(nobody()), &s, "a").await.unwrap();
    process.hot_fate.down.store(true, Ordering::Relaxed);
    process.whole(&ada, &s, "b").await.unwrap();
    process.hot_fate.down.store(false, Ordering::Relaxed);
    process.whole(&ada, &s, "c").await.unwrap();
    assert_eq!(process.turns(&ada, &s).await.unwrap().len(), 2);
    process.whole(&with(ada.clone()), &s, "d").await.unwrap();
    assert_eq!(process.turns(&ada, &s).await.unwrap().len(), 4);
    assert_eq!(world.hot.load(&world.key(&s)).await.unwrap(), None);
}

/// A new session of somebody does not wait for the hot store, whichever way it is begun.
#[tokio::test]
async fn the_ports_begin_a_session_without_the_hot_store() {
    use std::sync::Arc;

    use crate::history::History;

    let world = world();
    let process = world.process();
    process.hot_fate.down.store(true, Ordering::Relaxed);
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
