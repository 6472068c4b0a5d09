//! Redacted messages and erased sessions.

use filrouge_engine::caller::{Caller, Permission};
use filrouge_store::command::{Command, Redact, RedactionTarget, Write};
use filrouge_store::record::Seqs;
use filrouge_team::record::Record;
use filrouge_team::sessions::{session, sessions};
use filrouge_team::snapshot::{import, importable};
use filrouge_types::{ErrorCode, TenantId};

use crate::persistence::world::{
    World, caller, context, exchange, message, paused, session_id, team,
};

async fn redact(world: &World, id: &str, seq: u64) {
    let redact = Redact {
        session_id: session_id(id),
        target: RedactionTarget::Items(Seqs::from_ranges([(seq, seq)]).unwrap()),
        reason: "private".into(),
        by: "a test".into(),
    };
    let caller = Caller::operator(TenantId::default_tenant());
    let write = Write::Redact(redact);
    world
        .ledger
        .write(Command {
            scope: caller.scope(Permission::Write).unwrap(),
            write,
        })
        .await
        .unwrap();
}

/// The seq of the item with a message's id.
async fn seq_of(world: &World, id: &str, message: &str) -> u64 {
    let items = world.items(id).await;
    let item = items.iter().find(|item| {
        item.body
            .item_id
            .as_ref()
            .is_some_and(|id| id.as_str() == message)
    });
    item.unwrap().seq
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redacted_message_is_never_restored() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    let mut messages = exchange(&opened.record, 1).await;
    messages.extend(exchange(&opened.record, 3).await);
    let path = world.snapshot_path(&opened);
    let before = world.snapshots().read(&path).unwrap();
    // Redact two messages while the session is open; one of them is its newest.
    redact(&world, &id, seq_of(&world, &id, "msg-2").await).await;
    redact(&world, &id, seq_of(&world, &id, "msg-4").await).await;
    opened.record.close(&paused()).await.unwrap();
    let remaining = vec![messages[0].clone(), messages[2].clone()];
    let shown = session(&world.engine, &caller(), "crew", &id)
        .await
        .unwrap();
    assert_eq!(shown.message_count, 2);
    let opened = world.open(&id).await;
    assert_eq!(opened.restored.context, context(&remaining));
    assert_eq!(
        opened.restored.highest_message, 4,
        "the id of a redacted message is not reused"
    );
    assert_eq!(opened.left_out.redacted, 2);
    let mut after = exchange(&opened.record, 5).await;
    opened.record.close(&paused()).await.unwrap();
    let file = world.snapshots().read(&path).unwrap();
    let mut expected = remaining;
    expected.append(&mut after);
    assert_eq!(file.messages, expected);
    // Importing an older file does not restore the redacted messages.
    let imported = import(
        world.engine.clone(),
        caller(),
        &team(),
        &before,
        world.options(),
    )
    .await;
    let imported = imported.unwrap();
    assert_eq!(
        (imported.added, imported.known, imported.redacted),
        (0, 2, 2)
    );
    assert_eq!(world.open(&id).await.restored.context, context(&expected));
    world.assert_intact().await;
}

/// Nothing is written between the redaction and the hand-over: only the ledger knows that the file is outdated.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_removes_redacted_messages_from_the_file() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    let messages = exchange(&opened.record, 1).await;
    let path = world.snapshot_path(&opened);
    assert_eq!(world.snapshots().read(&path).unwrap().messages, messages);
    redact(&world, &id, seq_of(&world, &id, "msg-2").await).await;
    opened.record.hand_over(&paused()).await.unwrap();
    assert_eq!(
        world.snapshots().read(&path).unwrap().messages,
        messages[..1]
    );
}

/// A file whose newest message was redacted in the ledger is not newer than the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_redacted_messages_is_not_offered_for_import() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    exchange(&opened.record, 1).await;
    opened.record.close(&paused()).await.unwrap();
    redact(&world, &id, seq_of(&world, &id, "msg-2").await).await;
    let offered = importable(&world.engine, &caller(), "crew", &world.snapshots())
        .await
        .unwrap();
    assert!(offered.offers.is_empty(), "{offered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_session_cannot_be_opened_and_its_file_cannot_be_imported() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    exchange(&opened.record, 1).await;
    let path = world.snapshot_path(&opened);
    let snapshot = world.snapshots().read(&path).unwrap();
    world
        .engine
        .erasure
        .erase(&caller(), session_id(&id))
        .await
        .unwrap();
    let late = opened
        .record
        .write_message(&message(3, "Ann", "still there?"))
        .await;
    assert_eq!(late.unwrap_err().code, ErrorCode::SessionErased);
    let refused = world.try_open(&id).await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::SessionErased);
    let listed = sessions(&world.engine, &caller(), "crew").await.unwrap();
    assert!(listed.sessions.is_empty());
    let offered = importable(&world.engine, &caller(), "crew", &world.snapshots())
        .await
        .unwrap();
    assert!(offered.offers.is_empty());
    assert_eq!(offered.erased, std::slice::from_ref(&path));
    let refused = import(
        world.engine.clone(),
        caller(),
        &team(),
        &snapshot,
        world.options(),
    )
    .await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::SessionErased);
}
