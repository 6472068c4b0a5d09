//! The port through which copies of sessions outside the ledger are cleaned after a redaction or an erasure (ADR 0042),
//! and the receipts.

use async_trait::async_trait;
use filrouge_types::{SessionId, TenantId};
use serde::Serialize;

/// The status of a store that no longer has the erased contents.
pub const ERASED: &str = "erased";
/// The status of a projection that is cleaned later, as soon as it can be.
pub const PENDING: &str = "pending";

/// One store's part of a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct StoreReceipt {
    /// The store.
    #[schema(value_type = String, example = "ledger")]
    pub store: &'static str,
    /// The projection's name, if the store is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub name: Option<Box<str>>,
    /// The result for the session in this store.
    #[schema(value_type = String, example = "erased")]
    pub status: &'static str,
    /// Where bytes of the contents may remain, and until when; absent if nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub remains: Option<&'static str>,
}

/// Cleans the copies of sessions outside the ledger.
#[async_trait]
pub trait Cleaner: Send + Sync {
    /// Removes from each copy what the ledger no longer has of the session, and returns one receipt per copy:
    /// [`ERASED`], or [`PENDING`] if that was not certain in time. Cleaning then continues in the process that feeds the
    /// copy.
    async fn clean(&self, tenant: &TenantId, session: &SessionId) -> Vec<StoreReceipt>;
}
