//! Decodes OpenAI's Chat Completions and the variants of compatible servers: chunks up to `[DONE]`, complete responses,
//! and errors in either.

use std::collections::BTreeMap;

use filrouge_engine::stream::{StreamEnd, Transcript};

use super::json::{self, Raw};
use super::provider_error::{provider_error, stop_error};

mod calls;
mod choice;
mod reasoning;
mod wire;

use choice::Choice;
use wire::Chunk;

/// The decoder of one response.
#[derive(Default)]
pub(super) struct Chat {
    choices: BTreeMap<u32, Choice>,
    /// The response's id, escaped as in a JSON string. A call without an id gets one that derives from it.
    id: String,
    /// Whether a list of choices has arrived, possibly an empty one.
    has_choices: bool,
    is_model_recorded: bool,
    /// The names of the recorded members that every chunk repeats.
    recorded: Vec<&'static str>,
    /// The newest sources. Every chunk repeats them, so they are recorded only at the end of the response.
    citations: Option<String>,
    search_results: Option<String>,
}

impl super::EventDecoder for Chat {
    fn decode_event(&mut self, _name: &str, data: &str, out: &mut Transcript) {
        let data = data.trim();
        if data == "[DONE]" {
            if self.has_choices {
                self.conclude(out);
            }
            return;
        }
        let Some(chunk) = json::read_object::<Chunk<'_>>(data).filter(Chunk::is_known) else {
            return out.unknown(data);
        };
        if !self.decode(&chunk, out) {
            out.unknown(data);
        }
        let error = json::non_null(chunk.error)
            .or_else(|| json::non_null(chunk.x_groq.as_ref()?.error))
            .or_else(|| {
                let mut choices = chunk.choices.iter().flatten();
                choices.find_map(|choice| json::non_null(choice.error))
            })
            .or_else(|| chunk.is_error().then_some(data));
        if let Some(error) = error {
            self.record_sources(out);
            out.end(StreamEnd::Failed(provider_error(error)));
        } else if is_complete(&chunk) {
            self.conclude(out);
        }
    }

    fn end(&mut self, out: &mut Transcript) {
        if !self.choices.is_empty() && self.choices.values().all(|c| c.finish.is_some()) {
            self.conclude(out);
        } else {
            self.record_sources(out);
        }
    }
}

impl Chat {
    /// Decodes a chunk; `false` if anything in it has an unknown shape.
    fn decode(&mut self, chunk: &Chunk<'_>, out: &mut Transcript) -> bool {
        self.record_response_members(chunk, out);
        update(&mut self.citations, chunk.citations);
        update(&mut self.search_results, chunk.search_results);
        let mut all_known = true;
        for part in chunk.choices.iter().flatten() {
            let index = part.index.unwrap_or(0);
            let choice = self
                .choices
                .entry(index)
                .or_insert_with(|| Choice::new(index));
            // `delta` wins: some servers send the new text there, and next to it a `message` with the entire text so
            // far.
            if let Some(message) = part.delta.as_ref().or(part.message.as_ref()) {
                all_known &= choice.decode(message, &self.id, out);
            }
            if let Some(reason) = json::nonempty_string(part.finish_reason) {
                let native = json::nonempty_string(part.native_finish_reason);
                choice.end(reason, native, out);
            }
            all_known &= record_usage(part.usage, out);
        }
        all_known &= record_usage(chunk.x_groq.as_ref().and_then(|groq| groq.usage), out);
        all_known &= record_usage(chunk.usage, out);
        self.has_choices |= chunk.choices.is_some();
        all_known
    }

    /// Records the members that describe the response. Those that every chunk repeats are recorded once.
    fn record_response_members(&mut self, chunk: &Chunk<'_>, out: &mut Transcript) {
        if self.id.is_empty()
            && let Some(id) = json::nonempty_string(chunk.id)
        {
            id.clone_into(&mut self.id);
            out.set_metadata("response_id", &format!("\"{id}\""));
        }
        if !self.is_model_recorded
            && let Some(model) = json::decoded_string(chunk.model).filter(|model| !model.is_empty())
        {
            self.is_model_recorded = true;
            out.model(&model);
        }
        for (name, raw) in [
            ("system_fingerprint", chunk.system_fingerprint),
            ("service_tier", chunk.service_tier),
        ] {
            if !self.recorded.contains(&name)
                && let Some(value) = json::non_null(raw)
            {
                self.recorded.push(name);
                out.set_metadata(name, &json::storable(value));
            }
        }
        json::set_metadata(
            [
                ("prompt_filter_results", chunk.prompt_filter_results),
                ("moderation", chunk.moderation),
            ],
            out,
        );
    }

    fn record_sources(&mut self, out: &mut Transcript) {
        let sources = [
            ("citations", self.citations.take()),
            ("search_results", self.search_results.take()),
        ];
        for (name, raw) in sources {
            if let Some(raw) = raw {
                out.set_metadata(name, &json::storable(&raw));
            }
        }
    }

    /// Ends the response; its first choice decides how.
    fn conclude(&mut self, out: &mut Transcript) {
        self.record_sources(out);
        let first = self.choices.get(&0);
        let has_calls = first.is_some_and(Choice::has_calls);
        let end = match first.and_then(|choice| choice.finish.as_ref()) {
            Some(finish) if finish.is_failure => {
                StreamEnd::Failed(stop_error(&finish.word, None, true))
            }
            Some(finish) if finish.standard == "cancelled" => StreamEnd::Cancelled,
            // A response that a filter cut off must not be continued.
            Some(finish) if finish.standard == "content_filter" => StreamEnd::Answered,
            Some(finish) if has_calls || finish.standard == "tool_calls" => StreamEnd::Continues,
            None if has_calls => StreamEnd::Continues,
            _ => StreamEnd::Answered,
        };
        out.end(end);
    }
}

/// Whether this is a complete response, which was not streamed, so that nothing follows. Its label `chat.completion`
/// does not prove it, because some servers label chunks so.
fn is_complete(chunk: &Chunk<'_>) -> bool {
    let choices = chunk.choices.as_deref().unwrap_or_default();
    match json::nonempty_string(chunk.object) {
        Some("chat.completion.chunk") => false,
        object if choices.is_empty() => {
            object == Some("chat.completion") && chunk.choices.is_some()
        }
        _ => choices
            .iter()
            .all(|c| c.message.is_some() && c.delta.is_none()),
    }
}

/// Replaces a stored value if the new one is present and different.
fn update(stored: &mut Option<String>, raw: Raw<'_>) {
    if let Some(value) = json::non_null(raw)
        && stored.as_deref() != Some(value)
    {
        *stored = Some(value.to_owned());
    }
}

/// Records token counts; `false` if they are not an object or nested too deep.
fn record_usage(raw: Raw<'_>, out: &mut Transcript) -> bool {
    let Some(usage) = json::non_null(raw).map(json::storable) else {
        return true;
    };
    let known = usage.starts_with('{');
    if known {
        out.usage(&usage);
    }
    known
}
