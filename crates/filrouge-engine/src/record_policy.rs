//! What of a conversation is recorded in the ledger (DESIGN §7): all of it, or questions and answers alone; and how much
//! was left out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use filrouge_store::Scope;
use filrouge_store::hot::{Keep, KeepItems};
use filrouge_types::{Channel, Failure, ItemBody, RawJson, SessionId, TenantId};

use crate::core::{Core, Settings};
use crate::metadata::{Nulls, without_addresses};

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

/// Most names that are counted each by itself; more would make a metric of whatever callers send.
const NAMES: usize = 64;
/// Longest name that is counted by itself, in bytes.
const NAME_BYTES: usize = 64;
/// What all others are counted under.
const OTHER: &str = "other";

/// Counts by name, of a bounded number of names.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<BTreeMap<String, u64>>);

impl Tally {
    fn add(&self, name: &str) {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        let is_word = (1..=NAME_BYTES).contains(&name.len()) && name.bytes().all(plain);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counts.contains_key(name) || is_word && counts.len() < NAMES;
        let name = if known { name } else { OTHER };
        *counts.entry(name.to_owned()).or_default() += 1;
    }

    fn told(&self) -> Vec<(String, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(name, n)| (name.clone(), *n)).collect()
    }
}

/// What was left out of the ledger since the process began.
#[derive(Debug, Default)]
pub(crate) struct Omissions {
    members: Tally,
    items: Tally,
}

/// What one write leaves out.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    members: Vec<String>,
    channels: Vec<String>,
}

impl LeftOut {
    /// Whether an item of this channel is kept; takes note of one that is not.
    pub(crate) fn keeps(&mut self, record: KeepItems, channel: &Channel) -> bool {
        let keeps = record.keeps(channel);
        if !keeps {
            self.channels.push(channel.as_str().to_owned());
        }
        keeps
    }

    /// How many items.
    pub(crate) const fn items(&self) -> u64 {
        self.channels.len() as u64
    }
}

/// The items that are kept.
pub(crate) fn kept_items(
    record: KeepItems,
    mut items: Vec<ItemBody>,
    left: &mut LeftOut,
) -> Vec<ItemBody> {
    items.retain(|item| left.keeps(record, &item.channel));
    items
}

/// The members of a turn's metadata that are kept.
pub(crate) fn kept_metadata(keep: &Keep, metadata: &mut Option<RawJson>, left: &mut LeftOut) {
    if let Some(all) = metadata {
        let (kept, dropped) = keep.metadata_of(all);
        *all = kept;
        left.members.extend(dropped);
    }
}

impl Core {
    /// How many members of turns' metadata did not reach the ledger because they are not on the list, by name; names
    /// that are no words, and those beyond the first 64, under `other`.
    #[must_use]
    pub fn metadata_dropped(&self) -> Vec<(String, u64)> {
        self.omissions.members.told()
    }

    /// How many items did not reach the ledger because conversations alone are recorded, by channel; channels that are
    /// no words, and those beyond the first 64, under `other`.
    #[must_use]
    pub fn items_not_recorded(&self) -> Vec<(String, u64)> {
        self.omissions.items.told()
    }

    /// What is kept of a write to this session: all, while it is in the hot store alone.
    pub(crate) async fn keep(&self, scope: &Scope, session: &SessionId) -> Result<Keep, Failure> {
        let keep = self.settings.keep(&scope.tenant);
        if keep == Keep::default() || self.is_ephemeral(scope, session).await? {
            return Ok(Keep::default());
        }
        Ok(keep)
    }

    /// Metadata in which addresses are hashes.
    pub(crate) fn hashed(&self, tenant: &TenantId, metadata: Option<RawJson>) -> Option<RawJson> {
        let keyring = self.ledger.keyring();
        metadata.map(|metadata| without_addresses(metadata, Nulls::Values, keyring, tenant))
    }

    /// A change of metadata (RFC 7396) in which addresses are hashes.
    pub(crate) fn hashed_patch(&self, tenant: &TenantId, patch: RawJson) -> RawJson {
        without_addresses(patch, Nulls::Remove, self.ledger.keyring(), tenant)
    }

    /// Items in whose metadata addresses are hashes.
    pub(crate) fn hashed_items(
        &self,
        tenant: &TenantId,
        mut items: Vec<ItemBody>,
    ) -> Vec<ItemBody> {
        for item in &mut items {
            item.metadata = self.hashed(tenant, item.metadata.take());
        }
        items
    }

    /// A write was done: what it has left out counts, unless it had been done before.
    pub(crate) fn left_out(&self, left: &LeftOut, replayed: bool) {
        if replayed || left.members.is_empty() && left.channels.is_empty() {
            return;
        }
        left.members
            .iter()
            .for_each(|m| self.omissions.members.add(m));
        left.channels
            .iter()
            .for_each(|c| self.omissions.items.add(c));
        tracing::debug!(
            metadata = left.members.len(),
            items = left.channels.len(),
            "not recorded in the ledger"
        );
    }
}

#[cfg(test)]
mod tests;
