//! One candidate answer of a response.

use std::collections::BTreeSet;

use filrouge_engine::stream::{PieceId, StreamEnd, Transcript};
use serde_json::value::RawValue;

use super::part::{Destination, Part};
use super::partial::PartialArgs;
use super::{CallIds, CandidateChunk};
use crate::stream::json::{self, Raw};
use crate::stream::provider_error::stop_error;

/// The maximum number of sources that an answer cites.
const CITATIONS_MAX: usize = 10_000;

/// The piece that the last parts belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Growing {
    /// A text.
    Text(PieceId),
    /// A thought.
    Thought(PieceId),
}

/// A growing answer.
#[derive(Default)]
pub(super) struct Candidate {
    pub(super) growing: Option<Growing>,
    /// The id, a JSON string, of the newest call that the provider runs and has not answered.
    pub(super) running_call: Option<String>,
    /// A call whose arguments arrive in pieces.
    pub(super) partial: Option<PartialArgs>,
    /// Whether the answer has a call that the caller must answer.
    pub(super) has_open_calls: bool,
    pub(super) finish: Option<Finish>,
    /// The citations that were recorded.
    cited: BTreeSet<String>,
}

/// The reason why an answer ends.
pub(super) struct Finish {
    /// The provider's code, a JSON string.
    reason: String,
    /// The provider's explanation, a JSON string.
    message: Option<String>,
}

json::members! {
    #[serde(rename_all = "camelCase")]
    Citations {
        /// The Gemini API's name.
        citation_sources: Option<Vec<&'a RawValue>>,
        /// Vertex's name.
        citations: Option<Vec<&'a RawValue>>,
    }
}

impl Candidate {
    /// Decodes a piece of the answer.
    pub(super) fn decode(
        &mut self,
        index: u32,
        chunk: &CandidateChunk<'_>,
        call_ids: &mut CallIds,
        out: &mut Transcript,
    ) {
        let parts = chunk.content.as_ref().and_then(|c| c.parts.as_ref());
        for raw in parts.into_iter().flatten() {
            let known = json::read::<Part<'_>>(raw.get()).is_some_and(|part| {
                let mut destination = Destination {
                    index,
                    call_ids,
                    out,
                };
                self.decode_part(raw.get(), &part, &mut destination)
            });
            if !known {
                out.unknown(raw.get());
            }
        }
        self.record_citations(chunk.citation_metadata, out);
        for (name, raw) in [
            ("grounding_metadata", chunk.grounding_metadata),
            ("url_context_metadata", chunk.url_context_metadata),
        ] {
            let Some(value) = json::non_null(raw).filter(|value| *value != "{}") else {
                continue;
            };
            match self.growing_text() {
                Some(text) => out.set_item_metadata(text, name, &json::storable(value)),
                None => out.set_metadata(name, &json::storable(value)),
            }
        }
        if let Some(reason) = json::string_token(chunk.finish_reason) {
            self.finish = Some(Finish::new(reason, chunk.finish_message));
        }
    }

    /// Records each citation once: some models repeat citations with each part of the answer.
    fn record_citations(&mut self, raw: Raw<'_>, out: &mut Transcript) {
        let Some(raw) = json::non_null(raw) else {
            return;
        };
        let Some(citations) = json::read::<Citations<'_>>(raw) else {
            return out.unknown(raw);
        };
        let sources = [citations.citation_sources, citations.citations];
        for source in sources.into_iter().flatten().flatten() {
            let Some(text) = self.growing_text() else {
                out.unknown(source.get());
                continue;
            };
            if self.cited.len() < CITATIONS_MAX && self.cited.insert(source.get().to_owned()) {
                out.add_to_list(text, "citations", json::storable(source.get()));
            }
        }
    }

    /// The growing text, to which citations belong. A completed text may be an item already, so it gets none.
    fn growing_text(&self) -> Option<PieceId> {
        match self.growing {
            Some(Growing::Text(piece)) => Some(piece),
            Some(Growing::Thought(_)) | None => None,
        }
    }

    /// Completes the growing piece.
    pub(super) fn finish_growing(&mut self, out: &mut Transcript) {
        if let Some(Growing::Text(piece) | Growing::Thought(piece)) = self.growing.take() {
            out.finish(piece);
        }
        if let Some(partial) = self.partial.take() {
            partial.finish(out);
        }
    }
}

impl Finish {
    pub(super) fn new(reason: &str, message: Raw<'_>) -> Self {
        Self {
            reason: reason.to_owned(),
            message: json::string_token(message).map(str::to_owned),
        }
    }

    /// Records the standard finish reason, and the provider's unchanged.
    pub(super) fn set_metadata(&self, standard: &str, out: &mut Transcript) {
        out.set_metadata("finish_reason", standard);
        out.set_metadata("provider_finish_reason", &self.reason);
    }

    /// How a response with this finish reason ends. `has_open_calls`: whether it has calls that the caller must
    /// answer.
    pub(super) fn stream_end(&self, has_open_calls: bool, out: &mut Transcript) -> StreamEnd {
        let word = self.reason.trim_matches('"');
        let standard = match word {
            "STOP" if has_open_calls => "\"tool_calls\"",
            "STOP" => "\"stop\"",
            "MAX_TOKENS" => "\"length\"",
            "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
            | "MODEL_ARMOR" => "\"content_filter\"",
            // The answer is unusable, but the model may succeed on a retry.
            "MALFORMED_FUNCTION_CALL"
            | "MALFORMED_RESPONSE"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MISSING_THOUGHT_SIGNATURE" => {
                self.set_metadata("\"other\"", out);
                let message = self.message.as_deref().map(json::read::<&RawValue>);
                return StreamEnd::Failed(stop_error(word, message.flatten(), true));
            }
            _ => "\"other\"",
        };
        self.set_metadata(standard, out);
        if has_open_calls && matches!(word, "STOP" | "MAX_TOKENS") {
            StreamEnd::Continues
        } else {
            StreamEnd::Answered
        }
    }
}
