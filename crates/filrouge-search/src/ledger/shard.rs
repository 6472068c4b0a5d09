//! Whose documents lie where, and what a scope reaches: the same as lists show (P6).

use filrouge_store::command::{Scope, Viewer};
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

/// The documents of the sessions that lists show to `scope` ([`Scope::lists`]).
#[must_use]
pub fn reach_of(scope: &Scope, keyring: &Keyring) -> Reach {
    let owner = match &scope.viewer {
        Viewer::Operator => return Reach::Realm(realm_of(&scope.tenant)),
        Viewer::EndUser(Some(identity)) => keyring.owner(Some(identity), None),
        Viewer::EndUser(None) => keyring.owner(None, scope.token),
    };
    Reach::Shard(shard_of(&scope.tenant, owner))
}
