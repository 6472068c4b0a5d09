//! The API keys by which callers are authenticated.

use std::collections::HashMap;
use std::sync::Arc;

use filrouge_engine::api_keys::{ApiKey, ApiKeys};
use filrouge_engine::caller::CallerRole;
use filrouge_types::{Failure, Timestamp};

use crate::access::credential::{Credential, Subject};

/// The store's API keys, as last read from the ledger, or from the file of kept keys.
pub(super) enum KeyTable {
    /// The keys could not be read yet: all callers with API keys are refused.
    NotLoaded(Failure),
    /// The keys, and the version of the note in which the store keeps them. At version 0 no key was ever created.
    Loaded {
        version: u64,
        by_id: HashMap<Box<str>, KeyEntry>,
        /// The end of their use, if they are from the file of kept keys.
        kept_until: Option<Timestamp>,
    },
}

pub(super) struct KeyEntry {
    pub(super) key: ApiKey,
    pub(super) credential: Arc<Credential>,
}

impl KeyTable {
    pub(super) fn from_stored(stored: ApiKeys, kept_until: Option<Timestamp>) -> Self {
        let by_id = stored.keys.into_iter().map(|key| {
            let credential = Credential {
                tenant: key.tenant_id.clone(),
                holder: CallerRole::Role(key.role),
                subject: Subject::Key(key.key_id.as_str().into()),
                identity: key.identity_id.clone(),
                expires_at: key.expires_at,
            };
            let credential = Arc::new(credential);
            (key.key_id.as_str().into(), KeyEntry { key, credential })
        });
        Self::Loaded {
            version: stored.version,
            by_id: by_id.collect(),
            kept_until,
        }
    }

    /// The key with this id.
    pub(super) fn entry(&self, key_id: &str) -> Option<&KeyEntry> {
        match self {
            Self::NotLoaded(_) => None,
            Self::Loaded { by_id, .. } => by_id.get(key_id),
        }
    }

    pub(super) fn kept_until(&self) -> Option<Timestamp> {
        match self {
            Self::NotLoaded(_) => None,
            Self::Loaded { kept_until, .. } => *kept_until,
        }
    }

    pub(super) fn version(&self) -> Option<u64> {
        match self {
            Self::NotLoaded(_) => None,
            Self::Loaded { version, .. } => Some(*version),
        }
    }
}
