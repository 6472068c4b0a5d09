use filrouge_store::ledger::Durability;
use filrouge_store::verify::Verdict;
use filrouge_types::ErrorCode;

use super::world::{World, code, nobody, operator, sid, text, user};
use crate::caller::Caller;
use crate::scopes::DurablePolicy;
use crate::{CreateSession, StartTurn};

#[tokio::test]
async fn without_a_policy_all_is_in_the_ledger() {
    let world = World::new(DurablePolicy::All);
    let process = world.process();
    let s = sid("s");
    let written = process.written(&nobody(), &s, "a").await.unwrap();
    assert_eq!(written.durability, Durability::Flushed);
    assert_eq!(world.page(&nobody(), &s, 5).await.unwrap().0.len(), 1);
    assert!(!process.scopes.is_ephemeral(&nobody(), &s).await.unwrap());
    assert!(!process.scopes.in_hot(&nobody(), &s).await.unwrap());
}

#[tokio::test]
async fn nobodys_sessions_are_in_the_hot_store_alone() {
    let world = World::new(DurablePolicy::Authenticated);
    let process = world.process();
    let s = sid("s");
    assert!(process.scopes.is_ephemeral(&nobody(), &s).await.unwrap());
    let turn = process.start(&nobody(), &s, "a").await.unwrap();
    process
        .finalize(&nobody(), &s, turn.turn_id, "b")
        .await
        .unwrap();
    assert_eq!(
        code(world.page(&operator(), &s, 5).await),
        ErrorCode::SessionNotFound
    );
    assert_eq!(process.page(&nobody(), &s, 5).await.unwrap().0.len(), 1);
    assert!(process.scopes.in_hot(&nobody(), &s).await.unwrap());
    let written = process.written(&nobody(), &s, "b").await.unwrap();
    assert_eq!(written.durability, Durability::Ephemeral);
    // Another process finds it as well, also for the operator.
    let other = world.process();
    assert_eq!(other.turns(&nobody(), &s).await.unwrap().len(), 2);
    assert_eq!(other.turns(&operator(), &s).await.unwrap().len(), 2);
    // Who is somebody reads it, as nobody's session, without a login.
    assert_eq!(other.turns(&user("ada"), &s).await.unwrap().len(), 2);
    assert!(other.scopes.in_hot(&user("ada"), &s).await.unwrap());
    assert_eq!(
        code(world.page(&operator(), &s, 5).await),
        ErrorCode::SessionNotFound
    );
}

#[tokio::test]
async fn somebodys_sessions_are_in_the_ledger() {
    let world = World::new(DurablePolicy::Authenticated);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    assert!(!process.scopes.is_ephemeral(&ada, &s).await.unwrap());
    let written = process.written(&ada, &s, "a").await.unwrap();
    assert_eq!(written.durability, Durability::Flushed);
    assert_eq!(world.page(&ada, &s, 5).await.unwrap().0.len(), 1);
    // To nobody it looks as it does without a hot store.
    assert_eq!(
        code(process.whole(&nobody(), &s, "b").await),
        ErrorCode::SessionConflict
    );
    assert_eq!(
        code(process.turns(&nobody(), &s).await),
        ErrorCode::SessionNotFound
    );
    assert!(!process.scopes.is_ephemeral(&nobody(), &s).await.unwrap());
    assert!(!process.scopes.in_hot(&nobody(), &s).await.unwrap());
}

#[tokio::test]
async fn what_is_not_kept_any_more_has_expired() {
    let world = World::new(DurablePolicy::Authenticated);
    let process = world.process();
    let s = sid("s");
    let turn = process.start(&nobody(), &s, "a").await.unwrap().turn_id;
    world.clock.advance(25 * 60 * 60 * 1_000_000);
    let finalized = process.finalize(&nobody(), &s, turn, "b").await;
    assert_eq!(code(finalized), ErrorCode::TurnExpired);
    let shown = process.ledger().turn(&nobody(), &s, turn).await;
    assert_eq!(code(shown), ErrorCode::TurnExpired);
    assert_eq!(
        code(process.turns(&nobody(), &s).await),
        ErrorCode::SessionNotFound
    );
    // To somebody it was never there, for it would have been taken into the ledger.
    let shown = process.ledger().turn(&user("ada"), &s, turn).await;
    assert_eq!(code(shown), ErrorCode::SessionNotFound);
    // A turn that a session has never had is another matter.
    process.start(&nobody(), &s, "c").await.unwrap();
    let finalized = process.finalize(&nobody(), &s, turn, "b").await;
    assert_eq!(code(finalized), ErrorCode::TurnNotFound);
}

