//! The caller of a service: on whose behalf it runs, and what that permits (DESIGN §8).

use std::sync::Arc;

use filrouge_store::command::{Hold, SessionToken};
use filrouge_store::{Scope, Viewer};
use filrouge_types::{ErrorCode, Failure, IdentityId, TenantId};

use crate::api_keys::Role;

mod permission;

use permission::Refused;
pub use permission::{Holder, Needs, Permission, may};

/// On whose behalf a service runs. Every service checks its permission and derives from it what the caller sees.
#[derive(Debug, Clone)]
pub struct Caller {
    tenant: TenantId,
    holder: Holder,
    identity: Option<IdentityId>,
    name: Option<Arc<str>>,
    token: Option<SessionToken>,
    hold: Option<Hold>,
}

impl Caller {
    /// A caller of `tenant`, who acts for the end user `identity`, or for none.
    #[must_use]
    pub const fn new(tenant: TenantId, holder: Holder, identity: Option<IdentityId>) -> Self {
        Self {
            tenant,
            holder,
            identity,
            name: None,
            token: None,
            hold: None,
        }
    }

    /// The operator, who uses the command line or the library, and may do everything in the tenant.
    #[must_use]
    pub const fn operator(tenant: TenantId) -> Self {
        Self::new(tenant, Holder::Role(Role::Admin), None)
    }

    /// What a server without keys makes of a request: it acts for the end user `identity`, or for an anonymous one.
    #[must_use]
    pub const fn local(tenant: TenantId, identity: Option<IdentityId>) -> Self {
        Self::new(tenant, Holder::Local, identity)
    }

    /// The same caller under the name of its credentials, which holds no secret.
    #[must_use]
    pub fn with_name(mut self, name: Option<Arc<str>>) -> Self {
        self.name = name;
        self
    }

    /// The same caller, who has shown the secret of an anonymous session.
    #[must_use]
    pub const fn with_token(mut self, token: Option<SessionToken>) -> Self {
        self.token = token;
        self
    }

    /// The same caller, who holds the session by a lease.
    #[must_use]
    pub const fn with_hold(mut self, hold: Option<Hold>) -> Self {
        self.hold = hold;
        self
    }

    /// The tenant.
    #[must_use]
    pub const fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The end user that the caller acts for.
    #[must_use]
    pub const fn identity(&self) -> Option<&IdentityId> {
        self.identity.as_ref()
    }

    /// Names the caller's credentials without any secret, as rates and streams are counted: a key's id, or a token's
    /// tenant and subject; `None` for a caller without credentials.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The secret of an anonymous session that the caller has shown.
    #[must_use]
    pub const fn token(&self) -> Option<SessionToken> {
        self.token
    }

    /// The lease that the caller holds the session by.
    #[must_use]
    pub const fn hold(&self) -> Option<Hold> {
        self.hold
    }

    /// Whether the caller has a permission.
    #[must_use]
    pub fn may(&self, permission: Permission) -> bool {
        let for_identity = self.identity.is_some();
        permission.check(self.holder, for_identity).is_ok()
    }

    /// Whom lists are for: the whole tenant, or one end user.
    #[must_use]
    pub fn viewer(&self) -> Viewer {
        match &self.identity {
            None if self.holder.sees_the_tenant() => Viewer::Operator,
            identity => Viewer::EndUser(identity.clone()),
        }
    }

    /// What the caller sees when it uses `permission`.
    ///
    /// # Errors
    /// `forbidden` when it does not have the permission.
    pub fn scope(&self, permission: Permission) -> Result<Scope, Failure> {
        permission
            .check(self.holder, self.identity.is_some())
            .map_err(|refused| refusal(permission, self.holder, refused))?;
        let viewer = match &self.identity {
            None if permission.spans_identities() => Viewer::Operator,
            _ => self.viewer(),
        };
        Ok(Scope {
            tenant: self.tenant.clone(),
            viewer,
            token: self.token,
            hold: self.hold,
        })
    }
}

#[cfg(test)]
impl From<&Scope> for Caller {
    fn from(scope: &Scope) -> Self {
        let tenant = scope.tenant.clone();
        match &scope.viewer {
            Viewer::Operator => Self::operator(tenant),
            Viewer::EndUser(identity) => Self::local(tenant, identity.clone()),
        }
        .with_token(scope.token)
        .with_hold(scope.hold)
    }
}

fn refusal(permission: Permission, holder: Holder, refused: Refused) -> Failure {
    let (word, holder) = (permission.as_str(), holder.as_str());
    let (detail, hint) = match refused {
        Refused::Role => (
            format!("the role {holder} does not have the permission {word}"),
            "docs/access.md shows what each role may do",
        ),
        Refused::ForIdentity => (
            format!("the permission {word} is not given on behalf of an end user"),
            "leave the header Filrouge-Identity out",
        ),
    };
    Failure::new(ErrorCode::Forbidden, detail).with_hint(hint)
}
