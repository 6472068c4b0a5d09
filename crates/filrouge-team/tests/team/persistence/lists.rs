//! Lists of a team's sessions.

use filrouge_engine::Caller;
use filrouge_engine::CreateSession;
use filrouge_team::record::Record;
use filrouge_team::sessions::{session, sessions};
use filrouge_types::{ErrorCode, IdentityId, TenantId};

use crate::persistence::import_export::imported_session;
use crate::persistence::world::{
    World, caller, exchange, message, paused, record_message, session_id,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_session_with_the_newest_message_is_first() {
    let world = World::new();
    let first = world.open_new().await;
    exchange(&first.record, 1).await;
    let second = world.open_new().await;
    exchange(&second.record, 3).await;
    // A session without messages is not listed.
    let _empty = world.open_new().await;
    for (exchanged, expected) in [
        (None, [&second, &first]),
        (Some((&first, 5)), [&first, &second]),
        (Some((&second, 7)), [&second, &first]),
    ] {
        if let Some((opened, number)) = exchanged {
            exchange(&opened.record, number).await;
        }
        let listed = sessions(&world.engine, &caller(), "crew").await.unwrap();
        let ids: Vec<&str> = listed
            .sessions
            .iter()
            .map(|entry| &*entry.session_id)
            .collect();
        assert_eq!(ids, expected.map(|opened| opened.record.session_id()));
    }
    let none = sessions(&world.engine, &caller(), "cre").await.unwrap();
    assert!(none.sessions.is_empty());
    let stranger = IdentityId::new("eve").ok();
    let stranger = Caller::local(TenantId::default_tenant(), stranger);
    let none = sessions(&world.engine, &stranger, "crew").await.unwrap();
    assert!(none.sessions.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_shows_the_state_that_opening_restores() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    // Asserts that the list agrees with the session that another process opens; returns that session.
    let reopen_and_compare = async |world: &World| {
        world.clock.advance(std::time::Duration::from_secs(60));
        let next = world.other_process();
        let shown = session(&next.engine, &caller(), "crew", &id).await.unwrap();
        let listed = sessions(&next.engine, &caller(), "crew").await.unwrap();
        assert_eq!(listed.sessions, std::slice::from_ref(&shown));
        let opened = next.open(&id).await;
        let messages = &opened.restored.context.messages;
        let last = messages.last().unwrap();
        assert_eq!(shown.message_count, messages.len() as u64);
        assert_eq!(shown.first_words.as_deref(), Some("how long is it?"));
        assert_eq!(shown.last_speaker.as_ref(), Some(&last.speaker.name));
        assert_eq!(shown.last_activity, last.at);
        assert_eq!(shown.created_at, opened.created_at);
        opened
    };
    record_message(&opened.record, &message(1, "Ann", "how long\n is  it?")).await;
    let opened = reopen_and_compare(&world).await;
    exchange(&opened.record, 2).await;
    let opened = reopen_and_compare(&world).await;
    // Notes after the last message, and a task.
    for task in ["a", "b", "c"] {
        opened.record.write_task(Some(task)).await.unwrap();
    }
    let opened = reopen_and_compare(&world).await;
    for _ in 0..30 {
        opened.record.write_task(Some("x")).await.unwrap();
        opened.record.write_task(None).await.unwrap();
    }
    opened.record.hand_over(&paused()).await.unwrap();
    let opened = reopen_and_compare(&world).await;
    // An agent is still speaking.
    record_message(&opened.record, &message(4, "Ann", "well?")).await;
    let speech = opened
        .record
        .begin_message(&message(5, "Coder", ""))
        .await
        .unwrap();
    std::mem::forget(speech);
    std::mem::forget(opened);
    reopen_and_compare(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_with_a_common_prefix_are_distinct() {
    let world = World::new();
    let ids = ["s", "s1", "s-1", "1-s", "s%", "S"];
    for (number, id) in ids.iter().enumerate() {
        let messages: Vec<_> = (1..=number as u64 + 1)
            .map(|position| message(position, "Ann", &format!("{id} {position}")))
            .collect();
        assert_eq!(imported_session(&world, id, &messages).await, *id);
    }
    for (number, id) in ids.iter().enumerate() {
        let shown = session(&world.engine, &caller(), "crew", id).await.unwrap();
        assert_eq!(shown.message_count, number as u64 + 1);
        let opened = world.open(id).await;
        assert_eq!(opened.restored.context.messages.len(), number + 1);
        let first = &opened.restored.context.messages[0].content;
        assert_eq!(**first, format!("{id} 1"));
        opened.record.close(&paused()).await.unwrap();
        let path = world.snapshot_path(&opened);
        let file = world.snapshots().read(&path).unwrap();
        assert_eq!(&*file.session_id, *id);
        assert_eq!(file.messages.len(), number + 1);
    }
    let (files, unreadable) = world.snapshots().list("crew").unwrap();
    assert_eq!((files.len(), unreadable.len()), (ids.len(), 0));
    let absent = session(&world.engine, &caller(), "crew", "s-").await;
    assert_eq!(absent.unwrap_err().code, ErrorCode::SessionNotFound);
}

/// A session that another program has created is refused. Items that another program has added to a team's session are
/// counted, but are not messages.
#[tokio::test(flavor = "multi_thread")]
async fn items_of_other_programs_are_not_messages() {
    let world = World::new();
    let plain = CreateSession {
        session_id: Some(session_id("plain")),
        ..CreateSession::default()
    };
    world
        .engine
        .sessions
        .create(&caller(), plain)
        .await
        .unwrap();
    let refused = world.try_open("plain").await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::Invalid);
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    let messages = exchange(&opened.record, 1).await;
    opened.record.close(&paused()).await.unwrap();
    let start = filrouge_engine::StartTurn {
        question_neutral: Some(filrouge_types::JsonText::from_plain("from another program")),
        answer_neutral: Some(filrouge_types::JsonText::from_plain("indeed")),
        ..filrouge_engine::StartTurn::new(filrouge_types::RequestId::new("r").unwrap())
    };
    world
        .engine
        .turns
        .start(&caller(), session_id(&id), start)
        .await
        .unwrap();
    let opened = world.open(&id).await;
    assert_eq!(opened.restored.context.messages, messages);
    assert_eq!(opened.left_out.foreign, 2);
    let shown = session(&world.engine, &caller(), "crew", &id)
        .await
        .unwrap();
    assert_eq!(shown.message_count, 2);
}
