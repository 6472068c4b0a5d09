//! One answer of a response, which may have several.

use filrouge_engine::stream::{PieceId, Transcript};
use filrouge_store::draft::PieceKind;

use super::calls::Calls;
use super::reasoning::Reasoning;
use super::wire::{Audio, Entry, Message};
use crate::stream::json::{self, Raw};

/// The reason why an answer stopped.
pub(super) struct ChoiceFinish {
    /// The standard finish reason.
    pub(super) standard: &'static str,
    /// The server's finish reason.
    pub(super) word: String,
    pub(super) is_failure: bool,
}

/// The kind of the assistant's text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Text,
    Refusal,
    /// The transcript of audio.
    Speech,
}

/// One answer so far.
#[derive(Default)]
pub(super) struct Choice {
    alternative: u32,
    /// The text that grows, and its kind.
    growing: Option<(TextKind, PieceId)>,
    reasoning: Reasoning,
    calls: Calls,
    /// The piece that began last, of any kind.
    last_piece: Option<PieceId>,
    pub(super) finish: Option<ChoiceFinish>,
}

impl Choice {
    pub(super) fn new(alternative: u32) -> Self {
        Self {
            alternative,
            reasoning: Reasoning::new(alternative),
            ..Self::default()
        }
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Decodes a message or an addition to one; `false` if anything in it has an unknown shape.
    pub(super) fn decode(&mut self, message: &Message<'_>, id: &str, out: &mut Transcript) -> bool {
        let mut all_known = true;
        if Reasoning::is_in(message) {
            self.finish_text(out);
            all_known &= self.reasoning.decode(message, out);
            self.last_piece = self.reasoning.last_piece.or(self.last_piece);
        }
        all_known &= match json::non_null(message.content) {
            None => true,
            Some(list) if list.starts_with('[') => {
                decode_list(message.content, |raw| self.decode_entry(raw, out))
            }
            Some(_) => self.add_text(TextKind::Text, message.content, out),
        };
        all_known &= self.add_text(TextKind::Refusal, message.refusal, out);
        let audio = json::non_null(message.audio);
        all_known &= audio.is_none_or(|audio| self.record_audio(audio, out));
        all_known &= decode_list(message.images, |raw| self.record_complete_part(raw, out));
        all_known &= decode_list(message.annotations, |raw| self.record_annotation(raw, out));
        for call in message.tool_calls.iter().flatten() {
            self.finish_growing(out);
            all_known &= self.calls.decode(call, self.alternative, id, out);
        }
        if let Some(function) = &message.function_call {
            self.finish_growing(out);
            all_known &= self
                .calls
                .decode_function(function, self.alternative, id, out);
        }
        self.last_piece = self.calls.last_piece().or(self.last_piece);
        all_known
    }

    /// Completes the growing text, because content of another kind follows.
    fn finish_text(&mut self, out: &mut Transcript) {
        if let Some((_, piece)) = self.growing.take() {
            out.finish(piece);
        }
    }

    /// Completes the growing text and the growing reasoning.
    fn finish_growing(&mut self, out: &mut Transcript) {
        self.finish_text(out);
        self.reasoning.close(out);
    }

    /// The growing text of this kind; begins one if another kind or nothing grows.
    fn growing_piece(&mut self, text_kind: TextKind, out: &mut Transcript) -> PieceId {
        if let Some((kind, piece)) = self.growing
            && kind == text_kind
        {
            return piece;
        }
        self.reasoning.close(out);
        let kind = match text_kind {
            TextKind::Refusal => PieceKind::Refusal,
            TextKind::Text | TextKind::Speech => PieceKind::Text,
        };
        let piece = out.begin_message(kind, self.alternative, true);
        self.growing = Some((text_kind, piece));
        self.last_piece = Some(piece);
        piece
    }

    /// Adds text; `false` if a value is present and not a string.
    fn add_text(&mut self, text_kind: TextKind, raw: Raw<'_>, out: &mut Transcript) -> bool {
        let Some(text) = json::string_content(raw) else {
            return raw.is_none();
        };
        if text.is_empty() {
            return true;
        }
        let piece = self.growing_piece(text_kind, out);
        out.push(piece, text)
    }

    /// Decodes an entry of a content that is a list, as Mistral sends it.
    fn decode_entry(&mut self, raw: &str, out: &mut Transcript) -> bool {
        let Some(entry) = json::read_object::<Entry<'_>>(raw) else {
            return false;
        };
        match json::nonempty_string(entry.kind) {
            Some("text" | "output_text") => self.add_text(TextKind::Text, entry.text, out),
            Some("refusal") => self.add_text(TextKind::Refusal, entry.refusal, out),
            Some("thinking") => {
                self.finish_text(out);
                let known = self.reasoning.decode_entry(entry.thinking, out);
                self.last_piece = self.reasoning.last_piece.or(self.last_piece);
                known
            }
            Some(_) => self.record_complete_part(raw, out),
            None => false,
        }
    }

