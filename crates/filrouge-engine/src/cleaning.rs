//! The port through which copies of sessions outside the ledger are cleaned after a redaction or an erasure (ADR 0042).

use std::sync::Arc;

use async_trait::async_trait;
use filrouge_store::Scope;
use filrouge_types::{SessionId, TenantId};

use crate::core::Core;
use crate::engine::Engine;
use crate::erasure::StoreReceipt;

/// The status of a store that no longer has the erased contents.
pub const ERASED: &str = "erased";
/// The status of a projection that is cleaned later, as soon as it can be.
pub const PENDING: &str = "pending";

/// Cleans the copies of sessions outside the ledger.
#[async_trait]
pub trait Cleaner: Send + Sync {
    /// Removes from each copy what the ledger no longer has of the session, and returns one receipt per copy:
    /// [`ERASED`], or [`PENDING`] if that was not certain in time. Cleaning then continues in the process that feeds the
    /// copy.
    async fn clean(&self, tenant: &TenantId, session: &SessionId) -> Vec<StoreReceipt>;
}

impl Engine {
    /// Makes redactions and erasures also clean the copies of sessions, before they return. The cleaner is set at most
    /// once; a later one is ignored.
    pub fn set_cleaner(&self, cleaner: Arc<dyn Cleaner>) {
        let _ = self.core.cleaner.set(cleaner);
    }
}

impl Core {
    /// Cleans the copies of a session after a redaction or an erasure of it. Returns their receipts.
    pub(crate) async fn clean_copies(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Vec<StoreReceipt> {
        let Some(cleaner) = self.cleaner.get() else {
            return Vec::new();
        };
        let receipts = cleaner.clean(&scope.tenant, session).await;
        for receipt in receipts.iter().filter(|receipt| receipt.status == PENDING) {
            let projection = receipt.name.as_deref().unwrap_or_default();
            tracing::warn!(session_id = %session, projection, "[PROJECTIONS][CLEAN] pending");
        }
        receipts
    }
}
