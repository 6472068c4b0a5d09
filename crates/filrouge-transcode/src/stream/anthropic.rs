//! Decodes Anthropic's Messages: events up to `message_stop`, complete messages, and errors in either.

use std::collections::BTreeMap;

use filrouge_engine::stream::{StreamEnd, Transcript};
use filrouge_types::{RawJson, merge_objects, merge_patch};

use super::json::{self, Raw};
use super::provider_error::{error_in, provider_error};

mod block;
mod wire;

use block::Block;
use wire::{Event, Message};

/// The decoder of one response.
#[derive(Default)]
pub(super) struct Messages {
    /// The incomplete blocks, by index.
    open_blocks: BTreeMap<u64, Block>,
    /// The number of characters of the newest text up to a position, so that no character is counted twice.
    char_count: block::CharCount,
    has_begun: bool,
    /// Whether the message has a call of a tool that the caller runs.
    has_calls: bool,
    /// The token counts at the beginning of the message, and the newest ones after it.
    usage: [Option<RawJson>; 2],
    /// The reason why the message stop_error, escaped as in a JSON string.
    stop_reason: Option<String>,
}

impl super::EventDecoder for Messages {
    fn decode_event(&mut self, name: &str, data: &str, out: &mut Transcript) {
        let data = data.trim();
        let Some(event) = json::read_object::<Event<'_>>(data) else {
            return out.unknown(data);
        };
        if !self.decode(name, &event, data, out) {
            out.unknown(data);
        }
    }

    fn end(&mut self, out: &mut Transcript) {
        if self.stop_reason.is_some() {
            self.conclude(out);
        } else {
            self.record_held_back(out);
        }
    }
}

impl Messages {
    /// Decodes an event; `false` if its type is unknown or its shape is wrong.
    fn decode(&mut self, name: &str, event: &Event<'_>, data: &str, out: &mut Transcript) -> bool {
        match json::nonempty_string(event.kind).unwrap_or(name) {
            "content_block_delta" => {
                let block = event
                    .index
                    .and_then(|index| self.open_blocks.get_mut(&index));
                match (block, &event.delta) {
                    (Some(block), Some(delta)) => block.add_delta(delta, out),
                    _ => false,
                }
            }
            "content_block_start" => match (event.index, json::non_null(event.content_block)) {
                (Some(index), Some(block)) => self.begin_block(index, block, out),
                _ => false,
            },
            "content_block_stop" => {
                let block = self.open_blocks.remove(&event.index.unwrap_or_default());
                let finished = block.map(|block| block.finish(&mut self.char_count, out));
                finished.is_some()
            }
            "message_start" => {
                let message = json::non_null(event.message).and_then(json::read);
                message.is_some_and(|message| self.decode_message(&message, out))
            }
            "message_delta" => self.decode_message_delta(event, out),
            "message_stop" => {
                if self.has_begun {
                    self.conclude(out);
                }
                true
            }
            "message" => {
                let message = json::read(data);
                let known = message.is_some_and(|message| self.decode_message(&message, out));
                if known {
                    self.conclude(out);
                }
                known
            }
            "ping" => true,
            // The error in an event, or an event that consists of an error, as gateways send it.
            _ => {
                let error = json::non_null(event.error).map(provider_error);
                let error = error.or_else(|| error_in(name, data));
                let known = error.is_some();
                if let Some(error) = error {
                    self.record_held_back(out);
                    out.end(StreamEnd::Failed(error));
                }
                known
            }
        }
    }

    /// Begins the block at an index; `false` if its kind or shape is unknown.
    fn begin_block(&mut self, index: u64, block: &str, out: &mut Transcript) -> bool {
        // A new block at this index ends the earlier one, even without its end event.
        if let Some(earlier) = self.open_blocks.remove(&index) {
            earlier.finish(&mut self.char_count, out);
        }
        let Some((block, is_call)) = Block::begin(block, out) else {
            return false;
        };
        self.has_calls |= is_call;
        self.open_blocks.insert(index, block);
        true
    }

