//! Calls whose recorded state cannot be read.

use std::sync::Arc;

use filrouge_engine::Caller;
use filrouge_engine::{Engine, RedactTurn, SaveCheckpoint, Settings, keyfile};
use filrouge_postgres::{Options, PostgresLedger};
use filrouge_store::{Ledger, OsEntropy};
use filrouge_testbed::Database;
use filrouge_types::{RawJson, SessionId, TenantId};

use crate::process::TestSetup;
use crate::script::{check_script, messages, send_messages};

/// An engine with an operator's permissions on the store.
async fn operator(setup: &TestSetup, database: &Database) -> (Engine, Caller) {
    let keyring = Arc::new(keyfile::load(&setup.keyring()).unwrap());
    let options = Options::new(&database.url(), keyring, Arc::new(OsEntropy)).unwrap();
    let opened = tokio::task::spawn_blocking(|| PostgresLedger::open(options));
    let ledger = Arc::new(opened.await.unwrap().unwrap());
    let clock = ledger.clock();
    let ledger: Arc<dyn Ledger> = ledger;
    let engine = Engine::new(ledger, Arc::new(OsEntropy), clock, Settings::default());
    let tenant = TenantId::new("1").unwrap();
    (engine, Caller::operator(tenant))
}

#[tokio::test]
async fn a_call_with_an_unreadable_checkpoint_is_restored_from_its_items() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let (a, b) = (setup.start("a"), setup.start("b"));
    send_messages(&a, "call", 0..=1);
    let (engine, caller) = operator(&setup, &database).await;
    let checkpoint = SaveCheckpoint {
        seq: None,
        label: Some("ELSEWHERE".into()),
        state: RawJson::from_checked(r#"{"state":"ELSEWHERE"}"#),
        fence: None,
        release: false,
    };
    let call = SessionId::new("call").unwrap();
    engine
        .calls
        .put_checkpoint(&caller, &call, checkpoint)
        .await
        .unwrap();
    send_messages(&b, "call", 2..=2);
    assert_eq!(b.call("call").events("unknown_state"), 1);
    assert_eq!(b.count("unknown_state"), 1);
    send_messages(&b, "call", 3..=5);
    assert_eq!(b.call("call").events("transferred"), 0);
    engine.ledger().close().await;
}

#[tokio::test]
async fn a_call_that_cannot_be_replayed_is_transferred() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let (a, b) = (setup.start("a"), setup.start("b"));
    send_messages(&a, "call", 0..=2);
    send_messages(&a, "other", 0..=2);
    let (engine, caller) = operator(&setup, &database).await;
    let call = SessionId::new("call").unwrap();
    let (items, _) = engine.turns.items(&caller, &call, 0, 1).await.unwrap();
    let redact = RedactTurn {
        reason: "requested".into(),
    };
    let turn = items[0].turn_id.unwrap();
    engine
        .erasure
        .redact_turn(&caller, call, turn, redact)
        .await
        .unwrap();
    assert_eq!(
        b.answer("call", &messages(3)),
        "Je vous passe un conseiller, ne quittez pas."
    );
    let journal = b.call("call");
    assert_eq!(journal.state(), "TRANSFERRED");
    assert_eq!(journal.checkpoint("transfer_reason"), "unknown_state");
    assert_eq!(
        (
            journal.events("unknown_state"),
            journal.events("transferred")
        ),
        (1, 1)
    );
    send_messages(&b, "other", 3..=5);
    check_script(&b, "other");
    engine.ledger().close().await;
}
