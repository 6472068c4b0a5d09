//! Decides which part of a conversation the ledger records (DESIGN §7), all of it or only questions and answers, and
//! counts what is left out.

use filrouge_store::Scope;
use filrouge_store::hot::{FieldRetention, ItemRetention};
use filrouge_types::{Channel, Failure, RawJson, SessionId, TenantId};

use crate::core::Core;
use crate::metadata::{Nulls, without_addresses};
use crate::validate::ValidatedItem;

/// The items and members that one write leaves out.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    members: Vec<String>,
    channels: Vec<String>,
}

impl LeftOut {
    /// Whether an item of this channel is recorded. If it is not, adds it to the items left out.
    pub(crate) fn keeps(&mut self, record: ItemRetention, channel: &Channel) -> bool {
        let keeps = record.keeps(channel);
        if !keeps {
            self.channels.push(channel.as_str().to_owned());
        }
        keeps
    }

    /// The number of items left out.
    pub(crate) const fn items(&self) -> u64 {
        self.channels.len() as u64
    }
}

/// Filters the items to those that are recorded.
pub(crate) fn kept_items(
    record: ItemRetention,
    mut items: Vec<ValidatedItem>,
    left_out: &mut LeftOut,
) -> Vec<ValidatedItem> {
    items.retain(|item| left_out.keeps(record, &item.body.channel));
    items
}

/// Filters a turn's metadata to the members that are recorded.
pub(crate) fn kept_metadata(
    keep: &FieldRetention,
    metadata: &mut Option<RawJson>,
    left_out: &mut LeftOut,
) {
    if let Some(all) = metadata {
        let (kept, dropped) = keep.metadata_of(all);
        *all = kept;
        left_out.members.extend(dropped);
    }
}

impl Core {
    /// The policy that applies to writes of this session. While the session is only in the hot store, everything is
    /// kept.
    pub(crate) async fn keep(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<FieldRetention, Failure> {
        let keep = self.settings.keep(&scope.tenant);
        if keep == FieldRetention::default() || self.is_ephemeral(scope, session).await? {
            return Ok(FieldRetention::default());
        }
        Ok(keep)
    }

    /// Metadata with its addresses hashed.
    pub(crate) fn hashed(&self, tenant: &TenantId, metadata: Option<RawJson>) -> Option<RawJson> {
        let keyring = self.ledger.keyring();
        metadata.map(|metadata| without_addresses(metadata, Nulls::Values, keyring, tenant))
    }

    /// A merge patch of metadata (RFC 7396) with its addresses hashed.
    pub(crate) fn hashed_patch(&self, tenant: &TenantId, patch: RawJson) -> RawJson {
        without_addresses(patch, Nulls::Remove, self.ledger.keyring(), tenant)
    }

    /// Items with the addresses in their metadata hashed.
    pub(crate) fn hashed_items(
        &self,
        tenant: &TenantId,
        mut items: Vec<ValidatedItem>,
    ) -> Vec<ValidatedItem> {
        for ValidatedItem { body, .. } in &mut items {
            body.metadata = self.hashed(tenant, body.metadata.take());
        }
        items
    }

    /// Counts what a write left out, unless it was a replay.
    pub(crate) fn count_left_out(&self, left_out: &LeftOut, replayed: bool) {
        if replayed || left_out.members.is_empty() && left_out.channels.is_empty() {
            return;
        }
        for name in &left_out.members {
            self.counters.members.add_word(name);
        }
        for channel in &left_out.channels {
            self.counters.items.add_word(channel);
        }
        tracing::debug!(
            metadata = left_out.members.len(),
            items = left_out.channels.len(),
            "not recorded in the ledger"
        );
    }
}

#[cfg(test)]
mod tests;
