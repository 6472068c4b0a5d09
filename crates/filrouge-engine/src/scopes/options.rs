//! How two scopes behave.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use filrouge_store::hot::Keep;
use filrouge_types::{TenantId, UnknownName};

/// Which sessions are durable (DESIGN §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DurablePolicy {
    /// All of them.
    #[default]
    All,
    /// Those that have an identity; the others are in the hot store alone.
    Authenticated,
}

impl DurablePolicy {
    /// The word of the setting `durable`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Authenticated => "authenticated",
        }
    }
}

impl fmt::Display for DurablePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DurablePolicy {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        match word {
            "all" => Ok(Self::All),
            "authenticated" => Ok(Self::Authenticated),
            _ => Err(UnknownName {
                what: "policy of what is durable",
                name: word.to_owned(),
                known: "all, authenticated",
            }),
        }
    }
}

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
