//! Blocks become items.

use filrouge_types::{Channel, ItemBody, RawJson, Role};

use super::block::{Block, object, parts};
use super::end::Ended;
use super::transcript::{ReadyItem, Transcript};

/// The channel of events that no decoder knows.
const EVENTS: &str = "stream_events";

impl Transcript {
    /// Takes what has become items: whatever is complete, in order, up to what may still turn out to be the answer or
    /// be told more about. After an end without error that is everything, and after another one what was complete.
    pub fn take_ready(&mut self) -> Vec<ReadyItem> {
        let mut ready = std::mem::take(&mut self.ready);
        match self.ended {
            None => return ready,
            Some(Ended::Answered | Ended::Continues) => {}
            Some(Ended::Failed(_) | Ended::Cancelled) => {
                self.settle();
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
        // What was released may have been taken by now: what is told at the end is not for it.
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
                self.is_told = true;
            }
            ready.push(ReadyItem { number, item });
        }
        ready.extend(self.unknown_item());
        ready
    }

    /// Whether what the response told at its end stands with one of its items.
    #[must_use]
    pub const fn is_told(&self) -> bool {
        self.is_told
    }

    /// An event has been taken in: what is complete by now is not changed by later ones, so that how the bytes came
    /// makes no difference.
    pub fn settle(&mut self) {
        while self.is_front_ready() {
            let Some(block) = self.take_front() else {
                break;
            };
            let number = Some(block.number);
            let item = self.item(block, false);
            self.ready.push(ReadyItem { number, item });
        }
    }

    fn take_front(&mut self) -> Option<Block> {
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
        // What broke off was not told more about; what ended has its last item told of it.
        let cut_off = matches!(self.ended, Some(Ended::Failed(_) | Ended::Cancelled));
        if front.is_answer() {
            return self.steps > 1;
        }
        front.released || cut_off || self.blocks.len() > 1
    }

    /// The events that nobody knew, as an item.
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

    fn item(&self, block: Block, answer: bool) -> ItemBody {
        let (role, mut channel) = block.place();
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

    /// What the response told at its end stands with its last item.
    fn finish_item(&self, item: &mut ItemBody) {
        item.usage = self.usage.clone().map(RawJson::from_checked);
        let own = item.metadata.take();
        let told = object(&self.metadata);
        item.metadata = match (own, told) {
            (Some(own), told) => Some(filrouge_store::read::merged(Some(&own), told.as_ref())),
            (None, told) => told,
        };
    }

    /// What the response has told for its last item, for when there is none: usage and metadata.
    #[must_use]
    pub fn told(&self) -> (Option<RawJson>, Option<RawJson>) {
        let usage = self.usage.clone().map(RawJson::from_checked);
        (usage, object(&self.metadata))
    }
}
