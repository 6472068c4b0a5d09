//! Gemini generateContent: `contents`.
//!
//! Calls have no id: Vertex refuses the member in requests ("Unknown name \"id\""). Without it, calls and responses are
//! matched by name and order, which the Gemini API accepts too.

use filrouge_engine::restore::{
    Block, Call, CallResult, Calls, Content, Dispositions, Mark, Message, Provider, Reasoning,
    ResultContent, Sealed, Speaker,
};
use filrouge_types::JsonText;

use super::{NOT_IN_FORMAT, OPENING, Step, foreign_reason, push_args_object, push_result};
use crate::json;
use crate::labels::{Label, LabelRules, is_word};
use crate::media::{self, PDF, Source};
use crate::text::{Text, as_text, push_note};

pub(super) const RULES: LabelRules = LabelRules {
    accepts_id: None,
    can_begin: |b| b.is_ascii_alphabetic() || b == b'_',
    can_contain: |b| is_word(b) || matches!(b, b'.' | b':'),
    max_name_bytes: 64,
};

/// Reorders the blocks of a turn: texts of the user and the application that follow function responses are moved before
/// the calls, because after the responses only the model may speak. Texts after the model's last text stay in place.
pub(super) fn arrange(blocks: &mut [Block]) {
    let has_texts_of = |block: &Block, is_model: bool| {
        matches!(block, Block::Message(message)
            if (message.speaker == Speaker::Assistant) == is_model && !message.contents.is_empty())
    };
    let Some(last) = blocks.iter().rposition(|block| has_texts_of(block, true)) else {
        return;
    };
    let mut first_call = 0;
    for at in 0..last {
        if has_texts_of(&blocks[at], true) {
            first_call = at + 1;
        } else if has_texts_of(&blocks[at], false) {
            blocks[first_call..=at].rotate_right(1);
            first_call += 1;
        }
    }
}

