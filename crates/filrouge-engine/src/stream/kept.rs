//! What of a stream is recorded: all of it, or in a tenant that records conversations alone the answer (DESIGN §7).

use filrouge_store::draft::Delta;
use filrouge_store::hot::KeepItems;
use filrouge_store::record::Entry;
use filrouge_types::{Channel, Failure, ItemBody, ItemId, Role};

use super::block::Block;
use super::recording::Recording;
use super::transcript::{ReadyItem, Transcript};
use crate::record_policy::LeftOut;

impl Block {
    /// Whether it may become an item that is kept.
    pub(super) fn is_kept(&self, record: KeepItems) -> bool {
        record.keeps(&self.place().1)
    }
}

/// What an item is for the policy: a call that broke off is a call, whatever channel it stands on.
fn channel_of(item: &ItemBody) -> &Channel {
    let broke_off = item.parts.as_str().starts_with(r#"[{"type":"tool_call"#);
    if broke_off {
        &Channel::ToolCall
    } else {
        &item.channel
    }
}

impl Recording {
    /// Items with their keys and the agent's name, and without what must not be recorded; of a conversation, which is all
    /// that some tenants record, these can be none.
    pub(super) fn entries(&mut self, ready: Vec<ReadyItem>) -> Result<Vec<Entry>, Failure> {
        let mut left = LeftOut::default();
        let mut items = Vec::with_capacity(ready.len());
        for ready in ready {
            if left.keeps(self.record, channel_of(&ready.item)) {
                items.push(self.keyed(ready));
            }
        }
        self.core.left_out(&left, false);
        self.sifted(items)
    }

    fn keyed(&self, ready: ReadyItem) -> ItemBody {
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

    /// Items without what must not be recorded. A stream cannot be refused for what it holds: it is masked then, too.
    pub(super) fn sifted(&mut self, items: Vec<ItemBody>) -> Result<Vec<Entry>, Failure> {
        let items = items.into_iter().map(Into::into).collect();
        let sieve = self.core.stream_sieve(self.secrets.clone());
        let tenant = &self.scope.tenant;
        let (items, masked) = self.core.sifted_items(tenant, sieve, items)?;
        self.core.count_masked(&masked);
        self.masked += masked.count;
        Ok(items.into_iter().map(Entry::from).collect())
    }

    /// Takes back from the draft what was taken for an answer and is none: nothing of it is recorded.
    pub(super) async fn withdraw(&mut self, transcript: &Transcript) -> Result<(), Failure> {
        let first = transcript.blocks().next().map_or(u64::MAX, |b| b.number);
        let over = self.shown.iter().filter(|((number, _), shown)| {
            *number < first && shown.head.is_some() && shown.given > 0
        });
        let mut deltas: Vec<Delta> = over
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