#[tokio::test]
async fn an_erased_session_counts_as_being_in_the_ledger() {
    let world = World::new(DurablePolicy::Authenticated);
    let (process, other) = (world.process(), world.process());
    let (s, ada) = (sid("s"), user("ada"));
    process.whole(&ada, &s, "a").await.unwrap();
    process
        .engine
        .erasure
        .erase(&Caller::from(&ada), s.clone())
        .await
        .unwrap();
    for process in [&process, &other] {
        assert_eq!(
            code(process.whole(&nobody(), &s, "b").await),
            ErrorCode::SessionConflict
        );
        assert_eq!(
            code(process.whole(&ada, &s, "b").await),
            ErrorCode::SessionErased
        );
        assert_eq!(
            code(process.turns(&ada, &s).await),
            ErrorCode::SessionErased
        );
    }
}

#[tokio::test]
async fn what_needs_the_chain_in_the_ledger_is_refused() {
    let world = World::new(DurablePolicy::Authenticated);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    process.whole(&nobody(), &s, "a").await.unwrap();
    let anyone = Caller::from(&nobody());
    let export = || {
        let sink = Box::new(|_: &str| Ok(()));
        process.engine.bundles.export(&anyone, &s, sink)
    };
    assert_eq!(code(export().await), ErrorCode::SessionEphemeral);
    let sessions = &process.engine.sessions;
    let verified = sessions.verify(&anyone, s.clone()).await;
    assert_eq!(code(verified), ErrorCode::SessionEphemeral);
    process.whole(&ada, &s, "b").await.unwrap();
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
async fn everything_else_works_on_an_ephemeral_session() {
    let world = World::new(DurablePolicy::Authenticated);
    let process = world.process();
    let (engine, s) = (&process.engine, sid("s"));
    let create = CreateSession {
        session_id: Some(s.clone()),
        title: Some("t".into()),
        ..CreateSession::default()
    };
    let made = engine
        .sessions
        .create(&Caller::from(&nobody()), create)
        .await
        .unwrap();
    let created = !made.replayed;

    assert!(created);
    let turn = process.whole(&nobody(), &s, "a").await.unwrap();
    let again = StartTurn {
        question_neutral: text("what"),
        answer_neutral: text("that"),
        ..StartTurn::new("b".parse().unwrap())
    };
    let viewer = nobody();
    let caller = Caller::from(&viewer);
    let replaced = engine
        .turns
        .replace(&caller, s.clone(), turn.turn_id, again);
    assert_eq!(replaced.await.unwrap().record_version, 2);
    let conversation = engine
        .context
        .conversation(&Caller::from(&nobody()), &s)
        .await
        .unwrap();
    assert_eq!(conversation.turns.len(), 2);
    let statistics = engine.stats.of(&Caller::from(&nobody()), &s).await.unwrap();
    assert_eq!(statistics.own.turns, 1);
    engine
        .stats
        .lineage(&Caller::from(&nobody()), &s)
        .await
        .unwrap();
    engine
        .context
        .diagnose(&Caller::from(&nobody()), &s, 10)
        .await
        .unwrap();
    let (items, _) = process.ledger().items(&nobody(), &s, 0, 100).await.unwrap();
    assert_eq!(items.len(), 4);
    let commits = process.ledger().position().commit_no;
    assert_eq!(commits, 0, "no commit of the ledger");
}

#[tokio::test]
async fn who_follows_an_ephemeral_session_sees_it_grow() {
    let world = World::new(DurablePolicy::Authenticated);
    let process = world.process();
    let s = sid("s");
    let open = process.start(&nobody(), &s, "a").await.unwrap().turn_id;
    let (engine, viewer) = (&process.engine, nobody());
    let seen = Caller::from(&viewer);
    let wait = std::time::Duration::from_secs(60);
    let waiting = engine.following.turn(&seen, &s, open, wait);
    let closing = async {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        process.finalize(&viewer, &s, open, "b").await.unwrap()
    };
    let (waited, closed) = tokio::join!(waiting, closing);
    assert_eq!(waited.unwrap(), closed);
    let other = sid("other");
    let gone = engine.following.turn(&seen, &other, open, wait);
    assert_eq!(code(gone.await), ErrorCode::TurnExpired);
}