    /// Decodes a message: its beginning, or a complete one; `false` if a part of it has an unknown shape.
    fn decode_message(&mut self, message: &Message<'_>, out: &mut Transcript) -> bool {
        self.has_begun = true;
        if let Some(id) = json::nonempty_string(message.id) {
            out.set_metadata("response_id", &format!("\"{id}\""));
        }
        if let Some(model) = json::decoded_string(message.model) {
            out.model(&model);
        }
        let mut known = true;
        for raw in message.content.iter().flatten() {
            match raw.and_then(|raw| Block::begin(raw.get(), out)) {
                Some((block, is_call)) => {
                    self.has_calls |= is_call;
                    block.finish(&mut self.char_count, out);
                }
                None => known = false,
            }
        }
        let usage = json_object(message.usage);
        known &= usage.is_some() || json::non_null(message.usage).is_none();
        if let Some(usage) = usage {
            out.usage(usage.as_str());
            self.usage = [Some(usage), None];
        }
        json::set_metadata(
            [
                ("stop_sequence", message.stop_sequence),
                ("stop_details", message.stop_details),
                ("container", message.container),
                ("context_management", message.context_management),
                ("input_transformations", message.input_transformations),
            ],
            out,
        );
        if let Some(reason) = json::nonempty_string(message.stop_reason) {
            self.stop_reason = Some(reason.to_owned());
        }
        known
    }

    /// Decodes an addition to the message itself: its stop reason and token counts.
    fn decode_message_delta(&mut self, event: &Event<'_>, out: &mut Transcript) -> bool {
        let Some(delta) = &event.delta else {
            return false;
        };
        json::set_metadata(
            [
                ("stop_sequence", delta.stop_sequence),
                ("stop_details", delta.stop_details),
                ("container", delta.container),
                ("context_management", event.context_management),
                ("input_transformations", event.input_transformations),
            ],
            out,
        );
        let usage = json_object(event.usage);
        let known = usage.is_some() || json::non_null(event.usage).is_none();
        if usage.is_some() {
            self.usage[1] = usage;
        }
        if let Some(reason) = json::nonempty_string(delta.stop_reason) {
            self.stop_reason = Some(reason.to_owned());
        }
        known
    }

    /// Ends all open blocks, and records what was held back for their end or for the end of the message.
    fn record_held_back(&mut self, out: &mut Transcript) {
        for block in self.open_blocks.values_mut() {
            block.record_held_back(&mut self.char_count, out);
        }
        self.open_blocks.clear();
        // Counts at the end override those at the beginning; a count that is missing at the end keeps its first value.
        let usage = match &self.usage {
            [Some(first), Some(last)] => {
                let last_counts = merge_patch(&RawJson::from_checked("{}"), last);
                Some(merge_objects(first, &last_counts))
            }
            [first, last] => last.clone().or_else(|| first.clone()),
        };
        if let Some(usage) = usage {
            out.usage(usage.as_str());
        }
    }

    /// Ends the response as its stop reason states.
    fn conclude(&mut self, out: &mut Transcript) {
        self.record_held_back(out);
        let stop = self.stop_reason.as_deref();
        let standard = stop.map(standard_reason);
        if let (Some(standard), Some(stop)) = (standard, stop) {
            out.set_metadata("finish_reason", &format!("\"{standard}\""));
            if standard != stop {
                out.set_metadata("provider_finish_reason", &format!("\"{stop}\""));
            }
        }
        let end = match (standard, stop) {
            // A response that a filter cut off must not be continued.
            (Some("content_filter"), _) => StreamEnd::Answered,
            (Some("tool_calls"), _) | (_, Some("pause_turn" | "compaction")) => {
                StreamEnd::Continues
            }
            _ if self.has_calls => StreamEnd::Continues,
            _ => StreamEnd::Answered,
        };
        out.end(end);
    }
}

/// The standard finish reason that corresponds to a reason of Anthropic.
fn standard_reason(reason: &str) -> &'static str {
    match reason {
        "end_turn" | "stop_sequence" => "stop",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" => "tool_calls",
        "refusal" => "content_filter",
        _ => "other",
    }
}

/// A value that is an object and not nested too deep.
fn json_object(raw: Raw<'_>) -> Option<RawJson> {
    let json = RawJson::parse(json::non_null(raw)?).ok()?;
    json.is_object().then_some(json)
}
