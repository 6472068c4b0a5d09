//! Credentials that were verified.

use std::sync::Arc;

use filrouge_engine::caller::CallerRole;
use filrouge_types::{IdentityId, TenantId, Timestamp};

/// What identifies the holder of a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// Any caller, while the server needs no credentials.
    Local,
    /// The id of an API key.
    Key(Arc<str>),
    /// The tenant and the subject of a token, with a NUL in between.
    Token(Arc<str>),
}

/// Verified credentials, shared by all requests that present the same key or token.
#[derive(Debug, Clone)]
pub(super) struct Credential {
    pub(super) tenant: TenantId,
    pub(super) holder: CallerRole,
    pub(super) subject: Subject,
    /// The holder's identity, if the holder is an end user.
    pub(super) identity: Option<IdentityId>,
    /// When the credential expires; `None` if it does not.
    pub(super) expires_at: Option<Timestamp>,
}
