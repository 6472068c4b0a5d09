//! How two scopes behave.

use std::collections::HashMap;
use std::time::Duration;

use filrouge_store::hot::Keep;
use filrouge_types::TenantId;

filrouge_types::words!(
    /// Which sessions are durable (DESIGN §7).
    #[derive(Default)]
    pub enum DurablePolicy: "policy of what is durable" {
        /// All of them.
        #[default]
        All => "all",
        /// Those that have an identity; the others are in the hot store alone.
        Authenticated => "authenticated",
    }
);

/// How two scopes behave.
#[derive(Debug, Clone)]
pub struct ScopeOptions {
    /// Which sessions are durable.
    pub durable: DurablePolicy,
    /// What of an ephemeral session goes into the ledger.
    pub keep: Keep,
    /// The tenants of which something else does.
    pub keep_in: HashMap<TenantId, Keep>,
    /// Silence after which an open turn of an ephemeral session counts as interrupted.
    pub turn_timeout: Duration,
}

impl Default for ScopeOptions {
    /// All durable, everything kept, a quarter of an hour.
    fn default() -> Self {
        Self {
            durable: DurablePolicy::default(),
            keep: Keep::default(),
            keep_in: HashMap::new(),
            turn_timeout: Duration::from_secs(15 * 60),
        }
    }
}
