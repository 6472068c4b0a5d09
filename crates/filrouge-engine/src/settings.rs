//! How the engine behaves.

use std::collections::BTreeMap;
use std::time::Duration;

use filrouge_store::command::ConcurrentTurns;
use filrouge_store::hot::{Keep, KeepItems};
use filrouge_types::TenantId;

use crate::calls::CallSettings;
use crate::metadata::MetadataPolicy;
use crate::secrets::CredentialPolicy;
use crate::validate::Limits;

/// How the engine behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether a session may have several open turns.
    pub concurrent_turns: ConcurrentTurns,
    /// Silence after which a turn counts as interrupted.
    pub turn_timeout: Duration,
    /// Silence of who records a stream after which it counts as gone. Those who are there give a sign of life three
    /// times as often, and at least every [`crate::stream::BEAT`]; all processes of a store need the same timeout.
    pub stream_timeout: Duration,
    /// Members of `runtime_context` that become metadata of the question.
    pub runtime_context_allow: Vec<String>,
    /// What is done with credentials in what users say and in parameters of tools.
    pub credentials: CredentialPolicy,
    /// Which members of turns' metadata reach the ledger.
    pub metadata: MetadataPolicy,
    /// Which items reach the ledger.
    pub record: RecordPolicies,
    /// How live calls are handled.
    pub calls: CallSettings,
    /// Whether every anonymous session has a session token: the caller's own, or a random one.
    pub require_session_token: bool,
    /// Upper bounds.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        let allow = [
            "channel",
            "device_type",
            "ip_hash",
            "language",
            "locale",
            "timezone",
        ];
        Self {
            concurrent_turns: ConcurrentTurns::Allow,
            turn_timeout: Duration::from_secs(15 * 60),
            stream_timeout: Duration::from_secs(30),
            runtime_context_allow: allow.map(str::to_owned).to_vec(),
            credentials: CredentialPolicy::default(),
            metadata: MetadataPolicy::default(),
            record: RecordPolicies::default(),
            calls: CallSettings::default(),
            require_session_token: false,
            limits: Limits::default(),
        }
    }
}

/// Which items are recorded, by tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordPolicies {
    /// For tenants that are not named.
    pub default: KeepItems,
    /// For those that are.
    pub tenants: BTreeMap<TenantId, KeepItems>,
}

impl RecordPolicies {
    /// The policy of a tenant.
    #[must_use]
    pub fn of(&self, tenant: &TenantId) -> KeepItems {
        self.tenants.get(tenant).copied().unwrap_or(self.default)
    }
}

impl Settings {
    /// What of a tenant's conversations reaches the ledger.
    #[must_use]
    pub fn keep(&self, tenant: &TenantId) -> Keep {
        Keep {
            metadata: self.metadata.list(),
            record: self.record.of(tenant),
        }
    }
}
