//! What of a conversation is recorded in the ledger (DESIGN §7): all of it, or questions and answers alone; and how much
//! was left out.

use filrouge_store::Scope;
use filrouge_store::hot::{Keep, KeepItems};
use filrouge_types::{Channel, Failure, RawJson, SessionId, TenantId};

use crate::core::Core;
use crate::metadata::{Nulls, without_addresses};
use crate::validate::Checked;

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
    mut items: Vec<Checked>,
    left: &mut LeftOut,
) -> Vec<Checked> {
    items.retain(|item| left.keeps(record, &item.body.channel));
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
    pub(crate) fn hashed_items(&self, tenant: &TenantId, mut items: Vec<Checked>) -> Vec<Checked> {
        for Checked { body, .. } in &mut items {
            body.metadata = self.hashed(tenant, body.metadata.take());
        }
        items
    }

    /// A write was done: what it has left out counts, unless it had been done before.
    pub(crate) fn left_out(&self, left: &LeftOut, replayed: bool) {
        if replayed || left.members.is_empty() && left.channels.is_empty() {
            return;
        }
        for name in &left.members {
            self.counters.members.add_word(name);
        }
        for channel in &left.channels {
            self.counters.items.add_word(channel);
        }
        tracing::debug!(
            metadata = left.members.len(),
            items = left.channels.len(),
            "not recorded in the ledger"
        );
    }
}

#[cfg(test)]
mod tests;
