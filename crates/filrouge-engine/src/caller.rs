//! The caller of a service: its tenant, identity and permissions (DESIGN §8).

use std::sync::Arc;

use filrouge_store::command::{FencingToken, SessionToken};
use filrouge_store::{Scope, Viewer};
use filrouge_types::{ErrorCode, Failure, IdentityId, TenantId};

use crate::api_keys::Role;

mod permission;

use permission::PermissionRefusal;
pub use permission::{CallerRole, Permission, PermissionType, may};

/// The tenant, identity and role on whose behalf a service runs. Every service checks the caller's permission, and
/// derives from the caller the scope of its reads and writes.
#[derive(Debug, Clone)]
pub struct Caller {
    tenant: TenantId,
    role: CallerRole,
    identity: Option<IdentityId>,
    name: Option<Arc<str>>,
    token: Option<SessionToken>,
    fence: Option<FencingToken>,
}

impl Caller {
    /// A caller in `tenant`, acting for the end user `identity` if there is one.
    pub const fn new(tenant: TenantId, role: CallerRole, identity: Option<IdentityId>) -> Self {
        Self {
            tenant,
            role,
            identity,
            name: None,
            token: None,
            fence: None,
        }
    }

    /// The operator: the user of the command line or the library, with every permission in the tenant.
    pub const fn operator(tenant: TenantId) -> Self {
        Self::new(tenant, CallerRole::Role(Role::Admin), None)
    }

    /// The caller of a request to a server without keys: it acts for the end user `identity`, or anonymously.
    pub const fn local(tenant: TenantId, identity: Option<IdentityId>) -> Self {
        Self::new(tenant, CallerRole::Local, identity)
    }

    /// The same caller with the name of its credentials, which is not secret.
    #[must_use]
    pub fn with_name(mut self, name: Option<Arc<str>>) -> Self {
        self.name = name;
        self
    }

    /// The same caller, who presented the secret of an anonymous session; `token` is its keyed hash.
    #[must_use]
    pub const fn with_token(mut self, token: Option<SessionToken>) -> Self {
        self.token = token;
        self
    }

    /// The same caller, as the holder of the session's lease.
    #[must_use]
    pub const fn with_fence(mut self, fence: Option<FencingToken>) -> Self {
        self.fence = fence;
        self
    }

    /// The tenant.
    pub const fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The end user that the caller acts for.
    pub const fn identity(&self) -> Option<&IdentityId> {
        self.identity.as_ref()
    }

    /// The name of the caller's credentials, without any secret: a key's id, or a token's tenant and subject. Request
    /// rates and open streams are counted for each name, and callers take turns by it. `None` for a caller without credentials.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The keyed hash of the secret of an anonymous session that the caller presented.
    pub const fn token(&self) -> Option<SessionToken> {
        self.token
    }

    /// The fence of the lease under which the caller writes; `None` if the caller names none.
    pub const fn fence(&self) -> Option<FencingToken> {
        self.fence
    }

    /// Whether the caller has a permission.
    pub fn has_permission(&self, permission: Permission) -> bool {
        let for_identity = self.identity.is_some();
        permission.check(self.role, for_identity).is_ok()
    }

    /// As whom the caller lists sessions: as the operator, who sees the entire tenant, or as an end user, possibly
    /// anonymous.
    pub fn viewer(&self) -> Viewer {
        match &self.identity {
            None if self.role.sees_entire_tenant() => Viewer::Operator,
            identity => Viewer::EndUser(identity.clone()),
        }
    }

    /// The scope of a read or write that uses `permission`.
    ///
    /// # Errors
    /// `forbidden` when it does not have the permission.
    pub fn scope(&self, permission: Permission) -> Result<Scope, Failure> {
        permission
            .check(self.role, self.identity.is_some())
            .map_err(|refused| forbidden(permission, self.role, refused))?;
        let viewer = match &self.identity {
            None if permission.spans_identities() => Viewer::Operator,
            _ => self.viewer(),
        };
        Ok(Scope {
            tenant: self.tenant.clone(),
            viewer,
            token: self.token,
            fence: self.fence,
            key: self.name.clone(),
        })
    }
}

fn forbidden(permission: Permission, role: CallerRole, refused: PermissionRefusal) -> Failure {
    let (word, role) = (permission.as_str(), role.as_str());
    let (detail, hint) = match refused {
        PermissionRefusal::Role => (
            format!("the role {role} does not have the permission {word}"),
            "docs/access.md shows what each role may do",
        ),
        PermissionRefusal::ForIdentity => (
            format!("the permission {word} is not granted on behalf of an end user"),
            "leave the header Filrouge-Identity out",
        ),
    };
    Failure::new(ErrorCode::Forbidden, detail).with_hint(hint)
}
