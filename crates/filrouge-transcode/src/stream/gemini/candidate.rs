//! One of the answers of a response.

use std::collections::BTreeSet;

use filrouge_engine::stream::{Ended, PieceNo, Transcript};
use serde_json::value::RawValue;

use super::part::{Part, Tool};
use super::partial::Partial;
use super::{Calls, Told};
use crate::stream::json::{self, Raw};
use crate::stream::provider_error::stopped;

/// Most sources that an answer cites.
const MOST: usize = 10_000;

/// What the last parts have made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Growing {
    /// A text.
    Said(PieceNo),
    /// A thought.
    Thought(PieceNo),
}

/// An answer while it grows.
#[derive(Default)]
pub(super) struct Candidate {
    pub(super) growing: Option<Growing>,
    /// The last call of the provider's own: its id, a JSON string.
    pub(super) running: Option<String>,
    /// A call whose arguments come in pieces.
    pub(super) partial: Option<Partial>,
    /// Whether a call waits for the caller.
    pub(super) waits: bool,
    pub(super) finish: Option<Finish>,
    cited: BTreeSet<String>,
}

/// Why an answer ends.
pub(super) struct Finish {
    /// The provider's word, a JSON string.
    reason: String,
    /// What it says about it, a JSON string.
    message: Option<String>,
}

json::members! {
    #[serde(rename_all = "camelCase")]
    Citations {
        /// As the Gemini API names them.
        citation_sources: Option<Vec<&'a RawValue>>,
        /// As Vertex names them.
        citations: Option<Vec<&'a RawValue>>,
    }
}

impl Candidate {
    pub(super) fn take(
        &mut self,
        index: u32,
        told: &Told<'_>,
        calls: &mut Calls,
        out: &mut Transcript,
    ) {
        let parts = told.content.as_ref().and_then(|c| c.parts.as_ref());
        for raw in parts.into_iter().flatten() {
            let known = json::read::<Part<'_>>(raw.get()).is_some_and(|part| {
                let mut tool = Tool { index, calls, out };
                self.part(raw.get(), &part, &mut tool)
            });
            if !known {
                out.unknown(raw.get());
            }
        }
        self.cite(told.citation_metadata, out);
        for (name, raw) in [
            ("grounding_metadata", told.grounding_metadata),
            ("url_context_metadata", told.url_context_metadata),
        ] {
            let Some(value) = json::value(raw).filter(|value| *value != "{}") else {
                continue;
            };
            match self.text() {
                Some(text) => out.note(text, name, &json::kept(value)),
                None => out.tell(name, &json::kept(value)),
            }
        }
        if let Some(reason) = json::token(told.finish_reason) {
            self.finish = Some(Finish::of(reason, told.finish_message));
        }
    }

    /// Keeps what is cited, each once: some models tell it anew with each part of the answer.
    fn cite(&mut self, raw: Raw<'_>, out: &mut Transcript) {
        let Some(raw) = json::value(raw) else { return };
        let Some(told) = json::read::<Citations<'_>>(raw) else {
            return out.unknown(raw);
        };
        for source in told
            .citation_sources
            .iter()
            .chain(&told.citations)
            .flatten()
        {
            let Some(text) = self.text() else {
                out.unknown(source.get());
                continue;
            };
            if self.cited.len() < MOST && self.cited.insert(source.get().to_owned()) {
                out.list(text, "citations", json::kept(source.get()));
            }
        }
    }

    /// The text that citations belong to: one that is done may be an item already.
    fn text(&self) -> Option<PieceNo> {
        match self.growing {
            Some(Growing::Said(piece)) => Some(piece),
            Some(Growing::Thought(_)) | None => None,
        }
    }

    /// Nothing is added to what was growing any more.
    pub(super) fn settle(&mut self, out: &mut Transcript) {
        match self.growing.take() {
            Some(Growing::Said(piece) | Growing::Thought(piece)) => out.finish(piece),
            None => {}
        }
        if let Some(partial) = self.partial.take() {
            partial.end(out);
        }
    }
}

impl Finish {
    pub(super) fn of(reason: &str, message: Raw<'_>) -> Self {
        Self {
            reason: reason.to_owned(),
            message: json::token(message).map(str::to_owned),
        }
    }

    /// Tells a reason by its standard word and, as it came, by the provider's.
    pub(super) fn tell(&self, standard: &str, out: &mut Transcript) {
        out.tell("finish_reason", standard);
        out.tell("provider_finish_reason", &self.reason);
    }

    /// How a response ends that is finished for this reason.
    pub(super) fn ended(&self, calls: bool, out: &mut Transcript) -> Ended {
        let word = self.reason.trim_matches('"');
        if is_broken(word) {
            self.tell("\"other\"", out);
            let message = self.message.as_deref().map(json::read::<&RawValue>);
            // The model may well do better when it is asked again.
            return Ended::Failed(stopped(word, message.flatten(), true));
        }
        let standard = match word {
            "STOP" if calls => "\"tool_calls\"",
            "STOP" => "\"stop\"",
            "MAX_TOKENS" => "\"length\"",
            _ if is_filtered(word) => "\"content_filter\"",
            _ => "\"other\"",
        };
        self.tell(standard, out);
        if calls && matches!(word, "STOP" | "MAX_TOKENS") {
            Ended::Continues
        } else {
            Ended::Answered
        }
    }
}

/// Reasons that stand for an answer that nobody can read or go on with.
fn is_broken(word: &str) -> bool {
    const BROKEN: [&str; 5] = [
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
    ];
    BROKEN.contains(&word)
}

fn is_filtered(word: &str) -> bool {
    const FILTERED: [&str; 10] = [
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "MODEL_ARMOR",
    ];
    FILTERED.contains(&word)
}
