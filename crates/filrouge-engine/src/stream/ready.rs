//! Converts complete blocks into items.

use filrouge_store::read::merge_metadata;
use filrouge_types::{Channel, ItemBody, RawJson, Role};

use super::block::{StreamBlock, object, parts};
use super::end::StreamEnd;
use super::transcript::{ReadyItem, Transcript};

/// The channel of the item that contains a stream's unknown events.
const EVENTS: &str = "stream_events";

impl Transcript {
    /// Takes the items that are ready, in order. While the stream goes on, these are the complete blocks before the
    /// first one that may still grow or be the answer. After the end of a response they are all blocks; after an error
    /// or a cancellation, only the complete ones.
    pub fn take_ready(&mut self) -> Vec<ReadyItem> {
        let mut ready = std::mem::take(&mut self.ready);
        match self.ended {
            None => return ready,
            Some(StreamEnd::Answered | StreamEnd::Continues) => {}
            Some(StreamEnd::Failed(_) | StreamEnd::Cancelled) => {
                self.finish_complete_blocks();
                ready.append(&mut self.ready);
                ready.extend(self.unknown_item());
                return ready;
            }
        }
        let is_length_limit =
            |(name, value): &(&str, String)| *name == "finish_reason" && value == "\"length\"";
        if self.metadata.iter().any(is_length_limit)
            && let Some(last) = self.blocks.back_mut()
        {
            last.cut = last.lacks_arguments();
        }
        let answer = match self.ended {
            Some(StreamEnd::Answered) => self.blocks.iter().rfind(|b| b.is_answer()),
            _ => None,
        };
        let answer = answer.map(|b| b.number);
        // The data from the end of the response goes into the answer, or else into the last block. A released block
        // does not get it, so that its item does not depend on when it was taken.
        let last = self.blocks.back().filter(|b| !b.released);
        let last = answer.or_else(|| last.map(|b| b.number));
        while let Some(block) = self.take_front() {
            let number = Some(block.number);
            if number == last {
                ready.extend(self.unknown_item());
            }
            let mut item = self.item(block, number == answer);
            if number == last {
                self.finish_item(&mut item);
                self.is_reported = true;
            }
            ready.push(ReadyItem { number, item });
        }
        ready.extend(self.unknown_item());
        ready
    }

    /// Whether an item that was taken contains the usage and the metadata from the end of the response.
    pub const fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Converts the complete blocks that later events cannot change into items. Call it after each event of the stream,
    /// so that the items do not depend on how the stream is divided into chunks.
    pub fn finish_complete_blocks(&mut self) {
        while self.is_front_ready() {
            let Some(block) = self.take_front() else {
                break;
            };
            let number = Some(block.number);
            let item = self.item(block, false);
            self.ready.push(ReadyItem { number, item });
        }
    }

    fn take_front(&mut self) -> Option<StreamBlock> {
        let block = self.blocks.pop_front()?;
        self.steps -= usize::from(block.is_step());
        self.memory_bytes = self.memory_bytes.saturating_sub(block.memory_bytes);
        self.version += 1;
        Some(block)
    }

    fn is_front_ready(&self) -> bool {
        let Some(front) = self.blocks.front().filter(|b| b.done) else {
            return false;
        };
        // The last block waits for the data from the end of the response, unless the stream broke off, which has none.
        let is_broken_off = matches!(
            self.ended,
            Some(StreamEnd::Failed(_) | StreamEnd::Cancelled)
        );
        if front.is_answer() {
            return self.steps > 1;
        }
        front.released || is_broken_off || self.blocks.len() > 1
    }

    /// An item with the unknown events since the last call; `None` if there are none.
    fn unknown_item(&mut self) -> Option<ReadyItem> {
        let events = std::mem::take(&mut self.unknown_events);
        if events.is_empty() {
            return None;
        }
        let parts: Vec<String> = events
            .iter()
            .map(|json| format!(r#"{{"type":"raw_event","event":{json}}}"#))
            .collect();
        let parts = RawJson::from_checked(format!("[{}]", parts.join(",")));
        let item = ItemBody::new(Role::System, Channel::from_word(EVENTS), parts);
        Some(ReadyItem { number: None, item })
    }

    fn item(&self, block: StreamBlock, is_final_answer: bool) -> ItemBody {
        let (role, mut channel) = block.role_and_channel();
        if block.is_answer() && !is_final_answer {
            channel = Channel::Observation;
        }
        let mut item = ItemBody::new(role, channel, parts(&block));
        if role == Role::Assistant {
            item.model.clone_from(&self.model);
        }
        let mut metadata = block.metadata;
        if block.alternative > 0 {
            metadata.push(("choice", block.alternative.to_string()));
        }
        item.metadata = object(&metadata);
        item
    }

    /// Adds the usage and the metadata from the end of the response to `item`.
    fn finish_item(&self, item: &mut ItemBody) {
        let (usage, reported) = self.reported();
        item.usage = usage;
        item.metadata = match &item.metadata {
            Some(of_block) => Some(merge_metadata(Some(of_block), reported.as_ref())),
            None => reported,
        };
    }

    /// The usage and the metadata from the end of the response, for a caller without an item that contains them.
    pub fn reported(&self) -> (Option<RawJson>, Option<RawJson>) {
        let usage = self.usage.clone().map(RawJson::from_checked);
        (usage, object(&self.metadata))
    }
}
