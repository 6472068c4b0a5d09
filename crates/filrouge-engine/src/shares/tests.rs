//! Shares on the ledger in memory.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::{ErrorCode, FixedClock, JsonText, SessionId, TenantId};

use super::{NewShare, OpenedShare, ShareToken};
use crate::api_keys::{NewApiKey, Role};
use crate::audit::AuditQuery;
use crate::caller::{Caller, CallerRole};
use crate::{Engine, Settings, StartTurn};

const HOUR: i64 = 3_600_000_000;

struct World {
    engine: Engine,
    clock: Arc<FixedClock>,
}

fn operator() -> Caller {
    Caller::operator(TenantId::default_tenant())
}

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

fn new_share() -> NewShare {
    NewShare {
        first_seq: 0,
        last_seq: None,
        grows: false,
        valid_for: Duration::from_secs(3600),
        reasoning: true,
        tools: true,
        names: true,
    }
}

impl World {
    /// An engine with a session of two items.
    async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    async fn with(settings: Settings) -> Self {
        let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
        let keyring = Arc::new(Keyring::single([7; 32]));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
        let (ledger, entropy) = (Arc::new(ledger), Arc::new(OsEntropy));
        let engine = Engine::new(ledger, entropy, clock.clone(), settings);
        let world = Self { engine, clock };
        world.ask(&operator(), "r1").await;
        world.ask(&operator(), "r2").await;
        world
    }

    /// Adds an item to the session.
    async fn ask(&self, caller: &Caller, request: &str) {
        let start: StartTurn = StartTurn {
            question_neutral: Some(JsonText::from_plain("Which way?")),
            ..StartTurn::new(request.parse().unwrap())
        };
        let turns = &self.engine.turns;
        turns.start(caller, id(), start).await.unwrap();
    }

    async fn share(&self, new: NewShare) -> ShareToken {
        let shares = &self.engine.shares;
        let created = shares.create(&operator(), &id(), new, false).await;
        created.unwrap().1
    }

    async fn open(&self, token: &str) -> Result<OpenedShare, ErrorCode> {
        let opened = self.engine.shares.open(token, false).await;
        opened.map_err(|failure| failure.code)
    }
}

#[tokio::test]
async fn a_share_opens_until_it_expires() {
    let world = World::new().await;
    let token = world.share(new_share()).await;
    let opened = world.open(token.expose()).await.unwrap();
    assert_eq!(
        (opened.share.first_seq, opened.share.last_seq),
        (1, Some(2))
    );
    let changed = format!("{}{}", &token.expose()[..54], "-");
    let other = world.share(new_share()).await;
    let mixed = format!("{}{}", &token.expose()[..12], &other.expose()[12..]);
    for wrong in [changed.as_str(), &mixed, "", "x"] {
        assert_eq!(
            world.open(wrong).await.err(),
            Some(ErrorCode::SessionNotFound)
        );
    }
    world.clock.advance(HOUR - 1);
    world.open(token.expose()).await.unwrap();
    world.clock.advance(1);
    let expired = world.open(token.expose()).await;
    assert_eq!(expired.err(), Some(ErrorCode::SessionNotFound));
    let listed = world.engine.shares.list(&operator(), &id()).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|share| !share.is_usable));
}

#[tokio::test]
async fn a_share_is_fixed_or_grows() {
    let world = World::new().await;
    let grows = NewShare {
        first_seq: 2,
        grows: true,
        ..new_share()
    };
    let token = world.share(grows).await;
    let share = world.open(token.expose()).await.unwrap().share;
    assert_eq!((share.first_seq, share.last_seq), (2, None));
    let beyond = NewShare {
        last_seq: Some(9),
        ..new_share()
    };
    let token = world.share(beyond).await;
    let share = world.open(token.expose()).await.unwrap().share;
    assert_eq!(
        share.last_seq,
        Some(2),
        "items of the future are not shared"
    );
    let empty = NewShare {
        first_seq: 3,
        ..new_share()
    };
    let shares = &world.engine.shares;
    let refused = shares.create(&operator(), &id(), empty, false).await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::Invalid);
}