pub(super) fn write(steps: &[Step<'_>], dispositions: &mut Dispositions, out: &mut String) {
    let mut gemini = Gemini {
        out,
        dispositions,
        turn: None,
        pending_signature: None,
    };
    for step in steps {
        match step {
            Step::Message(speaker, message) => gemini.write_message(*speaker, message),
            Step::Calls(calls, labels) => gemini.write_calls(calls, labels),
        }
    }
    gemini.close_turn();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    User,
    Model,
    /// The user's turn of function responses, which may contain nothing else.
    Responses,
}

struct Gemini<'a, 'p> {
    out: &'a mut String,
    dispositions: &'a mut Dispositions,
    /// The turn that is open.
    turn: Option<Turn>,
    /// The signature of a thought, for the part that follows it, and the thought's item.
    pending_signature: Option<(u64, &'p JsonText)>,
}

impl<'p> Gemini<'_, 'p> {
    /// Continues or begins a turn. User and model must alternate, so consecutive content of one of them forms one turn.
    /// Between function responses and the user's next turn, the model states that it did not answer.
    fn begin_turn(&mut self, turn: Turn) {
        if self.turn == Some(turn) && turn != Turn::Responses {
            return;
        }
        if self.turn.is_none() && turn == Turn::Model {
            self.begin_turn(Turn::User);
            self.write_text(&Text::Plain(OPENING.into()));
        }
        if self.turn == Some(Turn::Responses) && turn == Turn::User {
            self.begin_turn(Turn::Model);
            self.write_text(&Text::Plain(Mark::Unanswered.text().into()));
        }
        self.close_turn();
        json::push_comma(self.out);
        self.out.push_str(match turn {
            Turn::User | Turn::Responses => "{\"role\":\"user\",\"parts\":[",
            Turn::Model => "{\"role\":\"model\",\"parts\":[",
        });
        self.turn = Some(turn);
    }

    fn close_turn(&mut self) {
        if self.turn.is_some() {
            self.out.push_str("]}");
        }
    }

    fn write_text(&mut self, text: &Text<'_>) {
        json::push_comma(self.out);
        self.out.push_str("{\"text\":\"");
        text.push(self.out);
        self.out.push('"');
        self.write_signature(None);
        self.out.push('}');
    }

    /// Adds a signature to a part of the model: the part's own one, else that of the thought before it. A part has room
    /// for only one.
    fn write_signature(&mut self, own: Option<&JsonText>) {
        let pending = self.pending_signature.take();
        if let (Some((seq, pending)), Some(own)) = (pending, own)
            && pending != own
        {
            self.dispositions.omit_piece(seq, NOT_IN_FORMAT);
        }
        if let Some(signature) = own.or(pending.map(|(_, signature)| signature)) {
            json::push_member(self.out, "thoughtSignature", signature.as_token());
        }
    }

    fn write_message(&mut self, speaker: Speaker, message: &'p Message) {
        match speaker {
            Speaker::User => {
                self.begin_turn(Turn::User);
                for content in &message.contents {
                    self.write_part(content, message.seq);
                }
            }
            Speaker::Assistant => {
                self.begin_turn(Turn::Model);
                self.take_reasoning(&message.reasoning);
                for content in &message.contents {
                    let text = as_text(content, message.seq, self.dispositions);
                    self.write_text(&text);
                }
            }
            Speaker::System => {
                self.begin_turn(Turn::User);
                json::push_comma(self.out);
                self.out.push_str("{\"text\":\"");
                push_note(message, self.dispositions, self.out);
                self.out.push_str("\"}");
            }
        }
    }

    fn write_part(&mut self, content: &Content, seq: Option<u64>) {
        match sendable_part(content) {
            Some((mime, Source::Base64 { data, .. })) => {
                json::push_comma(self.out);
                self.out.push_str("{\"inlineData\":{");
                json::push_text_member(self.out, "mimeType", mime);
                json::push_text_member(self.out, "data", data);
                self.out.push_str("}}");
            }
            Some((mime, Source::Link(link))) => {
                json::push_comma(self.out);
                self.out.push_str("{\"fileData\":{\"mimeType\":");
                json::push_string(self.out, mime);
                self.out.push_str(",\"fileUri\":");
                link.push(self.out);
                self.out.push_str("}}");
            }
            _ => {
                let text = as_text(content, seq, self.dispositions);
                self.write_text(&text);
            }
        }
    }

    /// Keeps the signature of a thought for the part that the thought led to, which sends it as `thoughtSignature`
    /// (Thought signatures guide). The thought's text is only a summary for people, and is left out. Of several
    /// thoughts in a row only the last signature is sent, because a part has room for one.
    fn take_reasoning(&mut self, reasoning: &'p [Reasoning]) {
        for thought in reasoning {
            match &thought.sealed {
                Some(Sealed::GoogleSignature(signature)) if is_signature(signature) => {
                    let replaced = self.pending_signature.replace((thought.seq, signature));
                    if let Some((seq, _)) = replaced {
                        self.dispositions.omit_piece(seq, NOT_IN_FORMAT);
                    }
                }
                Some(Sealed::GoogleSignature(_)) => {
                    self.dispositions.omit_piece(thought.seq, NOT_IN_FORMAT);
                }
                _ => self
                    .dispositions
                    .omit_piece(thought.seq, foreign_reason(thought)),
            }
        }
    }

    fn write_calls(&mut self, calls: &'p Calls, labels: &[Label<'_>]) {
        self.begin_turn(Turn::Model);
        self.take_reasoning(&calls.reasoning);
        for (call, label) in calls.calls.iter().zip(labels) {
            self.write_call(call, label);
        }
        self.begin_turn(Turn::Responses);
        for (call, label) in calls.calls.iter().zip(labels) {
            json::push_comma(self.out);
            self.out.push_str("{\"functionResponse\":{\"name\":");
            json::push_string(self.out, &label.name);
            self.out.push_str(",\"response\":");
            self.write_response(&call.result);
            self.out.push_str("}}");
        }
    }

    fn write_call(&mut self, call: &Call, label: &Label<'_>) {
        json::push_comma(self.out);
        self.out.push_str("{\"functionCall\":{\"name\":");
        json::push_string(self.out, &label.name);
        self.out.push_str(",\"args\":");
        push_args_object(call, self.dispositions, self.out);
        self.out.push('}');
        let signature = match &call.signature {
            Some((Provider::Google, signature)) if is_signature(signature) => Some(signature),
            Some(_) => {
                self.dispositions.adapt(call.seq, "call_signature_dropped");
                None
            }
            None => None,
        };
        self.write_signature(signature);
        self.out.push('}');
    }

    /// Writes a function's result as an object: the result itself if it is one, else an object with the member `output`
    /// or `error` (REST reference, FunctionResponse).
    fn write_response(&mut self, result: &CallResult) {
        if let ResultContent::Value(value) = &result.content
            && result.ok
            && value.is_object()
        {
            self.out.push_str(value.as_str());
            return;
        }
        self.out.push_str(match result.ok {
            true => "{\"output\":",
            false => "{\"error\":",
        });
        if let ResultContent::Value(value) = &result.content {
            self.out.push_str(value.as_str());
        } else {
            let (seq, dispositions) = (result.seq, &mut *self.dispositions);
            push_result(result, "", self.out, |c| as_text(c, seq, dispositions));
        }
        self.out.push('}');
    }
}

/// Whether a signature is base64, as the API expects.
fn is_signature(signature: &JsonText) -> bool {
    media::is_base64(&signature.to_plain())
}

/// The source of a medium in a form and of a type that Gemini accepts, and the type.
fn sendable_part(content: &Content) -> Option<(&str, Source<'_>)> {
    let (_, source) = media::sendable(content)?;
    let mime = match source {
        Source::Base64 { mime, .. } => Some(mime),
        Source::Link(link) => link.mime,
        Source::OpenaiFile(_) => None,
    };
    Some((mime.filter(|mime| is_accepted(mime))?, source))
}

/// Whether Gemini accepts the type (guides on images, audio, video and documents); GIF is not accepted.
fn is_accepted(mime: &str) -> bool {
    const IMAGES: [&str; 5] = [
        "image/png",
        "image/jpeg",
        "image/webp",
        "image/heic",
        "image/heif",
    ];
    let families = ["audio/", "video/", "text/"];
    mime == PDF || IMAGES.contains(&mime) || families.iter().any(|kind| mime.starts_with(kind))
}
