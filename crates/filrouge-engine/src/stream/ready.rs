//! Turns complete blocks into items.

use filrouge_types::{Channel, ItemBody, RawJson, Role};

use super::block::{StreamBlock, object, parts};
use super::end::Ended;
use super::transcript::{ReadyItem, Transcript};

/// The channel of unknown events.
const EVENTS: &str = "stream_events";

impl Transcript {
    /// Takes the blocks that have become items: all complete ones, in order, up to the first that may still be the answer or
    /// grow. After an end without error these are all blocks; after another end, the complete ones.
    pub fn take_ready(&mut self) -> Vec<ReadyItem> {
        let mut ready = std::mem::take(&mut self.ready);
        match self.ended {
            None => return ready,
            Some(Ended::Answered | Ended::Continues) => {}
            Some(Ended::Failed(_) | Ended::Cancelled) => {
                self.finish_complete_blocks();
                ready.append(&mut self.ready);
                ready.extend(self.unknown_item());
                return ready;
            }
        }
        let by_length =
            |(name, value): &(&str, String)| *name == "finish_reason" && value == "\"length\"";
        if self.metadata.iter().any(by_length)
            && let Some(last) = self.blocks.back_mut()
        {
            last.cut = last.lacks_arguments();
        }
        let answer = match self.ended {
            Some(Ended::Answered) => self.blocks.iter().rfind(|b| b.is_answer()),
            _ => None,
        };
        let answer = answer.map(|b| b.number);
        // A released block may have been taken already, so it does not carry data from the end of the response.
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

    /// Whether one of the items carries the data from the end of the response.
    #[must_use]
    pub const fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Turns complete blocks into items that later events cannot change. Must be called after each event, so that the division
    /// of the stream into chunks makes no difference.
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
        self.held = self.held.saturating_sub(block.held);
        self.version += 1;
        Some(block)
    }

    fn is_front_ready(&self) -> bool {
        let Some(front) = self.blocks.front().filter(|b| b.done) else {
            return false;
        };
        // After a break-off there is no final data to wait for; at a regular end the last item carries it.
        let cut_off = matches!(self.ended, Some(Ended::Failed(_) | Ended::Cancelled));
        if front.is_answer() {
            return self.steps > 1;
        }
        front.released || cut_off || self.blocks.len() > 1
    }

    /// The unknown events as an item.
    fn unknown_item(&mut self) -> Option<ReadyItem> {
        let kept = std::mem::take(&mut self.unknown_kept);
        if kept.is_empty() {
            return None;
        }
        let parts: Vec<String> = kept
            .iter()
            .map(|json| format!(r#"{{"type":"raw_event","event":{json}}}"#))
            .collect();
        let parts = RawJson::from_checked(format!("[{}]", parts.join(",")));
        let item = ItemBody::new(Role::System, Channel::from_word(EVENTS), parts);
        Some(ReadyItem { number: None, item })
    }

    fn item(&self, block: StreamBlock, answer: bool) -> ItemBody {
        let (role, mut channel) = block.role_and_channel();
        if block.is_answer() && !answer {
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

    /// Adds the data from the end of the response to its last item.
    fn finish_item(&self, item: &mut ItemBody) {
        item.usage = self.usage.clone().map(RawJson::from_checked);
        let own = item.metadata.take();
        let reported = object(&self.metadata);
        item.metadata = match (own, reported) {
            (Some(own), reported) => {
                Some(filrouge_store::read::merged(Some(&own), reported.as_ref()))
            }
            (None, reported) => reported,
        };
    }

    /// Usage and metadata from the end of the response, for when there is no last item.
    #[must_use]
    pub fn reported(&self) -> (Option<RawJson>, Option<RawJson>) {
        let usage = self.usage.clone().map(RawJson::from_checked);
        (usage, object(&self.metadata))
    }
}
