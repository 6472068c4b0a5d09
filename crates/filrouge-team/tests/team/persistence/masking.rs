//! Credentials in the messages of humans.

use filrouge_engine::{CredentialPolicy, RecordPolicies, Settings};
use filrouge_store::hot::ItemRetention;
use filrouge_team::record::Record;
use filrouge_types::ErrorCode;

use crate::persistence::world::{World, message, messages_of, paused, record_message};

/// A text that looks like a credential, but is none.
fn credential() -> String {
    format!("ghp_{}", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8")
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_masked_in_the_ledger_and_in_the_file() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    for (number, name) in [(1, "Ann"), (2, "Planner"), (3, "Ann")] {
        let content = match name {
            "Ann" => format!("my token is {}", credential()),
            _ => "thank you".to_owned(),
        };
        record_message(&opened.record, &message(number, name, &content)).await;
    }
    opened.record.close(&paused()).await.unwrap();
    let path = world.snapshot_path(&opened);
    let file = std::fs::read_to_string(&path).unwrap();
    assert!(
        !file.contains(&credential()) && file.contains("[masked:"),
        "{file}"
    );
    let restored = world.open(&id).await.restored.context.messages;
    let snapshot = world.snapshots().read(&path).unwrap();
    assert_eq!(
        restored,
        messages_of(&snapshot),
        "the file equals the ledger"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_a_credential_is_refused_under_the_refuse_policy() {
    let world = World::with_settings(Settings {
        credentials: CredentialPolicy::Refuse,
        ..Settings::default()
    });
    let opened = world.open_new().await;
    let with_credential = message(1, "Ann", &credential());
    let refused = opened
        .record
        .write_message(&with_credential)
        .await
        .unwrap_err();
    assert_eq!(refused.code, ErrorCode::CredentialRefused);
    record_message(&opened.record, &message(1, "Ann", "no credential")).await;
    opened.record.close(&paused()).await.unwrap();
}

/// Where only questions and answers are recorded, most of a team's messages would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn no_team_opens_if_only_questions_and_answers_are_recorded() {
    let world = World::with_settings(Settings {
        record: RecordPolicies {
            default: ItemRetention::Conversation,
            ..RecordPolicies::default()
        },
        ..Settings::default()
    });
    let team = crate::persistence::world::team();
    let refused = filrouge_team::ledger::open_new(
        world.engine.clone(),
        crate::persistence::world::caller(),
        &team,
        world.options(),
    );
    let refused = refused.await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::Invalid);
    assert!(refused.hint.is_some());
}
