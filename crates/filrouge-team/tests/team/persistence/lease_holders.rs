//! One session opened by two processes, and lost or expired leases.

use std::time::Duration;

use filrouge_team::ledger::holder_label;
use filrouge_team::record::Record;
use filrouge_team::sessions::sessions;
use filrouge_types::ErrorCode;

use crate::persistence::world::{
    World, caller, context, exchange, message, paused, record_message, session_id, team_with_id,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_opening_names_the_holder_of_the_lease() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    let mut messages = exchange(&opened.record, 1).await;
    for other in [world.other_process(), world.other_process()] {
        let refused = other.try_open(&id).await.err().unwrap();
        assert_eq!(refused.code, ErrorCode::LeaseTimeout);
        let lease = refused.held.unwrap();
        assert_eq!(holder_label(lease.holder.as_deref().unwrap()), "ann@desk");
        assert!(lease.expires_at.is_some());
        let listed = sessions(&other.engine, &caller(), "crew").await.unwrap();
        let holder = listed.sessions[0].lease_holder.clone().unwrap();
        assert_eq!(&*holder.name, "ann@desk");
    }
    // The process that holds the lease cannot open the session again either.
    let refused = world.try_open(&id).await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::LeaseTimeout);
    messages.extend(exchange(&opened.record, 3).await);
    opened.record.close(&paused()).await.unwrap();
    let other = world.other_process();
    let listed = sessions(&other.engine, &caller(), "crew").await.unwrap();
    assert_eq!(listed.sessions[0].lease_holder, None);
    let opened = other.open(&id).await;
    assert_eq!(opened.restored.context, context(&messages));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_has_lost_its_lease_writes_nothing() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    exchange(&opened.record, 1).await;
    record_message(&opened.record, &message(3, "Ann", "and?")).await;
    let mut speech = opened
        .record
        .begin_message(&message(4, "Coder", ""))
        .await
        .unwrap();
    speech.append("I ").await.unwrap();
    world.clock.advance(Duration::from_secs(60));
    let other = world.other_process();
    let new_holder = other.open(&id).await;
    let before = world.items(&id).await;
    let late = message(5, "Ann", "am I too late?");
    let refused = opened.record.write_message(&late).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StaleFence);
    let answer = message(4, "Coder", "I am done");
    let refused = speech.end(&answer, None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StaleFence);
    for refused in [
        opened.record.write_task(Some("t")).await,
        opened.record.hand_over(&paused()).await,
        opened.record.close(&paused()).await,
        opened.record.begin_message(&late).await.map(drop),
    ] {
        assert_eq!(refused.unwrap_err().code, ErrorCode::StaleFence);
    }
    assert_eq!(world.items(&id).await, before);
    exchange(&new_holder.record, 5).await;
    world.assert_intact().await;
}

/// A machine that was suspended for longer than its lease continues if no other process holds the lease by then.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_lease_is_reacquired_unless_another_process_holds_it() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    let mut messages = exchange(&opened.record, 1).await;
    let fence = opened.record.fence();
    world.clock.advance(Duration::from_secs(8 * 3600));
    messages.extend(exchange(&opened.record, 3).await);
    assert_eq!(opened.record.fence(), fence + 1);
    let question = message(5, "Ann", "and now?");
    record_message(&opened.record, &question).await;
    let mut speech = opened
        .record
        .begin_message(&message(6, "Coder", ""))
        .await
        .unwrap();
    speech.append("I slept ").await.unwrap();
    world.clock.advance(Duration::from_secs(8 * 3600));
    let answer = message(6, "Coder", "I slept well");
    speech.end(&answer, None).await.unwrap();
    opened.record.hand_over(&paused()).await.unwrap();
    assert_eq!(opened.record.fence(), fence + 2);
    messages.extend([question, answer]);
    opened.record.close(&paused()).await.unwrap();
    assert_eq!(world.open(&id).await.restored.context, context(&messages));
    world.assert_intact().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_another_team_is_refused() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    exchange(&opened.record, 1).await;
    opened.record.close(&paused()).await.unwrap();
    for (team, id, code) in [
        ("crew-2", id.clone(), ErrorCode::Invalid),
        ("cre", id.clone(), ErrorCode::Invalid),
        ("crew", format!("{id}x"), ErrorCode::SessionNotFound),
        (
            "crew",
            id[..id.len() - 1].to_owned(),
            ErrorCode::SessionNotFound,
        ),
        ("crew", String::new(), ErrorCode::SessionNotFound),
        ("crew", "a\nb".to_owned(), ErrorCode::SessionNotFound),
    ] {
        let refused = filrouge_team::ledger::open_existing(
            world.engine.clone(),
            caller(),
            &team_with_id(team),
            &id,
            world.options(),
        )
        .await;
        assert_eq!(refused.err().unwrap().code, code, "{team} {id:?}");
    }
    // A refused opening holds no lease.
    let lease = world
        .engine
        .calls
        .lease(&caller(), &session_id(&id))
        .await
        .unwrap();
    assert_eq!(lease.holder, None);
}
