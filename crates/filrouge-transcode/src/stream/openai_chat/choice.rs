//! One answer of a response, which may have several.

use filrouge_engine::stream::{PieceNo, Transcript};
use filrouge_store::draft::PieceKind;

use super::calls::Calls;
use super::reasoning::Reasoning;
use super::wire::{Audio, Entry, Message};
use crate::stream::json::{self, Raw};

/// The reason why an answer stopped.
pub(super) struct Finish {
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
pub(super) struct Choice {
    alternative: u32,
    /// The text that grows, and its kind.
    growing: Option<(TextKind, PieceNo)>,
    reasoning: Reasoning,
    calls: Calls,
    /// The piece that began last, of any kind.
    last: Option<PieceNo>,
    finish: Option<Finish>,
}

impl Choice {
    pub(super) fn new(alternative: u32) -> Self {
        Self {
            alternative,
            growing: None,
            reasoning: Reasoning::new(alternative),
            calls: Calls::default(),
            last: None,
            finish: None,
        }
    }

    pub(super) const fn finish(&self) -> Option<&Finish> {
        self.finish.as_ref()
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Decodes a message or an addition to one; `false` if anything in it has an unknown shape.
    pub(super) fn take(&mut self, message: &Message<'_>, id: &str, out: &mut Transcript) -> bool {
        let mut all_known = true;
        if Reasoning::is_in(message) {
            self.pause(out);
            all_known &= self.reasoning.take(message, out);
            self.last = self.reasoning.last().or(self.last);
        }
        all_known &= match json::value(message.content) {
            None => true,
            Some(list) if list.starts_with('[') => self.entries(list, out),
            Some(_) => self.say(TextKind::Text, message.content, out),
        };
        all_known &= self.say(TextKind::Refusal, message.refusal, out);
        if let Some(audio) = json::value(message.audio) {
            all_known &= self.speak(audio, out);
        }
        if let Some(images) = json::value(message.images) {
            all_known &= self.images(images, out);
        }
        if let Some(annotations) = json::value(message.annotations) {
            all_known &= self.annotate(annotations, out);
        }
        for call in message.tool_calls.iter().flatten() {
            self.close(out);
            all_known &= self.calls.take(call, self.alternative, id, out);
        }
        if let Some(function) = &message.function_call {
            self.close(out);
            all_known &= self
                .calls
                .take_function(function, self.alternative, id, out);
        }
        self.last = self.calls.last().or(self.last);
        all_known
    }

    /// Completes the growing text, because content of another kind follows.
    fn pause(&mut self, out: &mut Transcript) {
        if let Some((_, piece)) = self.growing.take() {
            out.finish(piece);
        }
    }

    /// Completes the growing text and the growing reasoning.
    fn close(&mut self, out: &mut Transcript) {
        self.pause(out);
        self.reasoning.close(out);
    }

    /// The growing text of this kind; begins one if another kind or nothing grows.
    fn piece(&mut self, text_kind: TextKind, out: &mut Transcript) -> PieceNo {
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
        let piece = out.say(kind, self.alternative, true);
        self.growing = Some((text_kind, piece));
        self.last = Some(piece);
        piece
    }

    /// Adds text; `false` if a value is present and not a string.
    fn say(&mut self, text_kind: TextKind, raw: Raw<'_>, out: &mut Transcript) -> bool {
        let Some(text) = json::inner(raw) else {
            return raw.is_none();
        };
        if text.is_empty() {
            return true;
        }
        let piece = self.piece(text_kind, out);
        out.push(piece, text)
    }

    /// Decodes a content that is a list, as Mistral sends it.
    fn entries(&mut self, list: &str, out: &mut Transcript) -> bool {
        let Some(raws) = json::read::<Vec<Raw<'_>>>(list) else {
            return false;
        };
        let mut all_known = true;
        for raw in raws.into_iter().filter_map(json::value) {
            let entry: Option<Entry<'_>> = raw.starts_with('{').then(|| json::read(raw)).flatten();
            let Some(entry) = entry else {
                all_known = false;
                continue;
            };
            all_known &= match json::some(entry.kind) {
                Some("text" | "output_text") => self.say(TextKind::Text, entry.text, out),
                Some("refusal") => self.say(TextKind::Refusal, entry.refusal, out),
                Some("thinking") => {
                    self.pause(out);
                    let known = self.reasoning.take_entry(entry.thinking, out);
                    self.last = self.reasoning.last().or(self.last);
                    known
                }
                Some(_) => self.say_whole(raw, out),
                None => false,
            };
        }
        all_known
    }

    /// Records a part that arrives complete, such as an image.
    fn say_whole(&mut self, raw: &str, out: &mut Transcript) -> bool {
        let Some(part) = json::part(raw) else {
            return false;
        };
        self.reasoning.close(out);
        self.growing = None;
        self.last = Some(out.say_whole(&part, self.alternative));
        true
    }

    fn images(&mut self, list: &str, out: &mut Transcript) -> bool {
        let Some(raws) = json::read::<Vec<Raw<'_>>>(list) else {
            return false;
        };
        let mut all_known = true;
        for raw in raws.into_iter().filter_map(json::value) {
            all_known &= self.say_whole(raw, out);
        }
        all_known
    }

    /// Records the transcript of audio as text, and the audio data unchanged with it.
    fn speak(&mut self, audio: &str, out: &mut Transcript) -> bool {
        let audio: Option<Audio<'_>> = audio.starts_with('{').then(|| json::read(audio)).flatten();
        let Some(audio) = audio else {
            return false;
        };
        let piece = self.piece(TextKind::Speech, out);
        if let Some(id) = json::token(audio.id) {
            out.set(piece, "audio_id", id);
        }
        if let Some(time) = json::value(audio.expires_at) {
            out.set(piece, "audio_expires_at", &json::kept(time));
        }
        if let Some(data) = json::token(audio.data).filter(|data| *data != "\"\"") {
            out.list(piece, "audio", data.to_owned());
        }
        json::inner(audio.transcript).is_none_or(|text| out.push(piece, text))
    }

    /// Records annotations; their positions count from the beginning of the content.
    fn annotate(&mut self, list: &str, out: &mut Transcript) -> bool {
        let Some(raws) = json::read::<Vec<Raw<'_>>>(list) else {
            return false;
        };
        for raw in raws.into_iter().filter_map(json::value) {
            let piece = match self.growing {
                Some((_, piece)) => piece,
                None => self.piece(TextKind::Text, out),
            };
            out.list(piece, "citations", json::kept(raw));
        }
        true
    }

    /// Ends the answer. `reason` is the server's reason, and `native` that of the provider behind it; both are escaped
    /// as in a JSON string.
    pub(super) fn stop(&mut self, reason: &str, native: Option<&str>, out: &mut Transcript) {
        let (standard, is_failure) = standard(reason);
        self.calls.end_answer(standard == "length", out);
        let own = native.unwrap_or(reason);
        let (own, standard_raw) = (format!("\"{own}\""), format!("\"{standard}\""));
        let mut set_metadata = |name, raw: &str| match (self.alternative, self.last) {
            (0, _) => out.set_metadata(name, raw),
            (_, Some(piece)) => out.note(piece, name, raw),
            _ => {}
        };
        set_metadata("finish_reason", &standard_raw);
        if own != standard_raw {
            set_metadata("provider_finish_reason", &own);
        }
        self.finish = Some(Finish {
            standard,
            word: reason.to_owned(),
            is_failure,
        });
    }
}

/// The standard finish reason for a server's, and whether it means a failure.
fn standard(reason: &str) -> (&'static str, bool) {
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
