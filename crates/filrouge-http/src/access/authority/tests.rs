//! Keys over the in-memory ledger, with a clock that the test moves.

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
    /// Makes a key and waits until it is known; gives its id and the headers that bear it.
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
async fn what_is_open_long_learns_that_its_key_is_revoked_or_expired() {
    let server = server().await;
    let end = Timestamp::from_micros(9_000_000);
    let (kept, keeps) = server.key(Some(end)).await;
    let (revoked, loses) = server.key(None).await;
    let keeps = server.authority.authenticate(&keeps).await.unwrap();
    let loses_principal = server.authority.authenticate(&loses).await.unwrap();
    assert!(keeps.still_valid() && loses_principal.still_valid());
    assert_eq!(keeps.name(), Some(kept.as_str()));
    assert_eq!(keeps.expires_in(), Some(Duration::from_secs(8)));

    let mut changes = server.authority.changes();
    server
        .engine
        .keys
        .revoke(&operator(), &revoked)
        .await
        .unwrap();
    changes.changed().await.unwrap();
    assert!(keeps.still_valid() && !loses_principal.still_valid());
    let refused = server.authority.authenticate(&loses).await.err().unwrap();
    assert_eq!(refused.0.code, ErrorCode::Unauthenticated);
    assert_eq!(server.authority.refused(), 1);

    server.clock.advance(8_000_000);
    assert!(!keeps.still_valid());
}

#[tokio::test]
async fn the_first_key_ends_what_was_open_without_one() {
    let server = server().await;
    let nobody = HeaderMap::new();
    let local = server.authority.authenticate(&nobody).await.unwrap();
    assert!(local.still_valid() && !server.authority.requires_credentials());
    let (key_id, _) = server.key(None).await;
    assert!(!local.still_valid() && server.authority.requires_credentials());
    server
        .engine
        .keys
        .revoke(&operator(), &key_id)
        .await
        .unwrap();
    let refused = server.authority.authenticate(&nobody).await.err().unwrap();
    assert_eq!(refused.0.code, ErrorCode::Unauthenticated);
}
