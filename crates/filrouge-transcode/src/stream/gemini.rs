//! Decodes Gemini's streamGenerateContent, as events or as a JSON array, and generateContent (REST reference,
//! GenerateContentResponse).
//!
//! The format has no terminal event. The finish reason arrives with some part of the answer, and citations or usage may
//! follow it. So a response ends only when its input ends.
//!
//! A call without an id gets one that derives from its position: `call_RESPONSEID_0` and so on, or `call_0` if the
//! response has no `responseId`. A turn may have several responses, and the response's id distinguishes their calls.

use std::collections::BTreeMap;

use filrouge_engine::stream::{StreamEnd, StreamError, Transcript};
use filrouge_types::RawJson;
use serde_json::value::RawValue;

use super::json::{self, Raw};
use super::provider_error::{error_in, provider_error, stop_error};

mod candidate;
mod part;
mod partial;

use candidate::{Candidate, Finish};

/// The maximum number of candidates that are distinguished; the API returns up to 8.
const CANDIDATES_MAX: u32 = 1000;

#[derive(Default)]
pub(super) struct Gemini {
    candidates: BTreeMap<u32, Candidate>,
    call_ids: CallIds,
}

/// Assigns ids to calls without one.
#[derive(Default)]
struct CallIds {
    /// The response's id, escaped as in a JSON string.
    response_id: String,
    count: u64,
}

impl CallIds {
    /// The id of the next call, as a JSON string: its own id, else a derived one.
    fn assign_id(&mut self, id: Raw<'_>) -> String {
        let position = self.count;
        self.count += 1;
        match json::nonempty_token(id) {
            Some(id) => id.to_owned(),
            None if self.response_id.is_empty() => format!("\"call_{position}\""),
            None => format!("\"call_{}_{position}\"", self.response_id),
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

impl super::EventDecoder for Gemini {
    fn decode_event(&mut self, name: &str, data: &str, out: &mut Transcript) {
        // Proxies end this stream with the marker of chat completions.
        if data.trim() == "[DONE]" {
            return;
        }
        let known = json::read(data).is_some_and(|response| self.decode(&response, out));
        if known {
            return;
        }
        match error_in(name, data) {
            Some(error) => out.end(StreamEnd::Failed(error)),
            None => out.unknown(data),
        }
    }

    fn end(&mut self, out: &mut Transcript) {
        if let Some(first) = self.candidates.get_mut(&0)
            && let Some(finish) = first.finish.take()
        {
            let ended = finish.stream_end(first.has_open_calls, out);
            out.end(ended);
        }
    }
}

impl Gemini {
    /// Decodes a piece of a response; `false` if it has no member of a response.
    fn decode(&mut self, response: &Response<'_>, out: &mut Transcript) -> bool {
        if let Some(model) = json::decoded_string(response.model_version) {
            out.model(&model);
        }
        if let Some(id) = json::string_content(response.response_id)
            && self.call_ids.response_id.is_empty()
        {
            id.clone_into(&mut self.call_ids.response_id);
            out.set_metadata("response_id", &format!("\"{id}\""));
        }
        if let Some(usage) = json::non_null(response.usage_metadata) {
            out.usage(&json::storable(usage));
        }
        for chunk in response.candidates.iter().flatten() {
            let index = chunk.index.unwrap_or_default();
            if index >= CANDIDATES_MAX {
                return false;
            }
            let candidate = self.candidates.entry(index).or_default();
            candidate.decode(index, chunk, &mut self.call_ids, out);
        }
        if let Some(error) = json::non_null(response.error) {
            out.end(StreamEnd::Failed(provider_error(error)));
        } else if let Some(feedback) = json::non_null(response.prompt_feedback) {
            end_blocked(feedback, out);
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
fn end_blocked(raw: &str, out: &mut Transcript) {
    let Some(feedback) = json::read::<Feedback<'_>>(raw) else {
        return out.unknown(raw);
    };
    let Some(reason) = json::decoded_string(feedback.block_reason) else {
        return;
    };
    if let Some(word) = json::string_token(feedback.block_reason) {
        let finish = Finish::new(word, None);
        finish.set_metadata("\"content_filter\"", out);
    }
    let error = stop_error(&reason, feedback.block_reason_message, false);
    out.end(StreamEnd::Failed(StreamError {
        raw: RawJson::parse(raw).ok(),
        ..error
    }));
}
