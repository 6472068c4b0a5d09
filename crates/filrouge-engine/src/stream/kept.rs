//! Selects the part of a stream that is recorded, and masks it. The part is the answer if the tenant records only
//! conversations; otherwise it is the entire stream (DESIGN §7).

use filrouge_store::draft::Delta;
use filrouge_store::hot::ItemRetention;
use filrouge_store::record::Entry;
use filrouge_types::{Channel, ItemBody, ItemId, Result, Role};

use super::block::StreamBlock;
use super::recording::Recording;
use super::transcript::{ReadyItem, Transcript};
use crate::record_policy::Omissions;

impl StreamBlock {
    /// Whether the block may become an item that the tenant's policy records.
    pub(super) fn is_recorded(&self, retention: ItemRetention) -> bool {
        retention.keeps(&self.role_and_channel().1)
    }
}

/// The channel that the policy applies to an item. An incomplete tool call counts as a tool call, whatever its channel.
fn channel_of(item: &ItemBody) -> &Channel {
    let is_tool_call = item.parts.as_str().starts_with(r#"[{"type":"tool_call"#);
    if is_tool_call {
        &Channel::ToolCall
    } else {
        &item.channel
    }
}

impl Recording {
    /// Adds the keys and the agent's name to items, and masks what must not be recorded. Items that the tenant's policy
    /// does not record are left out and counted, so the result may be empty.
    pub(super) fn entries(&mut self, ready: Vec<ReadyItem>) -> Result<Vec<Entry>> {
        let mut omissions = Omissions::default();
        let mut items = Vec::with_capacity(ready.len());
        for ready in ready {
            if omissions.keep_or_omit(self.retention, channel_of(&ready.item)) {
                items.push(self.with_key(ready));
            }
        }
        self.core.count_omissions(&omissions, false);
        self.mask_items(items)
    }

    fn with_key(&self, ready: ReadyItem) -> ItemBody {
        let mut item = ready.item;
        item.item_id = match ready.number {
            Some(number) => self.stream.item_id(number),
            None => ItemId::new(format!("{}.events", self.stream)).ok(),
        };
        if item.role == Role::Assistant {
            item.agent.clone_from(&self.settings.agent);
        }
        item
    }

    /// Masks items, even under the policy `refuse`: a stream cannot be refused for its contents.
    pub(super) fn mask_items(&mut self, items: Vec<ItemBody>) -> Result<Vec<Entry>> {
        let items = items.into_iter().map(Into::into).collect();
        let masker = self.core.stream_masker(self.secrets.clone());
        let tenant = &self.scope.tenant;
        let (items, masked) = self.core.masked_items(tenant, masker, items)?;
        self.core.add_masked_counts(&masked);
        self.masked += masked.count;
        Ok(items.into_iter().map(Entry::from).collect())
    }

    /// Removes from the draft the text of blocks that were taken from the transcript but not recorded, because they
    /// were not the answer.
    pub(super) async fn remove_unrecorded_drafts(&mut self, transcript: &Transcript) -> Result<()> {
        let first = transcript.blocks().next().map_or(u64::MAX, |b| b.number);
        let obsolete = self.drafted_pieces.iter().filter(|((number, _), piece)| {
            *number < first && piece.head.is_some() && piece.drafted_bytes > 0
        });
        let mut deltas: Vec<Delta> = obsolete
            .map(|((number, part), _)| Delta {
                number: *number,
                part: *part as u64,
                head: None,
                replaces: true,
                text: String::new(),
                done: true,
            })
            .collect();
        deltas.sort_by_key(|delta| (delta.number, delta.part));
        if !deltas.is_empty() {
            self.draft(deltas).await?;
        }
        self.forget_taken_pieces(transcript);
        Ok(())
    }
}
