//! The port that decides whether a version of an ephemeral session may be used.

use async_trait::async_trait;
use filrouge_types::{Failure, SessionId, TenantId};

use crate::hot::Edition;

/// Decides, from information outside the hot store, whether a version of an ephemeral session may be used. A hot store
/// that is restored from older data must not restore redacted content.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Whether the session may be used in this version. If not, the caller removes the session from the hot store.
    ///
    /// # Errors
    /// Fails when no decision is possible now; the caller then does not use the session, and does not remove it.
    async fn admits(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        edition: Edition,
    ) -> Result<bool, Failure>;
}

/// The gate that admits everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenGate;

#[async_trait]
impl Gate for OpenGate {
    async fn admits(&self, _: &TenantId, _: &SessionId, _: Edition) -> Result<bool, Failure> {
        Ok(true)
    }
}
