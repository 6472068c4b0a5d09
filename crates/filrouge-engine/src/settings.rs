//! The settings of the engine.

use std::collections::BTreeMap;
use std::time::Duration;

use filrouge_store::command::ConcurrentTurns;
use filrouge_store::hot::{FieldRetention, ItemRetention};
use filrouge_types::TenantId;

use crate::calls::CallSettings;
use crate::metadata::MetadataPolicy;
use crate::secrets::CredentialPolicy;
use crate::validate::Limits;

/// The settings of the engine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether a session may have several open turns.
    pub concurrent_turns: ConcurrentTurns,
    /// The time without a write after which an open turn counts as interrupted.
    pub turn_timeout: Duration,
    /// The time without a heartbeat after which the process that records a stream counts as dead. It sends a heartbeat
    /// three times within this time, and at least every [`crate::stream::HEARTBEAT_EVERY`]. All processes of a store
    /// need the same timeout.
    pub stream_timeout: Duration,
    /// Members of `runtime_context` that become metadata of the question.
    pub runtime_context_allow: Vec<String>,
    /// The treatment of credentials in users' texts and in arguments of tool calls.
    pub credentials: CredentialPolicy,
    /// The members of turns' metadata that the ledger records.
    pub metadata: MetadataPolicy,
    /// The items that the ledger records.
    pub record: RecordPolicies,
    /// The settings of live calls.
    pub calls: CallSettings,
    /// Whether every new anonymous session requires a session token: the one that the caller sends, or a random one.
    pub require_session_token: bool,
    /// The longest duration of a share; zero: nobody can create or open one.
    pub share_max: Duration,
    /// The limits on requests.
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
            share_max: Duration::from_secs(30 * 24 * 60 * 60),
            limits: Limits::default(),
        }
    }
}

/// Which items the ledger records, by tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordPolicies {
    /// The policy for tenants that `tenants` does not list.
    pub default: ItemRetention,
    /// The policies of certain tenants.
    pub tenants: BTreeMap<TenantId, ItemRetention>,
}

impl RecordPolicies {
    /// The policy of a tenant.
    pub fn of(&self, tenant: &TenantId) -> ItemRetention {
        self.tenants.get(tenant).copied().unwrap_or(self.default)
    }
}

impl Settings {
    /// Which fields and items of a tenant's conversations the ledger records.
    pub fn retention(&self, tenant: &TenantId) -> FieldRetention {
        FieldRetention {
            metadata: self.metadata.list(),
            record: self.record.of(tenant),
        }
    }
}
