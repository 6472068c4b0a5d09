//! API keys on the ledger in memory.

use std::sync::Arc;

use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::{Clock, FixedClock};

use super::*;
use crate::caller::Caller;
use crate::{Engine, Settings};

fn engine() -> (Engine, Arc<FixedClock>) {
    let clock = Arc::new(FixedClock::at(1_000_000));
    let keyring = Arc::new(Keyring::single([1; 32]));
    let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
    let settings = Settings::default();
    let engine = Engine::new(
        Arc::new(ledger),
        Arc::new(OsEntropy),
        clock.clone(),
        settings,
    );
    (engine, clock)
}

fn operator(tenant: &str) -> Caller {
    Caller::operator(tenant.parse().unwrap())
}

fn new_key(role: Role, identity: Option<&str>) -> NewApiKey {
    NewApiKey {
        name: Some("ci".to_owned()),
        role,
        identity_id: identity.map(|id| id.parse().unwrap()),
        expires_at: Some(Timestamp::from_micros(5_000_000)),
    }
}

#[tokio::test]
async fn keys_are_created_listed_by_tenant_and_revoked_once() {
    let (engine, clock) = engine();
    let (key, text) = engine
        .keys
        .create(&operator("a"), new_key(Role::Service, None))
        .await
        .unwrap();
    engine
        .keys
        .create(&operator("b"), new_key(Role::User, Some("ada")))
        .await
        .unwrap();
    let (a, b) = (operator("a"), operator("b"));
    let listed = engine.keys.list(&a).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(
        listed[0]
            .hash
            .matches(&PresentedKey::parse(text.expose()).unwrap().hash)
    );
    assert!(listed[0].is_valid(clock.now()));
    assert!(!listed[0].is_valid(Timestamp::from_micros(5_000_000)));

    let refused = engine.keys.revoke(&b, &key.key_id).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid);
    let first = engine.keys.revoke(&a, &key.key_id).await.unwrap();
    clock.advance(1_000_000);
    let revoked_again = engine.keys.revoke(&a, &key.key_id).await.unwrap();
    assert_eq!(revoked_again.revoked_at, first.revoked_at);
    assert!(!revoked_again.is_valid(clock.now()));
    assert_eq!(engine.keys.all().await.unwrap().keys.len(), 2);
}

#[tokio::test]
async fn only_user_keys_have_an_identity_and_no_key_expires_in_the_past() {
    let (engine, _) = engine();
    let mut expired = new_key(Role::Admin, None);
    expired.expires_at = Some(Timestamp::from_micros(1_000_000));
    let mut with_control_character = new_key(Role::Admin, None);
    with_control_character.name = Some("a\u{1b}".to_owned());
    for invalid_key in [
        new_key(Role::User, None),
        new_key(Role::Service, Some("ada")),
        expired,
        with_control_character,
    ] {
        let refused = engine
            .keys
            .create(&operator("a"), invalid_key)
            .await
            .unwrap_err();
        assert_eq!(refused.code, ErrorCode::Invalid);
    }
    assert_eq!(engine.keys.all().await.unwrap().version, 0);
}

#[tokio::test]
async fn keys_created_concurrently_are_all_stored() {
    let engine = Arc::new(engine().0);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                engine
                    .keys
                    .create(&operator("a"), new_key(Role::Service, None))
                    .await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(engine.keys.list(&operator("a")).await.unwrap().len(), 8);
}
