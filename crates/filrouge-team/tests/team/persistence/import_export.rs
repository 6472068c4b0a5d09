//! Exports of sessions to snapshot files, and imports of such files into a ledger.

use filrouge_engine::Caller;
use filrouge_engine::CreateSession;
use filrouge_team::message::{Cut, Message};
use filrouge_team::record::Record;
use filrouge_team::snapshot::{OfferReason, SessionSnapshot, export, import, importable};
use filrouge_types::{ErrorCode, IdentityId, TenantId, Timestamp, TurnStatus};

use crate::persistence::world::{
    World, caller, context, cut_message, exchange, message, messages_of, paused, session_id, team,
    team_with_id,
};

/// A snapshot of the messages, with a task.
pub(crate) fn snapshot(session: &str, messages: &[Message]) -> SessionSnapshot {
    let at = Timestamp::from_micros(1_600_000_000_000_000);
    SessionSnapshot::new(
        "crew".into(),
        session.into(),
        at,
        messages.to_vec(),
        Some("a task".into()),
    )
}

/// Imports messages, without a task; returns the session's id.
pub(crate) async fn imported_session(world: &World, session: &str, messages: &[Message]) -> String {
    let snapshot = SessionSnapshot {
        team_task: None,
        ..snapshot(session, messages)
    };
    let team = team();
    let imported = import(
        world.engine.clone(),
        caller(),
        &team,
        &snapshot,
        world.options(),
    );
    imported.await.unwrap().session_id.into()
}

