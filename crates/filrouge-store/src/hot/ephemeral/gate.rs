//! Who says whether a state may be used.

use async_trait::async_trait;
use filrouge_types::{Failure, SessionId, TenantId};

use crate::hot::Edition;

/// Whether a state of an ephemeral session may be used, as somebody outside of the hot store knows: what was redacted
/// must not come back with an older copy of the hot store's data.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Whether the session may be used in this state; `false` has it forgotten.
    ///
    /// # Errors
    /// When it cannot be said; the session is not answered then.
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
