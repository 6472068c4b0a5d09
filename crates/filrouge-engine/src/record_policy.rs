//! Decides which part of a conversation the ledger records (DESIGN §7), all of it or only questions and answers, and
//! counts the omitted items and members.

use filrouge_store::Scope;
use filrouge_store::hot::{FieldRetention, ItemRetention};
use filrouge_types::{Channel, Failure, RawJson, SessionId, TenantId};

use crate::core::Core;
use crate::metadata::{Nulls, without_addresses};
use crate::validate::ValidatedItem;

/// The items and members of one write that the ledger does not record.
#[derive(Debug, Default)]
pub(crate) struct Omissions {
    /// The names of the omitted members.
    members: Vec<String>,
    /// The channels of the omitted items.
    channels: Vec<String>,
}

impl Omissions {
    /// Whether an item of this channel is recorded. If it is not, counts it as omitted.
    pub(crate) fn keep_or_omit(&mut self, retention: ItemRetention, channel: &Channel) -> bool {
        let is_recorded = retention.keeps(channel);
        if !is_recorded {
            self.channels.push(channel.as_str().to_owned());
        }
        is_recorded
    }

    /// The number of omitted items.
    pub(crate) const fn items(&self) -> u64 {
        self.channels.len() as u64
    }
}

/// Filters a turn's metadata to the members that are recorded.
pub(crate) fn kept_metadata(
    retention: &FieldRetention,
    metadata: &mut Option<RawJson>,
    omissions: &mut Omissions,
) {
    if let Some(all) = metadata {
        let (kept, dropped) = retention.metadata_of(all);
        *all = kept;
        omissions.members.extend(dropped);
    }
}

impl Core {
    /// Which fields and items of writes to this session are recorded: all of them, while the session is only in the
    /// hot store.
    pub(crate) async fn retention(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<FieldRetention, Failure> {
        let retention = self.settings.retention(&scope.tenant);
        if retention == FieldRetention::default() || self.is_ephemeral(scope, session).await? {
            return Ok(FieldRetention::default());
        }
        Ok(retention)
    }

    /// Replaces the addresses in metadata by their hashes.
    pub(crate) fn hash_addresses(
        &self,
        tenant: &TenantId,
        metadata: Option<RawJson>,
    ) -> Option<RawJson> {
        let keyring = self.ledger.keyring();
        metadata.map(|metadata| without_addresses(metadata, Nulls::Values, keyring, tenant))
    }

    /// Replaces the addresses in a merge patch of metadata (RFC 7396) by their hashes.
    pub(crate) fn hash_addresses_in_patch(&self, tenant: &TenantId, patch: RawJson) -> RawJson {
        without_addresses(patch, Nulls::Remove, self.ledger.keyring(), tenant)
    }

    /// Replaces the addresses in the items' metadata by their hashes.
    pub(crate) fn hash_addresses_in_items(
        &self,
        tenant: &TenantId,
        mut items: Vec<ValidatedItem>,
    ) -> Vec<ValidatedItem> {
        for ValidatedItem { body, .. } in &mut items {
            body.metadata = self.hash_addresses(tenant, body.metadata.take());
        }
        items
    }

    /// Adds the omissions of a write to the engine's counters, unless the write was a replay.
    pub(crate) fn count_omissions(&self, omissions: &Omissions, replayed: bool) {
        if replayed || omissions.members.is_empty() && omissions.channels.is_empty() {
            return;
        }
        for name in &omissions.members {
            self.counters.members.add_name(name);
        }
        for channel in &omissions.channels {
            self.counters.items.add_name(channel);
        }
        tracing::debug!(
            metadata = omissions.members.len(),
            items = omissions.channels.len(),
            "not recorded in the ledger"
        );
    }
}

#[cfg(test)]
mod tests;
