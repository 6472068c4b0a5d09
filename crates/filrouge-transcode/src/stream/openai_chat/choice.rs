//! One answer of several, or the only one.

use filrouge_engine::stream::{PieceNo, Transcript};
use filrouge_store::draft::PieceKind;

use super::calls::Calls;
use super::reasoning::Reasoning;
use super::wire::{Audio, Entry, Message};
use crate::stream::json::{self, Raw};

/// Why an answer stopped.
pub(super) struct Finish {
    /// In the standard words.
    pub(super) standard: &'static str,
    /// In the server's own.
    pub(super) word: String,
    pub(super) is_failure: bool,
}

/// What is said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Text,
    Refusal,
    /// What a voice says.
    Speech,
}

/// What has come of one answer.
pub(super) struct Choice {
    alternative: u32,
    said: Option<(Said, PieceNo)>,
    reasoning: Reasoning,
    calls: Calls,
    last: Option<PieceNo>,
    finish: Option<Finish>,
}

impl Choice {
    pub(super) fn new(alternative: u32) -> Self {
        Self {
            alternative,
            said: None,
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

    /// Takes a message, or what has been added to it; `false` when there is something in it that has no known shape.
    pub(super) fn take(&mut self, message: &Message<'_>, id: &str, out: &mut Transcript) -> bool {
        let mut whole = true;
        if Reasoning::is_in(message) {
            self.pause(out);
            whole &= self.reasoning.take(message, out);
            self.last = self.reasoning.last().or(self.last);
        }
        whole &= match json::value(message.content) {
            None => true,
            Some(list) if list.starts_with('[') => self.entries(list, out),
            Some(_) => self.say(Said::Text, message.content, out),
        };
        whole &= self.say(Said::Refusal, message.refusal, out);
        if let Some(audio) = json::value(message.audio) {
            whole &= self.speak(audio, out);
        }
        if let Some(images) = json::value(message.images) {
            whole &= self.images(images, out);
        }
        if let Some(annotations) = json::value(message.annotations) {
            whole &= self.annotate(annotations, out);
        }
        for call in message.tool_calls.iter().flatten() {
            self.close(out);
            whole &= self.calls.take(call, self.alternative, id, out);
        }
        if let Some(function) = &message.function_call {
            self.close(out);
            whole &= self
                .calls
                .take_function(function, self.alternative, id, out);
        }
        self.last = self.calls.last().or(self.last);
        whole
    }

    /// What is said is over: a step follows.
    fn pause(&mut self, out: &mut Transcript) {
        if let Some((_, piece)) = self.said.take() {
            out.finish(piece);
        }
    }

    fn close(&mut self, out: &mut Transcript) {
        self.pause(out);
        self.reasoning.close(out);
    }

    fn piece(&mut self, said: Said, out: &mut Transcript) -> PieceNo {
        if let Some((kind, piece)) = self.said
            && kind == said
        {
            return piece;
        }
        self.reasoning.close(out);
        let kind = match said {
            Said::Refusal => PieceKind::Refusal,
            Said::Text | Said::Speech => PieceKind::Text,
        };
        let piece = out.say(kind, self.alternative, true);
        self.said = Some((said, piece));
        self.last = Some(piece);
        piece
    }

    /// Adds to what is said; `false` when it is no text.
    fn say(&mut self, said: Said, raw: Raw<'_>, out: &mut Transcript) -> bool {
        let Some(text) = json::inner(raw) else {
            return raw.is_none();
        };
        if text.is_empty() {
            return true;
        }
        let piece = self.piece(said, out);
        out.push(piece, text)
    }

    /// A content that is a list, as Mistral has it.
    fn entries(&mut self, list: &str, out: &mut Transcript) -> bool {
        let Some(raws) = json::read::<Vec<Raw<'_>>>(list) else {
            return false;
        };
        let mut whole = true;
        for raw in raws.into_iter().filter_map(json::value) {
            let entry: Option<Entry<'_>> = raw.starts_with('{').then(|| json::read(raw)).flatten();
            let Some(entry) = entry else {
                whole = false;
                continue;
            };
            whole &= match json::some(entry.kind) {
                Some("text" | "output_text") => self.say(Said::Text, entry.text, out),
                Some("refusal") => self.say(Said::Refusal, entry.refusal, out),
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
        whole
    }

    fn say_whole(&mut self, raw: &str, out: &mut Transcript) -> bool {
        let Some(part) = json::part(raw) else {
            return false;
        };
        self.reasoning.close(out);
        self.said = None;
        self.last = Some(out.say_whole(&part, self.alternative));
        true
    }

    fn images(&mut self, list: &str, out: &mut Transcript) -> bool {
        let Some(raws) = json::read::<Vec<Raw<'_>>>(list) else {
            return false;
        };
        let mut whole = true;
        for raw in raws.into_iter().filter_map(json::value) {
            whole &= self.say_whole(raw, out);
        }
        whole
    }

    /// What a voice says is text, with its sound beside it as it came.
    fn speak(&mut self, audio: &str, out: &mut Transcript) -> bool {
        let audio: Option<Audio<'_>> = audio.starts_with('{').then(|| json::read(audio)).flatten();
        let Some(audio) = audio else {
            return false;
        };
        let piece = self.piece(Said::Speech, out);
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

    /// Annotations count from the beginning of the content.
    fn annotate(&mut self, list: &str, out: &mut Transcript) -> bool {
        let Some(raws) = json::read::<Vec<Raw<'_>>>(list) else {
            return false;
        };
        for raw in raws.into_iter().filter_map(json::value) {
            let piece = match self.said {
                Some((_, piece)) => piece,
                None => self.piece(Said::Text, out),
            };
            out.list(piece, "citations", json::kept(raw));
        }
        true
    }

    /// The answer stops, for a reason spelled as inside a JSON string.
    pub(super) fn stop(&mut self, reason: &str, native: Option<&str>, out: &mut Transcript) {
        let (standard, is_failure) = standard(reason);
        self.calls.settle(standard == "length", out);
        let own = native.unwrap_or(reason);
        let (own, standard_raw) = (format!("\"{own}\""), format!("\"{standard}\""));
        let mut tell = |name, raw: &str| match (self.alternative, self.last) {
            (0, _) => out.tell(name, raw),
            (_, Some(piece)) => out.note(piece, name, raw),
            _ => {}
        };
        tell("finish_reason", &standard_raw);
        if own != standard_raw {
            tell("provider_finish_reason", &own);
        }
        self.finish = Some(Finish {
            standard,
            word: reason.to_owned(),
            is_failure,
        });
    }
}

/// The standard word for a server's own, and whether it tells of a failure.
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
