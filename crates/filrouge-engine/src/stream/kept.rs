//! Selects the part of a stream that is recorded, and masks it. If the tenant records only conversations, that is the
//! answer; otherwise it is everything (DESIGN §7).

use filrouge_store::draft::Delta;
use filrouge_store::hot::ItemRetention;
use filrouge_store::record::Entry;
use filrouge_types::{Channel, Failure, ItemBody, ItemId, Role};

use super::block::StreamBlock;
use super::recording::Recording;
use super::transcript::{ReadyItem, Transcript};
use crate::record_policy::LeftOut;

impl StreamBlock {
    /// Whether the block may become an item that the tenant's policy records.
    pub(super) fn is_kept(&self, record: ItemRetention) -> bool {
        record.keeps(&self.role_and_channel().1)
    }
}

/// The channel by which the policy treats an item. A tool call that broke off counts as a tool call, whatever its
/// channel.
fn channel_of(item: &ItemBody) -> &Channel {
    let broke_off = item.parts.as_str().starts_with(r#"[{"type":"tool_call"#);
    if broke_off {
        &Channel::ToolCall
    } else {
        &item.channel
    }
}

impl Recording {
    /// Adds the keys and the agent's name to items, and masks what must not be recorded. Items that the tenant's policy
    /// does not record are left out and counted, so the result may be empty.
    pub(super) fn entries(&mut self, ready: Vec<ReadyItem>) -> Result<Vec<Entry>, Failure> {
        let mut left_out = LeftOut::default();
        let mut items = Vec::with_capacity(ready.len());
        for ready in ready {
            if left_out.keeps(self.record, channel_of(&ready.item)) {
                items.push(self.with_key(ready));
            }
        }
        self.core.count_left_out(&left_out, false);
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
    pub(super) fn mask_items(&mut self, items: Vec<ItemBody>) -> Result<Vec<Entry>, Failure> {
        let items = items.into_iter().map(Into::into).collect();
        let masker = self.core.stream_masker(self.secrets.clone());
        let tenant = &self.scope.tenant;
        let (items, masked) = self.core.masked_items(tenant, masker, items)?;
        self.core.add_masked_counts(&masked);
        self.masked += masked.count;
        Ok(items.into_iter().map(Entry::from).collect())
    }

    /// Removes from the draft the text of blocks that were taken from the transcript and not recorded, because they
    /// turned out not to be the answer.
    pub(super) async fn withdraw(&mut self, transcript: &Transcript) -> Result<(), Failure> {
        let first = transcript.blocks().next().map_or(u64::MAX, |b| b.number);
        let obsolete = self.shown.iter().filter(|((number, _), shown)| {
            *number < first && shown.head.is_some() && shown.drafted_bytes > 0
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
        self.forget_shown(transcript);
        Ok(())
    }
}
