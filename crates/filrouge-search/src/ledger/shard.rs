//! Whose documents lie where, and what a caller reaches: the same as lists show (P6).

use filrouge_engine::Caller;
use filrouge_store::command::Viewer;
use filrouge_store::text_index::{Reach, Shard};
use filrouge_store::{Keyring, MAC_BYTES};
use filrouge_types::TenantId;

/// A tenant's realm.
#[must_use]
pub fn realm_of(tenant: &TenantId) -> Box<[u8]> {
    tenant.as_str().as_bytes().into()
}

/// The shard of a session with this owner: [`Keyring::owner`] of who lists it.
#[must_use]
pub fn shard_of(tenant: &TenantId, owner: [u8; MAC_BYTES]) -> Shard {
    Shard {
        realm: realm_of(tenant),
        owner: owner.into(),
    }
}

/// The documents of the sessions that lists show to `caller`.
#[must_use]
pub fn reach_of(caller: &Caller, keyring: &Keyring) -> Reach {
    let owner = match &caller.viewer() {
        Viewer::Operator => return Reach::Realm(realm_of(caller.tenant())),
        Viewer::EndUser(Some(identity)) => keyring.owner(Some(identity), None),
        Viewer::EndUser(None) => keyring.owner(None, caller.token()),
    };
    Reach::Shard(shard_of(caller.tenant(), owner))
}
