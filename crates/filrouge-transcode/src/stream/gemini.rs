//! Decodes Gemini's streamGenerateContent, as events or as a JSON array, and generateContent (REST reference,
//! GenerateContentResponse).
//!
//! The format has no terminal event. The finish reason arrives with some part of the answer, and citations or usage may
//! follow it. So a response ends only when its input ends.
//!
//! A call without an id gets one that derives from its position: `call_RESPONSEID_0` and so on, or `call_0` if the
//! response has no `responseId`. A turn may have several responses, and the response's id distinguishes their calls.

use std::collections::BTreeMap;

use filrouge_engine::stream::{Ended, StreamError, Transcript};
use filrouge_types::RawJson;
use serde_json::value::RawValue;

use super::json::{self, Raw};
use super::provider_error::{error_in, provider_error, stopped};

mod candidate;
mod part;
mod partial;

use candidate::{Candidate, Finish};

/// The maximum number of candidates that are distinguished; the API returns up to 8.
const MAX_CANDIDATES: u32 = 1000;

#[derive(Default)]
pub(super) struct Gemini {
    candidates: BTreeMap<u32, Candidate>,
    calls: Calls,
}

/// Assigns ids to calls without one.
#[derive(Default)]
struct Calls {
    /// The response's id, escaped as in a JSON string.
    response: String,
    count: u64,
}

impl Calls {
    /// The id of the next call, as a JSON string: its own id, else a derived one.
    fn id(&mut self, id: Raw<'_>) -> String {
        let position = self.count;
        self.count += 1;
        match json::token(id).filter(|token| *token != "\"\"") {
            Some(id) => id.to_owned(),
            None if self.response.is_empty() => format!("\"call_{position}\""),
            None => format!("\"call_{}_{position}\"", self.response),
        }
    }
}

json::members! {
    #[serde(rename_all = "camelCase")]
    Response {
        candidates: Option<Vec<CandidateChunk<'a>>>, prompt_feedback, usage_metadata, model_version, response_id,
        error,
    }

    /// A piece of a candidate, in one event.
    #[serde(rename_all = "camelCase")]
    CandidateChunk {
        index: Option<u32>, content: Option<Content<'a>>, finish_reason, finish_message, citation_metadata,
        grounding_metadata, url_context_metadata,
    }

    Content { parts: Option<Vec<&'a RawValue>> }

    #[serde(rename_all = "camelCase")]
    Feedback { block_reason, block_reason_message }
}

impl super::Events for Gemini {
    fn event(&mut self, name: &str, data: &str, out: &mut Transcript) {
        // Proxies end this stream with the marker of chat completions.
        if data.trim() == "[DONE]" {
            return;
        }
        let known = json::read(data).is_some_and(|response| self.take(&response, out));
        if known {
            return;
        }
        match error_in(name, data) {
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
    /// Decodes a piece of a response; `false` if it has no member of a response.
    fn take(&mut self, response: &Response<'_>, out: &mut Transcript) -> bool {
        if let Some(model) = json::plain(response.model_version) {
            out.model(&model);
        }
        if let Some(id) = json::inner(response.response_id)
            && self.calls.response.is_empty()
        {
            id.clone_into(&mut self.calls.response);
            out.set_metadata("response_id", &format!("\"{id}\""));
        }
        if let Some(usage) = json::value(response.usage_metadata) {
            out.usage(&json::kept(usage));
        }
        for chunk in response.candidates.iter().flatten() {
            let index = chunk.index.unwrap_or_default();
            if index >= MAX_CANDIDATES {
                return false;
            }
            let candidate = self.candidates.entry(index).or_default();
            candidate.take(index, chunk, &mut self.calls, out);
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

/// Ends the response of a blocked prompt, which has no answer.
fn blocked(raw: &str, out: &mut Transcript) {
    let Some(feedback) = json::read::<Feedback<'_>>(raw) else {
        return out.unknown(raw);
    };
    let Some(reason) = json::plain(feedback.block_reason) else {
        return;
    };
    if let Some(word) = json::token(feedback.block_reason) {
        let finish = Finish::of(word, None);
        finish.set_metadata("\"content_filter\"", out);
    }
    let error = stopped(&reason, feedback.block_reason_message, false);
    out.end(Ended::Failed(StreamError {
        raw: RawJson::parse(raw).ok(),
        ..error
    }));
}
