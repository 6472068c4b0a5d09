//! Keys on the ledger in memory, with a clock that the test advances.

use std::time::Duration;

use axum::http::{HeaderValue, header};
use filrouge_engine::Caller;
use filrouge_engine::Settings;
use filrouge_engine::api_keys::{NewApiKey, Role};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::FixedClock;

use super::*;

struct Server {
    engine: Arc<Engine>,
    clock: Arc<FixedClock>,
    authority: Authority,
}

async fn server() -> Server {
    let clock = Arc::new(FixedClock::at(1_000_000));
    let keyring = Arc::new(Keyring::single([1; 32]));
    let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
    let entropy = Arc::new(OsEntropy);
    let engine = Engine::new(
        Arc::new(ledger),
        entropy,
        clock.clone(),
        Settings::default(),
    );
    let engine = Arc::new(engine);
    let settings = AccessSettings {
        tenant: TenantId::default_tenant(),
        origins: Vec::new(),
        jwt: None,
        had_keys: None,
        kept: None,
    };
    let authority = Authority::start(engine.clone(), clock.clone(), settings)
        .await
        .unwrap();
    Server {
        engine,
        clock,
        authority,
    }
}

fn operator() -> Caller {
    Caller::operator(TenantId::default_tenant())
}

impl Server {
    /// Creates a key, and waits until the server has loaded it; returns its id, and headers that contain it.
    async fn key(&self, expires_at: Option<Timestamp>) -> (String, HeaderMap) {
        let mut changes = self.authority.changes();
        let new = NewApiKey {
            name: None,
            role: Role::Service,
            identity_id: None,
            expires_at,
        };
        let (key, text) = self.engine.keys.create(&operator(), new).await.unwrap();
        changes.changed().await.unwrap();
        let value = HeaderValue::from_str(&format!("Bearer {}", text.expose())).unwrap();
        (
            key.key_id,
            HeaderMap::from_iter([(header::AUTHORIZATION, value)]),
        )
    }
}

#[tokio::test]
async fn the_principal_of_a_revoked_or_expired_key_is_no_longer_valid() {
    let server = server().await;
    let end = Timestamp::from_micros(9_000_000);
    let (valid_id, valid_headers) = server.key(Some(end)).await;
    let (revoked_id, revoked_headers) = server.key(None).await;
    let valid_principal = server.authority.authenticate(&valid_headers).await.unwrap();
    let revoked_principal = server
        .authority
        .authenticate(&revoked_headers)
        .await
        .unwrap();
    assert!(valid_principal.is_valid() && revoked_principal.is_valid());
    assert_eq!(valid_principal.name(), Some(valid_id.as_str()));
    assert_eq!(valid_principal.expires_in(), Some(Duration::from_secs(8)));

    let mut changes = server.authority.changes();
    server
        .engine
        .keys
        .revoke(&operator(), &revoked_id)
        .await
        .unwrap();
    changes.changed().await.unwrap();
    assert!(valid_principal.is_valid() && !revoked_principal.is_valid());
    let refused = server
        .authority
        .authenticate(&revoked_headers)
        .await
        .err()
        .unwrap();
    assert_eq!(refused.0.code, ErrorCode::Unauthenticated);
    assert_eq!(server.authority.refused(), 1);

    server.clock.advance(8_000_000);
    assert!(!valid_principal.is_valid());
}

#[tokio::test]
async fn requests_without_a_key_are_refused_once_a_key_exists() {
    let server = server().await;
    let no_credentials = HeaderMap::new();
    let local = server
        .authority
        .authenticate(&no_credentials)
        .await
        .unwrap();
    assert!(local.is_valid() && !server.authority.requires_credentials());
    let (key_id, _) = server.key(None).await;
    assert!(!local.is_valid() && server.authority.requires_credentials());
    server
        .engine
        .keys
        .revoke(&operator(), &key_id)
        .await
        .unwrap();
    let refused = server
        .authority
        .authenticate(&no_credentials)
        .await
        .err()
        .unwrap();
    assert_eq!(refused.0.code, ErrorCode::Unauthenticated);
}