/// A note, an answered question, a question whose answer failed, and a question without an answer.
fn conversation() -> Vec<Message> {
    vec![
        message(1, "System", "welcome"),
        message(2, "Ann", "who?"),
        message(3, "Planner", "the coder"),
        message(4, "Coder", "me"),
        message(5, "Ann", "do it"),
        cut_message(message(6, "Coder", "half of"), Cut::Failed),
        message(7, "Ann", "again"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_import_of_a_file_adds_nothing() {
    let world = World::new();
    let file = snapshot("imported", &conversation());
    for (added, known) in [(7, 0), (0, 7)] {
        let imported = import(
            world.engine.clone(),
            caller(),
            &team(),
            &file,
            world.options(),
        )
        .await;
        let imported = imported.unwrap();
        assert_eq!(&*imported.session_id, "imported");
        assert_eq!((imported.added, imported.known), (added, known));
        assert!(imported.differing.is_empty());
    }
    let items = world.items("imported").await;
    let first = items.iter().find(|item| {
        item.body
            .item_id
            .as_ref()
            .is_some_and(|id| id.as_str() == "msg-2")
    });
    assert_eq!(first.unwrap().body.occurred_at, Some(conversation()[1].at));
    let ended: Vec<_> = world
        .turns("imported")
        .await
        .iter()
        .map(|turn| turn.status)
        .collect();
    use TurnStatus::{Cancelled, Failed, Finalized};
    assert_eq!(ended[..4], [Cancelled, Finalized, Failed, Cancelled]);
    let opened = world.open("imported").await;
    assert_eq!(opened.restored.context.messages, conversation());
    assert_eq!(opened.restored.context.team_task.as_deref(), Some("a task"));
    assert_eq!(opened.created_at, file.created_at);
    assert_eq!(opened.restored.highest_message, 7);
    // The session continues in the same file.
    exchange(&opened.record, 8).await;
    opened.record.close(&paused()).await.unwrap();
    let path = world.snapshot_path(&opened);
    assert_eq!(path.file_name().unwrap(), "1600000000000-imported.json");
    world.assert_intact().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_another_program_added_to_a_file_are_imported() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    let mut messages = exchange(&opened.record, 1).await;
    opened.record.close(&paused()).await.unwrap();
    let snapshots = world.snapshots();
    let path = world.snapshot_path(&opened);
    let mut file = snapshots.read(&path).unwrap();
    let offered = importable(&world.engine, &caller(), "crew", &snapshots)
        .await
        .unwrap();
    assert_eq!(offered.offers, [], "the ledger has all messages");
    let new_messages = [
        message(3, "Planner", "one more thing"),
        message(4, "Ann", "yes?"),
        message(5, "Coder", "that"),
    ];
    file.messages.extend(new_messages.iter().cloned());
    // Another program has changed a message: the ledger is authoritative.
    file.messages[0] = message(1, "Ann", "another question");
    snapshots.write(&file).unwrap();
    let offered = importable(&world.engine, &caller(), "crew", &snapshots)
        .await
        .unwrap();
    assert_eq!(offered.offers.len(), 1);
    assert_eq!(offered.offers[0].reason, OfferReason::Newer);
    assert_eq!(offered.offers[0].file.message_count, 5);
    let imported = import(
        world.engine.clone(),
        caller(),
        &team(),
        &file,
        world.options(),
    )
    .await;
    let imported = imported.unwrap();
    assert_eq!((imported.added, imported.known), (3, 1));
    assert_eq!(*imported.differing, ["msg-1".into()]);
    messages.extend(new_messages);
    assert_eq!(world.open(&id).await.restored.context, context(&messages));
    let offered = importable(&world.engine, &caller(), "crew", &snapshots)
        .await
        .unwrap();
    assert_eq!(offered.offers, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_in_use_gets_the_same_replacement_at_every_import() {
    let world = World::new();
    let ann = IdentityId::new("ann").ok();
    let ann = Caller::local(TenantId::default_tenant(), ann);
    let existing = |team: Option<&str>, id: &str| CreateSession {
        session_id: Some(session_id(id)),
        team_id: team.map(Into::into),
        ..CreateSession::default()
    };
    world
        .engine
        .sessions
        .create(&caller(), existing(Some("other"), "theirs"))
        .await
        .unwrap();
    world
        .engine
        .sessions
        .create(&caller(), existing(None, "plain"))
        .await
        .unwrap();
    world
        .engine
        .sessions
        .create(&ann, existing(Some("crew"), "owned"))
        .await
        .unwrap();
    for id in ["theirs", "plain", "owned"] {
        let file = snapshot(id, &conversation());
        let mut ids = Vec::new();
        for added in [7, 0] {
            let imported = import(
                world.engine.clone(),
                caller(),
                &team(),
                &file,
                world.options(),
            )
            .await;
            let imported = imported.unwrap();
            assert_eq!(imported.added, added);
            ids.push(imported.session_id);
        }
        assert_eq!(ids[0], ids[1]);
        assert_ne!(&*ids[0], id);
        assert_eq!(
            world.open(&ids[0]).await.restored.context.messages,
            conversation()
        );
        // The ledger has the session now, so its file is not offered.
        world.snapshots().write(&file).unwrap();
    }
    let offered = importable(&world.engine, &caller(), "crew", &world.snapshots())
        .await
        .unwrap();
    assert_eq!(offered.offers, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_other_teams_and_open_sessions_are_refused() {
    let world = World::new();
    let file = snapshot("s", &conversation());
    let import_for = |id: &str| {
        let (engine, options) = (world.engine.clone(), world.options());
        let (team, file) = (team_with_id(id), file.clone());
        async move { import(engine, caller(), &team, &file, options).await }
    };
    let refused = import_for("crow").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid);
    let absent = world.engine.sessions.get(&caller(), &session_id("s")).await;
    assert_eq!(absent.unwrap_err().code, ErrorCode::SessionNotFound);
    import_for("crew").await.unwrap();
    let _open = world.open("s").await;
    let refused = import_for("crew").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::LeaseTimeout);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_and_its_import_agree_with_the_ledger() {
    let world = World::new();
    let id = imported_session(&world, "s", &conversation()).await;
    let snapshots = world.snapshots();
    let path = export(&world.engine, &caller(), "crew", &id, &snapshots)
        .await
        .unwrap()
        .unwrap();
    let file = snapshots.read(&path).unwrap();
    assert_eq!(messages_of(&file), conversation());
    assert_eq!(
        file.created_at,
        Timestamp::from_micros(1_600_000_000_000_000)
    );
    let other = World::new();
    let imported = import(
        other.engine.clone(),
        caller(),
        &team(),
        &file,
        other.options(),
    )
    .await;
    assert_eq!(imported.unwrap().added, 7);
    assert_eq!(
        other.open(&id).await.restored.context,
        world.open(&id).await.restored.context
    );
    assert!(
        export(&world.engine, &caller(), "crow", &id, &snapshots)
            .await
            .is_err()
    );
}