#[tokio::test]
async fn a_revocation_ends_one_share() {
    let world = World::new().await;
    let (first, second) = (
        world.share(new_share()).await,
        world.share(new_share()).await,
    );
    let shares = &world.engine.shares;
    for _ in 0..2 {
        let share_id = &first.expose()[..12];
        shares.revoke(&operator(), &id(), share_id).await.unwrap();
    }
    let revoked = world.open(first.expose()).await;
    assert_eq!(revoked.err(), Some(ErrorCode::SessionNotFound));
    world.open(second.expose()).await.unwrap();
    let listed = shares.list(&operator(), &id()).await.unwrap();
    let usable: Vec<bool> = listed.iter().map(|share| share.is_usable).collect();
    assert_eq!(usable, [false, true]);
    let unknown = shares.revoke(&operator(), &id(), "nothing").await;
    assert_eq!(unknown.unwrap_err().code, ErrorCode::Invalid);
}

#[tokio::test]
async fn the_list_says_what_happened_to_each_of_many_shares() {
    let world = World::new().await;
    let shares = &world.engine.shares;
    let mut tokens = Vec::new();
    for _ in 0..30 {
        tokens.push(world.share(new_share()).await);
    }
    for (n, token) in tokens.iter().enumerate().rev() {
        if n % 2 == 0 {
            world.open(token.expose()).await.unwrap();
        }
        if n % 3 == 0 {
            let share_id = &token.expose()[..12];
            shares.revoke(&operator(), &id(), share_id).await.unwrap();
        }
        let is_known = shares.is_known(token.expose()).await.unwrap();
        assert_eq!(is_known, n % 3 != 0, "{n}");
    }
    let listed = shares.list(&operator(), &id()).await.unwrap();
    assert_eq!(listed.len(), 30);
    for (n, (shown, token)) in listed.iter().zip(&tokens).enumerate() {
        assert_eq!(&shown.share.share_id, &token.expose()[..12]);
        assert_eq!(shown.opened_at.is_some(), n % 2 == 0, "{n}");
        assert_eq!(shown.revoked_at.is_some(), n % 3 == 0, "{n}");
        assert_eq!(shown.is_usable, n % 3 != 0, "{n}");
    }
    let wrong = "a".repeat(55);
    for unknown in [wrong.as_str(), "", &tokens[1].expose()[1..]] {
        assert!(!shares.is_known(unknown).await.unwrap(), "{unknown}");
    }
}

#[tokio::test]
async fn a_share_ends_with_the_key_of_its_creator() {
    let world = World::new().await;
    let new_key = NewApiKey {
        name: None,
        role: Role::Admin,
        identity_id: None,
        expires_at: None,
    };
    let keys = &world.engine.keys;
    let (key, _) = keys.create(&operator(), new_key).await.unwrap();
    let tenant = TenantId::default_tenant();
    let role = CallerRole::Role(Role::Admin);
    let holder = Caller::new(tenant.clone(), role, None);
    let holder = holder.with_name(Some(key.key_id.as_str().into()));
    let shares = &world.engine.shares;
    let created = shares.create(&holder, &id(), new_share(), true).await;
    let (_, token) = created.unwrap();
    shares.open(token.expose(), true).await.unwrap();
    let without_key = shares.create(&operator(), &id(), new_share(), true).await;
    assert_eq!(without_key.unwrap_err().code, ErrorCode::Forbidden);
    keys.revoke(&operator(), &key.key_id).await.unwrap();
    let ended = shares.open(token.expose(), true).await;
    assert_eq!(ended.unwrap_err().code, ErrorCode::SessionNotFound);
    let token_holder = Caller::new(tenant, role, None).with_name(Some("default\0ada".into()));
    let refused = shares.create(&token_holder, &id(), new_share(), true).await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::Forbidden);
}

