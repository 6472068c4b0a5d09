//! Decodes OpenAI's Responses: the events of a stream, or one complete response (API reference, "Streaming events").
//!
//! Output items are identified by `output_index`, because proxies give an item another `id` in each event. A complete
//! text that repeats its deltas adds only the text that is missing.

use std::collections::BTreeSet;

use filrouge_engine::stream::{StreamEnd, Transcript};
use filrouge_store::draft::PieceKind;
use serde_json::value::RawValue;

use super::json;
use super::provider_error;

mod items;
mod message;
mod tools;

use items::Items;

#[derive(Default)]
pub(super) struct Responses {
    items: Items,
}

json::members! {
    /// The members read from any event, or from a complete response.
    Event {
        kind = "type", object, response, item, item_id, output_index: Option<u64>,
        content_index: Option<u64>, summary_index: Option<u64>, part, delta, text, refusal, arguments,
        input, annotation,
    }

    Response {
        id, model, status, usage, error, incomplete_details, service_tier, output,
    }

    Incomplete { reason }
}

impl super::EventDecoder for Responses {
    fn decode_event(&mut self, name: &str, data: &str, out: &mut Transcript) {
        // Proxies end this stream with the marker of chat completions.
        if data.trim() == "[DONE]" {
            return;
        }
        let known = json::read(data).is_some_and(|event| self.decode(name, data, &event, out));
        if !known {
            out.unknown(data);
        }
    }

    /// A response ends only with its terminal event.
    fn end(&mut self, _out: &mut Transcript) {}
}

impl Responses {
    /// Decodes an event; `false` if its type is unknown or its shape is wrong.
    fn decode(&mut self, name: &str, data: &str, event: &Event<'_>, out: &mut Transcript) -> bool {
        if json::string_content(event.object) == Some("response") {
            return self.decode_response(data, None, out);
        }
        let kind = json::string_content(event.kind).unwrap_or(name);
        let kind = kind.strip_prefix("response.").unwrap_or(kind);
        if let Some(known) = self.decode_item_event(kind, event, out) {
            return known;
        }
        let response = event.response.map(RawValue::get);
        let decode_response = |this: &mut Self, status, out: &mut Transcript| {
            response.is_some_and(|response| this.decode_response(response, status, out))
        };
        match kind {
            "output_item.added" => self.items.begin_item(event, out),
            "output_item.done" => self.items.end_item(event, out),
            "created" | "in_progress" | "queued" => decode_response(self, Some("in_progress"), out),
            "completed" | "incomplete" | "failed" | "cancelled" => {
                decode_response(self, Some(kind), out)
            }
            _ if is_progress(kind) => true,
            // The event is an error, whose members are in the event itself or in its member `error`, or it is the body
            // of a refused request.
            _ => provider_error::error_in(name, data)
                .map(|error| out.end(StreamEnd::Failed(error)))
                .is_some(),
        }
    }

    /// Decodes an event of one output item; `None` for other events.
    fn decode_item_event(
        &mut self,
        kind: &str,
        event: &Event<'_>,
        out: &mut Transcript,
    ) -> Option<bool> {
        let items = &mut self.items;
        Some(match kind {
            "output_text.delta" => items.add_text(event, PieceKind::Text, out),
            "refusal.delta" => items.add_text(event, PieceKind::Refusal, out),
            "output_text.done" => items.complete_text(event, PieceKind::Text, event.text, out),
            "refusal.done" => items.complete_text(event, PieceKind::Refusal, event.refusal, out),
            "content_part.added" => items.begin_part(event, out),
            "content_part.done" => items.end_part(event, out),
            "output_text.annotation.added" => items.record_annotation(event, out),
            "function_call_arguments.delta"
            | "custom_tool_call_input.delta"
            | "mcp_call_arguments.delta"
            | "mcp_call.arguments.delta" => items.add_arguments(event, out),
            "function_call_arguments.done"
            | "mcp_call_arguments.done"
            | "mcp_call.arguments.done" => items.complete_arguments(event, event.arguments, out),
            "custom_tool_call_input.done" => items.complete_arguments(event, event.input, out),
            "code_interpreter_call_code.delta" => items.add_code(event, out),
            "code_interpreter_call_code.done" => true,
            "reasoning_summary_text.delta" => {
                items.add_reasoning(event, false, event.summary_index, out)
            }
            "reasoning_text.delta" => items.add_reasoning(event, true, event.content_index, out),
            _ => return None,
        })
    }

    /// Decodes a response object; `false` if its shape is wrong. `status` is the status that the event's type names, if
    /// any.
    fn decode_response(&mut self, raw: &str, status: Option<&str>, out: &mut Transcript) -> bool {
        let Some(response) = json::read::<Response<'_>>(raw) else {
            return false;
        };
        if let Some(model) = json::decoded_string(response.model) {
            out.model(&model);
        }
        json::set_metadata_string(out, "response_id", response.id);
        let status = status
            .or(json::string_content(response.status))
            .unwrap_or_default();
        let ends = ["completed", "incomplete", "failed", "cancelled"];
        if !ends.contains(&status) {
            return ["in_progress", "queued"].contains(&status);
        }
        if let Some(output) = json::non_null(response.output) {
            self.items.complete_all(output, out);
        }
        if let Some(usage) = json::non_null(response.usage) {
            out.usage(&json::storable(usage));
        }
        json::set_metadata_string(out, "service_tier", response.service_tier);
        let end = self.stream_end(&response, status, out);
        out.end(end);
        true
    }

    /// Returns how a response with this status ends, and records its finish reason.
    fn stream_end(&self, response: &Response<'_>, status: &str, out: &mut Transcript) -> StreamEnd {
        let finish = match status {
            "failed" => {
                let error = json::non_null(response.error).unwrap_or("{}");
                return StreamEnd::Failed(provider_error::provider_error(error));
            }
            "cancelled" => "\"cancelled\"",
            "incomplete" => {
                let details = response.incomplete_details.map(RawValue::get);
                let details = details.and_then(json::read::<Incomplete<'_>>);
                let reason = details.and_then(|d| d.reason);
                json::set_metadata_string(out, "provider_finish_reason", reason);
                match json::string_content(reason) {
                    Some("max_output_tokens" | "max_tokens") => "\"length\"",
                    Some("content_filter") => "\"content_filter\"",
                    _ => "\"other\"",
                }
            }
            _ if self.items.has_open_calls() => "\"tool_calls\"",
            _ => "\"stop\"",
        };
        out.set_metadata("finish_reason", finish);
        match finish {
            "\"cancelled\"" => StreamEnd::Cancelled,
            "\"tool_calls\"" => StreamEnd::Continues,
            // The caller can answer the complete calls, and the model can repeat the call that was cut off.
            "\"length\"" if self.items.has_open_calls() => StreamEnd::Continues,
            _ => StreamEnd::Answered,
        }
    }
}

/// Whether an event only reports progress and adds nothing to its item.
fn is_progress(kind: &str) -> bool {
    const PREFIXES: [&str; 9] = [
        "web_search_call.",
        "file_search_call.",
        "code_interpreter_call.",
        "mcp_call.",
        "mcp_list_tools.",
        // Partial images are only previews of the item's image.
        "image_generation_call.",
        "reasoning_summary_part.",
        "reasoning_summary_text.",
        "reasoning_text.",
    ];
    kind == "keepalive" || PREFIXES.iter().any(|prefix| kind.starts_with(prefix))
}

/// The ids of calls whose result the caller must send, as JSON strings.
type OpenCalls = BTreeSet<String>;
