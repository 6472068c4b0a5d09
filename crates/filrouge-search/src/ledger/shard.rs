//! The shards of documents, and the scope of a caller: it contains the sessions that lists show to the caller, and no
//! others (P6).

use filrouge_engine::{Caller, IndexFeed, Touched};
use filrouge_store::MAC_BYTES;
use filrouge_store::text_index::{IndexScope, Key, Shard};
use filrouge_types::TenantId;

/// A tenant's realm.
#[must_use]
pub fn realm_of(tenant: &TenantId) -> Box<[u8]> {
    tenant.as_str().as_bytes().into()
}

/// The shard of a session with this owner, as [`filrouge_store::Keyring::owner`] computes it.
#[must_use]
pub fn shard_of(tenant: &TenantId, owner: [u8; MAC_BYTES]) -> Shard {
    Shard {
        realm: realm_of(tenant),
        owner: owner.into(),
    }
}

/// The key of a session in an index.
pub(super) fn key_of(touched: &Touched) -> Key {
    (realm_of(&touched.tenant), touched.session.as_str().into())
}

/// The documents of the sessions that lists show to `caller`.
#[must_use]
pub fn index_scope_of(feed: &IndexFeed, caller: &Caller) -> IndexScope {
    match feed.owner(caller) {
        None => IndexScope::Realm(realm_of(caller.tenant())),
        Some(owner) => IndexScope::Shard(shard_of(caller.tenant(), owner)),
    }
}
