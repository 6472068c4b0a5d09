//! In the index, a caller reaches the sessions that lists show.

use filrouge_store::contract::text_index::IndexTestExt as _;
use std::collections::BTreeSet;

use filrouge_engine::Caller;
use filrouge_search::ledger::index_scope_of;
use filrouge_store::command::{SessionFilter, SessionToken};
use filrouge_store::text_index::IndexScope;
use filrouge_types::{IdentityId, TenantId};
use proptest::prelude::*;

use super::world::*;

fn tenant(name: u8) -> TenantId {
    TenantId::new(["one", "two"][usize::from(name % 2)]).unwrap()
}

fn identity(name: u8) -> Option<IdentityId> {
    let names = [None, Some("ada"), Some("bob")];
    names[usize::from(name % 3)].map(|name| IdentityId::new(name).unwrap())
}

fn token(name: u8) -> Option<SessionToken> {
    (!name.is_multiple_of(3)).then_some(SessionToken([name % 3; 16]))
}

fn caller() -> impl Strategy<Value = Caller> {
    (any::<bool>(), 0..7_u8, any::<u8>()).prop_map(|(is_second, kind, secret)| {
        let tenant = tenant(u8::from(is_second));
        let caller = match kind {
            0 => Caller::operator(tenant),
            name => Caller::local(tenant, identity(name)),
        };
        caller.with_token(token(secret))
    })
}

/// The sessions that a list shows the caller.
fn listed(world: &LedgerWorld, caller: &Caller) -> BTreeSet<String> {
    let sessions = &world.engine.sessions;
    let page = sessions.list(caller, SessionFilter::default(), None, 500);
    let (sessions, next) = world.runtime.block_on(page).unwrap();
    assert_eq!(next, None);
    sessions.iter().map(|s| s.session_id.to_string()).collect()
}

/// The sessions in the index that a scope reaches.
fn reached(world: &LedgerWorld, scope: &IndexScope) -> BTreeSet<String> {
    let sessions = world.index.sessions(scope).unwrap();
    sessions.iter().map(|s| s.entry.key.to_string()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_scope_reaches_the_sessions_that_lists_show(
        creations in proptest::collection::vec((caller(), proptest::option::of((0..3_u8, any::<bool>()))), 1..12),
        others in proptest::collection::vec(caller(), 1..8),
    ) {
        let world = LedgerWorld::new();
        for (n, (caller, link)) in creations.iter().enumerate() {
            let name = format!("s{n}");
            world.create_session(caller, &name, Some("a title"));
            if n % 2 == 0 {
                world.catch_up();
            }
            let Some((name_of_owner, operator)) = link else { continue };
            let Some(identity) = identity(*name_of_owner) else { continue };
            let linker = match operator {
                true => Caller::operator(caller.tenant().clone()).with_token(caller.token()),
                false => caller.clone(),
            };
            // This fails for sessions that already have an owner.
            let _ = world.runtime.block_on(world.engine.sessions.link(&linker, id(&name), identity));
        }
        world.catch_up();
        let feed = &world.engine.index_feed;
        let creators = creations.iter().map(|(caller, _)| caller);
        for caller in creators.chain(&others) {
            prop_assert_eq!(reached(&world, &index_scope_of(feed, caller)), listed(&world, caller), "{:?}", caller);
        }
    }
}
