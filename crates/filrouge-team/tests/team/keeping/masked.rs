//! Credentials in a human's message.

use filrouge_engine::{CredentialPolicy, RecordPolicies, Settings};
use filrouge_store::hot::ItemRetention;
use filrouge_team::record::Record;
use filrouge_types::ErrorCode;

use crate::keeping::world::{World, keep, message, messages_of, paused};

/// A text that looks like a credential and is not one.
fn credential() -> String {
    format!("ghp_{}", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8")
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_in_neither_ledger_nor_file() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    for (number, by) in [(1, "Ann"), (2, "Planner"), (3, "Ann")] {
        let content = match by {
            "Ann" => format!("my token is {}", credential()),
            _ => "thank you".to_owned(),
        };
        keep(&opened.record, &message(number, by, &content)).await;
    }
    opened.record.close(&paused()).await.unwrap();
    let path = world.path_of(&opened);
    let file = std::fs::read_to_string(&path).unwrap();
    assert!(
        !file.contains(&credential()) && file.contains("[masked:"),
        "{file}"
    );
    let restored = world.open(&id).await.restored.context.messages;
    let read = world.snapshots().read(&path).unwrap();
    assert_eq!(restored, messages_of(&read), "the file is the ledger's");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_a_refused_credential_is_refused() {
    let world = World::with(Settings {
        credentials: CredentialPolicy::Refuse,
        ..Settings::default()
    });
    let opened = world.open_new().await;
    let secret = message(1, "Ann", &credential());
    let refused = opened.record.message(&secret).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::CredentialRefused);
    keep(&opened.record, &message(1, "Ann", "no secret")).await;
    opened.record.close(&paused()).await.unwrap();
}

/// If only questions and answers are recorded, most of a team's messages would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_records_less_has_no_teams() {
    let world = World::with(Settings {
        record: RecordPolicies {
            default: ItemRetention::Conversation,
            ..RecordPolicies::default()
        },
        ..Settings::default()
    });
    let team = crate::keeping::world::team();
    let refused = filrouge_team::ledger::open_new(
        world.engine.clone(),
        crate::keeping::world::caller(),
        &team,
        world.options(),
    );
    let refused = refused.await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::Invalid);
    assert!(refused.hint.is_some());
}
