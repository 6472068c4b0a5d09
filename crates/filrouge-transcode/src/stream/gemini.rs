//! Gemini's streamGenerateContent, as events or as a JSON array, and generateContent (REST reference,
//! GenerateContentResponse).
//!
//! The format has no terminal event: a reason to finish is told with some part of the answer, and what it cites or used
//! may follow. So a response ends with its bytes.
//!
//! A call without an id gets one from its place: `call_RESPONSEID_0` and so on, or `call_0` without a `responseId`; a
//! turn may hold several responses, whose calls differ so.

use std::collections::BTreeMap;

use filrouge_engine::stream::{Ended, StreamError, Transcript};
use filrouge_types::RawJson;
use serde_json::value::RawValue;

use super::json::{self, Raw};
use super::provider_error::{provider_error, stopped, told};

mod candidate;
mod part;
mod partial;

use candidate::{Candidate, Finish};

/// Most candidates that are told apart; the API gives 8.
const MOST: u32 = 1000;

#[derive(Default)]
pub(super) struct Gemini {
    candidates: BTreeMap<u32, Candidate>,
    calls: Calls,
}

/// Names calls that have no id.
#[derive(Default)]
struct Calls {
    /// The response's id, as spelled inside a JSON string.
    response: String,
    count: u64,
}

impl Calls {
    /// The id of a call, a JSON string.
    fn id(&mut self, told: Raw<'_>) -> String {
        let place = self.count;
        self.count += 1;
        match json::token(told).filter(|token| *token != "\"\"") {
            Some(id) => id.to_owned(),
            None if self.response.is_empty() => format!("\"call_{place}\""),
            None => format!("\"call_{}_{place}\"", self.response),
        }
    }
}

json::members! {
    #[serde(rename_all = "camelCase")]
    Response {
        candidates: Option<Vec<Told<'a>>>, prompt_feedback, usage_metadata, model_version, response_id,
        error,
    }

    /// A candidate of an event.
    #[serde(rename_all = "camelCase")]
    Told {
        index: Option<u32>, content: Option<Content<'a>>, finish_reason, finish_message, citation_metadata,
        grounding_metadata, url_context_metadata,
    }

    Content { parts: Option<Vec<&'a RawValue>> }

    #[serde(rename_all = "camelCase")]
    Feedback { block_reason, block_reason_message }
}

impl super::Events for Gemini {
    fn event(&mut self, name: &str, data: &str, out: &mut Transcript) {
        // Proxies end this stream as that of chat completions ends.
        if data.trim() == "[DONE]" {
            return;
        }
        let known = json::read(data).is_some_and(|response| self.take(&response, out));
        if known {
            return;
        }
        match told(name, data) {
            Some(error) => out.end(Ended::Failed(error)),
            None => out.unknown(data),
        }
    }

    fn end(&mut self, out: &mut Transcript) {
        let Some(first) = self.candidates.get_mut(&0) else {
            return;
        };
        let Some(finish) = first.finish.take() else {
            return;
        };
        let ended = finish.ended(first.waits, out);
        out.end(ended);
    }
}

impl Gemini {
    /// Takes a part of a response; `false` when it is none.
    fn take(&mut self, response: &Response<'_>, out: &mut Transcript) -> bool {
        if let Some(model) = json::plain(response.model_version) {
            out.model(&model);
        }
        if let Some(id) = json::inner(response.response_id)
            && self.calls.response.is_empty()
        {
            id.clone_into(&mut self.calls.response);
            out.tell("response_id", &format!("\"{id}\""));
        }
        if let Some(usage) = json::value(response.usage_metadata) {
            out.usage(&json::kept(usage));
        }
        for told in response.candidates.iter().flatten() {
            let index = told.index.unwrap_or_default();
            if index >= MOST {
                return false;
            }
            let candidate = self.candidates.entry(index).or_default();
            candidate.take(index, told, &mut self.calls, out);
        }
        if let Some(error) = json::value(response.error) {
            out.end(Ended::Failed(provider_error(error)));
        } else if let Some(feedback) = json::value(response.prompt_feedback) {
            blocked(feedback, out);
        }
        response.candidates.is_some()
            || [
                response.prompt_feedback,
                response.usage_metadata,
                response.model_version,
                response.response_id,
                response.error,
            ]
            .iter()
            .any(Option::is_some)
    }
}

/// A prompt that is blocked has no answer.
fn blocked(raw: &str, out: &mut Transcript) {
    let Some(feedback) = json::read::<Feedback<'_>>(raw) else {
        return out.unknown(raw);
    };
    let Some(reason) = json::plain(feedback.block_reason) else {
        return;
    };
    if let Some(word) = json::token(feedback.block_reason) {
        let finish = Finish::of(word, None);
        finish.tell("\"content_filter\"", out);
    }
    let error = stopped(&reason, feedback.block_reason_message, false);
    out.end(Ended::Failed(StreamError {
        raw: RawJson::parse(raw).ok(),
        ..error
    }));
}
