//! Options of a tiered ledger.

use std::collections::HashMap;
use std::time::Duration;

use filrouge_store::hot::FieldRetention;
use filrouge_types::TenantId;

filrouge_types::words!(
    /// The policy that decides which sessions are durable (DESIGN §7).
    #[derive(Default)]
    pub enum DurablePolicy: "policy of what is durable" {
        /// All sessions.
        #[default]
        All => "all",
        /// Sessions with an identity; the others are only in the hot store.
        Authenticated => "authenticated",
    }
);

/// Options of a tiered ledger.
#[derive(Debug, Clone)]
pub struct TierOptions {
    /// The policy that decides which sessions are durable.
    pub durable: DurablePolicy,
    /// The fields of an ephemeral session that a login moves into the ledger.
    pub keep: FieldRetention,
    /// Exceptions from `keep`, by tenant.
    pub keep_by_tenant: HashMap<TenantId, FieldRetention>,
    /// The time without a write after which an open turn of an ephemeral session counts as interrupted.
    pub turn_timeout: Duration,
}

impl Default for TierOptions {
    /// The defaults: all sessions are durable, all fields are kept, and turns time out after 15 minutes.
    fn default() -> Self {
        Self {
            durable: DurablePolicy::default(),
            keep: FieldRetention::default(),
            keep_by_tenant: HashMap::new(),
            turn_timeout: Duration::from_secs(15 * 60),
        }
    }
}
