//! Claims: writes under an identity that make or link a session. One that is refused because the session is somebody
//! else's is counted and told: `[SESSIONS][LINK_REFUSED]` (DESIGN §7). Ids, never content.

use filrouge_store::command::{Scope, Write};
use filrouge_types::{ErrorCode, Failure, IdentityId, SessionId, TenantId};

/// Who claims which session.
pub(crate) struct Claim {
    tenant: TenantId,
    session: SessionId,
    identity: IdentityId,
}

impl Claim {
    /// The claim that a write makes; `None` for one that makes none.
    pub(crate) fn of(scope: &Scope, write: &Write) -> Option<Self> {
        let identity = match write {
            Write::Link(link) => Some(&link.identity_id),
            Write::Start(_) | Write::CreateSession(_) => scope.viewer.identity(),
            _ => None,
        };
        Some(Self {
            tenant: scope.tenant.clone(),
            session: write.session_id()?.clone(),
            identity: identity?.clone(),
        })
    }

    /// Whether it was refused for another owner's sake, which is told then.
    pub(crate) fn is_refused(&self, failure: &Failure) -> bool {
        let refused = matches!(
            failure.code,
            ErrorCode::SessionLinked | ErrorCode::SessionConflict
        );
        if refused {
            tracing::warn!(
                tenant_id = %self.tenant,
                session_id = %self.session,
                identity_id = %self.identity,
                code = failure.code.as_str(),
                "[SESSIONS][LINK_REFUSED]"
            );
        }
        refused
    }
}