#[tokio::test]
async fn a_share_made_without_keys_ends_when_keys_are_needed() {
    let world = World::new().await;
    let token = world.share(new_share()).await;
    let ended = world.engine.shares.open(token.expose(), true).await;
    assert_eq!(ended.unwrap_err().code, ErrorCode::SessionNotFound);
}

#[tokio::test]
async fn a_share_ends_with_its_session() {
    let world = World::new().await;
    let token = world.share(new_share()).await;
    world.engine.erasure.erase(&operator(), id()).await.unwrap();
    let erased = world.open(token.expose()).await;
    assert_eq!(erased.err(), Some(ErrorCode::SessionNotFound));
}

#[tokio::test]
async fn auditors_and_strangers_neither_share_nor_revoke() {
    let world = World::new().await;
    let tenant = TenantId::default_tenant();
    let auditor = Caller::new(tenant.clone(), CallerRole::Role(Role::Auditor), None);
    let ada = Caller::local(tenant.clone(), Some("ada".parse().unwrap()));
    let owned: StartTurn = StartTurn {
        question_neutral: Some(JsonText::from_plain("Mine?")),
        ..StartTurn::new("r".parse().unwrap())
    };
    let hers = SessionId::new("hers").unwrap();
    let turns = &world.engine.turns;
    turns.start(&ada, hers.clone(), owned).await.unwrap();
    let shares = &world.engine.shares;
    let created = shares.create(&operator(), &hers, new_share(), false).await;
    let share_id = created.unwrap().0.share_id;
    let bob = Caller::local(tenant, Some("bob".parse().unwrap()));
    for (caller, expected) in [
        (&auditor, ErrorCode::Forbidden),
        (&bob, ErrorCode::SessionNotFound),
    ] {
        let created = shares.create(caller, &hers, new_share(), false).await;
        assert_eq!(created.unwrap_err().code, expected);
        let revoked = shares.revoke(caller, &hers, &share_id).await;
        assert_eq!(revoked.unwrap_err().code, expected);
    }
    let listed = shares.list(&bob, &hers).await;
    assert_eq!(listed.unwrap_err().code, ErrorCode::SessionNotFound);
    assert_eq!(shares.list(&auditor, &hers).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_audit_shows_the_creation_the_first_opening_and_the_revocation() {
    let world = World::new().await;
    let token = world.share(new_share()).await;
    for _ in 0..2 {
        world.open(token.expose()).await.unwrap();
    }
    let share_id = &token.expose()[..12];
    let shares = &world.engine.shares;
    shares.revoke(&operator(), &id(), share_id).await.unwrap();
    for session_id in [Some(id()), None] {
        let query = AuditQuery {
            session_id,
            limit: 100,
            ..AuditQuery::default()
        };
        let page = world.engine.audit.page(&operator(), query).await.unwrap();
        let rows = page.rows.iter().filter(|row| row.seq.is_none());
        let details: Vec<&str> = rows
            .map(|row| row.detail.as_ref().unwrap().as_str())
            .collect();
        assert_eq!(details.len(), 3, "{details:?}");
        for (detail, kind) in details
            .iter()
            .zip(["shared", "share_opened", "share_revoked"])
        {
            let expected = format!(r#"[{{"type":"{kind}","share_id":"{share_id}""#);
            assert!(detail.starts_with(&expected), "{detail}");
        }
        assert!(!details.join(" ").contains(&token.expose()[12..]));
    }
}

#[tokio::test]
async fn durations_are_limited_and_sharing_can_be_off() {
    let world = World::new().await;
    let shares = &world.engine.shares;
    let too_long = NewShare {
        valid_for: Duration::from_secs(31 * 24 * 3600),
        ..new_share()
    };
    let refused = shares.create(&operator(), &id(), too_long, false).await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::Invalid);
    let off = World::with(Settings {
        share_max: Duration::ZERO,
        ..Settings::default()
    });
    let off = off.await;
    let (caller, id) = (operator(), id());
    let refused = off.engine.shares.create(&caller, &id, new_share(), false);
    assert_eq!(refused.await.unwrap_err().code, ErrorCode::Forbidden);
}
