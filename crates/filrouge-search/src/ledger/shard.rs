//! Whose documents lie where, and what a caller reaches: the same as lists show (P6).

use filrouge_engine::{Caller, IndexFeed, Touched};
use filrouge_store::MAC_BYTES;
use filrouge_store::text_index::{Key, Reach, Shard};
use filrouge_types::TenantId;

/// A tenant's realm.
#[must_use]
pub fn realm_of(tenant: &TenantId) -> Box<[u8]> {
    tenant.as_str().as_bytes().into()
}

/// The shard of a session with this owner: [`filrouge_store::Keyring::owner`] of who lists it.
#[must_use]
pub fn shard_of(tenant: &TenantId, owner: [u8; MAC_BYTES]) -> Shard {
    Shard {
        realm: realm_of(tenant),
        owner: owner.into(),
    }
}

/// A session as an index names it.
pub(super) fn key_of(touched: &Touched) -> Key {
    (realm_of(&touched.tenant), touched.session.as_str().into())
}

/// The documents of the sessions that lists show to `caller`.
#[must_use]
pub fn reach_of(feed: &IndexFeed, caller: &Caller) -> Reach {
    match feed.owner(caller) {
        None => Reach::Realm(realm_of(caller.tenant())),
        Some(owner) => Reach::Shard(shard_of(caller.tenant(), owner)),
    }
}
