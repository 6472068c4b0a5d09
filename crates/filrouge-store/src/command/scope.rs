//! On whose behalf a command or query runs, and which sessions this caller may see.

use std::sync::Arc;

use filrouge_types::{IdentityId, TenantId};
use serde::{Deserialize, Serialize};

use super::lease::FencingToken;
use super::session::SessionToken;
use crate::rows::SessionRow;

/// The user on whose behalf a command or query runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Viewer {
    /// An end user, who sees their own sessions and anonymous ones. `None` is an anonymous user.
    EndUser(Option<IdentityId>),
    /// The operator of the store, who sees all sessions of the tenant.
    Operator,
}

impl Viewer {
    /// The identity, if there is one.
    pub const fn identity(&self) -> Option<&IdentityId> {
        match self {
            Self::EndUser(id) => id.as_ref(),
            Self::Operator => None,
        }
    }
}

/// The caller of a command or query: its tenant and key, and the viewer that it acts for. `None`: the server itself.
pub type SlotCaller<'a> = (Option<(&'a TenantId, Option<&'a str>)>, Option<&'a Viewer>);

/// The tenant and user of a command or query, with the session secret and the fencing token that the caller presented.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The tenant.
    pub tenant: TenantId,
    /// The viewer.
    pub viewer: Viewer,
    /// The hash of the secret that the caller presented for an anonymous session, if any.
    pub token: Option<SessionToken>,
    /// The fencing token of the lease under which the caller writes; `None` if the caller names no lease.
    #[serde(rename = "hold")]
    pub fence: Option<FencingToken>,
    /// The name of the caller's API key or token, if any. It only decides whose turn it is.
    #[serde(skip)]
    pub key: Option<Arc<str>>,
}

impl Scope {
    /// A scope without a session secret and without a fencing token.
    pub const fn new(tenant: TenantId, viewer: Viewer) -> Self {
        Self {
            tenant,
            viewer,
            token: None,
            fence: None,
            key: None,
        }
    }

    /// The same scope with this fencing token, for writes of the session's holder.
    #[must_use]
    pub const fn with_fence(mut self, fence: Option<FencingToken>) -> Self {
        self.fence = fence;
        self
    }

    /// The caller, as slots are shared. The session secret does not count: each request could present another one.
    pub fn caller(&self) -> SlotCaller<'_> {
        (
            Some((&self.tenant, self.key.as_deref())),
            Some(&self.viewer),
        )
    }

    /// Whether the viewer may see a session of this tenant (P6). End users see their own sessions and anonymous ones.
    /// An anonymous session with a secret is visible only with that secret (DESIGN §7).
    pub fn can_see(&self, session: &SessionRow) -> bool {
        match (&self.viewer, &session.identity_id) {
            (Viewer::Operator, _) => true,
            (Viewer::EndUser(_), None) => session.token.is_none() || session.token == self.token,
            (Viewer::EndUser(viewer), Some(owner)) => viewer.as_ref() == Some(owner),
        }
    }

    /// Whether lists show the session to the viewer. End users find their own sessions. Anonymous callers find the
    /// anonymous sessions whose secret they presented or, if they presented none, those without a secret.
    pub fn can_list(&self, session: &SessionRow) -> bool {
        match &self.viewer {
            Viewer::Operator => true,
            Viewer::EndUser(Some(viewer)) => session.identity_id.as_ref() == Some(viewer),
            Viewer::EndUser(None) => session.identity_id.is_none() && session.token == self.token,
        }
    }
}