    /// Records a part that arrives complete, such as an image.
    fn record_complete_part(&mut self, raw: &str, out: &mut Transcript) -> bool {
        let Some(part) = json::part(raw) else {
            return false;
        };
        self.reasoning.close(out);
        self.growing = None;
        self.last_piece = Some(out.add_part(&part, self.alternative));
        true
    }

    /// Records the transcript of audio as text, and the audio data unchanged with it.
    fn record_audio(&mut self, audio: &str, out: &mut Transcript) -> bool {
        let Some(audio) = json::read_object::<Audio<'_>>(audio) else {
            return false;
        };
        let piece = self.growing_piece(TextKind::Speech, out);
        json::set_string(out, piece, "audio_id", audio.id);
        if let Some(time) = json::non_null(audio.expires_at) {
            out.set(piece, "audio_expires_at", &json::storable(time));
        }
        if let Some(data) = json::nonempty_token(audio.data) {
            out.add_to_list(piece, "audio", data.to_owned());
        }
        json::string_content(audio.transcript).is_none_or(|text| out.push(piece, text))
    }

    /// Records an annotation; its positions count from the beginning of the content.
    fn record_annotation(&mut self, raw: &str, out: &mut Transcript) -> bool {
        let piece = match self.growing {
            Some((_, piece)) => piece,
            None => self.growing_piece(TextKind::Text, out),
        };
        out.add_to_list(piece, "citations", json::storable(raw));
        true
    }

    /// Ends the answer. `reason` is the server's reason, and `native` that of the provider behind it; both are escaped
    /// as in a JSON string.
    pub(super) fn end(&mut self, reason: &str, native: Option<&str>, out: &mut Transcript) {
        let (standard, is_failure) = standard_reason(reason);
        self.calls.end_answer(standard == "length", out);
        let provider_reason = native.unwrap_or(reason);
        let (provider_reason, standard_raw) =
            (format!("\"{provider_reason}\""), format!("\"{standard}\""));
        let mut set_metadata = |name, raw: &str| match (self.alternative, self.last_piece) {
            (0, _) => out.set_metadata(name, raw),
            (_, Some(piece)) => out.set_item_metadata(piece, name, raw),
            _ => {}
        };
        set_metadata("finish_reason", &standard_raw);
        if provider_reason != standard_raw {
            set_metadata("provider_finish_reason", &provider_reason);
        }
        self.finish = Some(ChoiceFinish {
            standard,
            word: reason.to_owned(),
            is_failure,
        });
    }
}

/// Decodes each element of a list that is not `null`; `false` if the value is no list, or if any element is unknown. A
/// missing list has no elements.
fn decode_list(list: Raw<'_>, mut decode: impl FnMut(&str) -> bool) -> bool {
    let Some(list) = json::non_null(list) else {
        return true;
    };
    let Some(raws) = json::read::<Vec<Raw<'_>>>(list) else {
        return false;
    };
    let raws = raws.into_iter().filter_map(json::non_null);
    raws.filter(|raw| !decode(raw)).count() == 0
}

/// The standard finish reason for a server's, and whether it means a failure.
fn standard_reason(reason: &str) -> (&'static str, bool) {
    match reason {
        "stop" | "stop_sequence" | "eos" | "eos_token" | "end_turn" => ("stop", false),
        "length" | "max_tokens" | "model_length" => ("length", false),
        "tool_calls" | "function_call" | "tool_use" => ("tool_calls", false),
        "content_filter" | "sensitive" | "refusal" => ("content_filter", false),
        "abort" | "cancelled" => ("cancelled", false),
        "error" | "network_error" | "insufficient_system_resource" => ("other", true),
        _ => ("other", false),
    }
}
