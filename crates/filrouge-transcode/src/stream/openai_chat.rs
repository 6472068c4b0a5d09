//! OpenAI's Chat Completions, and what the many servers that speak like it make of it: chunks up to `[DONE]`, whole
//! responses, and errors in either.

use std::collections::BTreeMap;

use filrouge_engine::stream::{Ended, Transcript};

use super::json::{self, Raw};
use super::provider_error::{provider_error, stopped};

mod calls;
mod choice;
mod reasoning;
mod wire;

use choice::Choice;
use wire::Chunk;

/// Reads the events of one response.
#[derive(Default)]
pub(super) struct Chat {
    choices: BTreeMap<u32, Choice>,
    /// The response's id, as spelled inside a JSON string: what calls without an id are named after.
    id: String,
    /// Whether choices have come, be it an empty list of them.
    begun: bool,
    is_model_told: bool,
    is_fingerprint_told: bool,
    is_tier_told: bool,
    /// Sources that every chunk tells again; the last ones are told at the end.
    citations: Option<String>,
    search_results: Option<String>,
}

impl super::Events for Chat {
    fn event(&mut self, _name: &str, data: &str, out: &mut Transcript) {
        let data = data.trim();
        if data == "[DONE]" {
            if self.begun {
                self.conclude(out);
            }
            return;
        }
        // A list could pass for an object without names.
        let chunk: Option<Chunk<'_>> = data.starts_with('{').then(|| json::read(data)).flatten();
        let Some(chunk) = chunk.filter(Chunk::is_known) else {
            return out.unknown(data);
        };
        if !self.take(&chunk, out) {
            out.unknown(data);
        }
        let error = json::value(chunk.error)
            .or_else(|| json::value(chunk.x_groq.as_ref()?.error))
            .or_else(|| {
                let mut choices = chunk.choices.iter().flatten();
                choices.find_map(|choice| json::value(choice.error))
            })
            .or_else(|| chunk.is_error().then_some(data));
        if let Some(error) = error {
            self.tell_sources(out);
            out.end(Ended::Failed(provider_error(error)));
        } else if is_whole(&chunk) {
            self.conclude(out);
        }
    }

    fn end(&mut self, out: &mut Transcript) {
        if !self.choices.is_empty() && self.choices.values().all(|c| c.finish().is_some()) {
            self.conclude(out);
        } else {
            self.tell_sources(out);
        }
    }
}

impl Chat {
    /// Takes what a chunk brings; `false` when there is something in it that has no known shape.
    fn take(&mut self, chunk: &Chunk<'_>, out: &mut Transcript) -> bool {
        self.head(chunk, out);
        keep(&mut self.citations, chunk.citations);
        keep(&mut self.search_results, chunk.search_results);
        let mut whole = true;
        for part in chunk.choices.iter().flatten() {
            let index = part.index.unwrap_or(0);
            let choice = self
                .choices
                .entry(index)
                .or_insert_with(|| Choice::new(index));
            // Some send all that has come so far beside what is new.
            if let Some(message) = part.delta.as_ref().or(part.message.as_ref()) {
                whole &= choice.take(message, &self.id, out);
            }
            if let Some(reason) = json::some(part.finish_reason) {
                choice.stop(reason, json::some(part.native_finish_reason), out);
            }
            whole &= usage(part.usage, out);
        }
        whole &= usage(chunk.x_groq.as_ref().and_then(|groq| groq.usage), out);
        whole &= usage(chunk.usage, out);
        self.begun |= chunk.choices.is_some();
        whole
    }

    /// What stands in every chunk, and need be told once.
    fn head(&mut self, chunk: &Chunk<'_>, out: &mut Transcript) {
        if self.id.is_empty()
            && let Some(id) = json::some(chunk.id)
        {
            id.clone_into(&mut self.id);
            out.tell("response_id", &format!("\"{id}\""));
        }
        if !self.is_model_told
            && let Some(model) = json::plain(chunk.model).filter(|model| !model.is_empty())
        {
            self.is_model_told = true;
            out.model(&model);
        }
        let once = |told: &mut bool, name, raw: Raw<'_>, out: &mut Transcript| {
            if !*told && let Some(value) = json::value(raw) {
                *told = true;
                out.tell(name, &json::kept(value));
            }
        };
        let fingerprint = chunk.system_fingerprint;
        once(
            &mut self.is_fingerprint_told,
            "system_fingerprint",
            fingerprint,
            out,
        );
        once(
            &mut self.is_tier_told,
            "service_tier",
            chunk.service_tier,
            out,
        );
        for (name, raw) in [
            ("prompt_filter_results", chunk.prompt_filter_results),
            ("moderation", chunk.moderation),
        ] {
            if let Some(value) = json::value(raw) {
                out.tell(name, &json::kept(value));
            }
        }
    }

    fn tell_sources(&mut self, out: &mut Transcript) {
        let sources = [
            ("citations", self.citations.take()),
            ("search_results", self.search_results.take()),
        ];
        for (name, raw) in sources {
            if let Some(raw) = raw {
                out.tell(name, &json::kept(&raw));
            }
        }
    }

    /// The response is over: how, its first choice tells.
    fn conclude(&mut self, out: &mut Transcript) {
        self.tell_sources(out);
        let first = self.choices.get(&0);
        let waits = first.is_some_and(Choice::has_calls);
        let ended = match first.and_then(Choice::finish) {
            Some(finish) if finish.is_failure => Ended::Failed(stopped(&finish.word, None, true)),
            Some(finish) if finish.standard == "cancelled" => Ended::Cancelled,
            // What a filter has cut off is not to be gone on with.
            Some(finish) if finish.standard == "content_filter" => Ended::Answered,
            Some(finish) if waits || finish.standard == "tool_calls" => Ended::Continues,
            None if waits => Ended::Continues,
            _ => Ended::Answered,
        };
        out.end(ended);
    }
}

/// Whether nothing follows: a response that was not streamed. Chunks of some servers are called responses, too.
fn is_whole(chunk: &Chunk<'_>) -> bool {
    let choices = chunk.choices.as_deref().unwrap_or_default();
    match json::some(chunk.object) {
        Some("chat.completion.chunk") => false,
        object => match choices {
            [] => object == Some("chat.completion") && chunk.choices.is_some(),
            choices => choices
                .iter()
                .all(|c| c.message.is_some() && c.delta.is_none()),
        },
    }
}

fn keep(kept: &mut Option<String>, raw: Raw<'_>) {
    if let Some(value) = json::value(raw)
        && kept.as_deref() != Some(value)
    {
        *kept = Some(value.to_owned());
    }
}

/// Takes token counts; `false` when they are no object, or nested too deep.
fn usage(raw: Raw<'_>, out: &mut Transcript) -> bool {
    let Some(usage) = json::value(raw).map(json::kept) else {
        return true;
    };
    let known = usage.starts_with('{');
    if known {
        out.usage(&usage);
    }
    known
}
