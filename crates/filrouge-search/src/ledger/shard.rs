//! The shards of an index, and the scope of a caller. A shard contains the sessions of one owner in one tenant. A scope
//! contains exactly the sessions that lists show to the caller (DESIGN, P6).

use filrouge_engine::{Caller, ChangedSession, IndexFeed};
use filrouge_store::MAC_BYTES;
use filrouge_store::text_index::{IndexScope, Key, Shard};
use filrouge_types::TenantId;

/// Returns the realm of a tenant: the part of a shard's name that identifies the tenant.
#[must_use]
pub fn realm_of(tenant: &TenantId) -> Box<[u8]> {
    tenant.as_str().as_bytes().into()
}

/// Returns the shard of the sessions of an owner. `owner` is the form of the owner that
/// [`filrouge_store::Keyring::owner`] computes.
#[must_use]
pub fn shard_of(tenant: &TenantId, owner: [u8; MAC_BYTES]) -> Shard {
    Shard {
        realm: realm_of(tenant),
        owner: owner.into(),
    }
}

/// Returns the key of a session in an index.
pub(super) fn key_of(touched: &ChangedSession) -> Key {
    (realm_of(&touched.tenant), touched.session.as_str().into())
}

/// Returns the scope of a caller: one owner's shard, or the complete realm of the tenant if the caller may see all
/// sessions.
#[must_use]
pub fn index_scope_of(feed: &IndexFeed, caller: &Caller) -> IndexScope {
    match feed.owner(caller) {
        None => IndexScope::Realm(realm_of(caller.tenant())),
        Some(owner) => IndexScope::Shard(shard_of(caller.tenant(), owner)),
    }
}
