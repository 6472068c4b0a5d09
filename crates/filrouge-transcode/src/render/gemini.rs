//! Gemini generateContent: `contents`.
//!
//! Calls carry no id: Vertex refuses the member in requests ("Unknown name \"id\""), and without one calls and
//! responses are matched by name and order, which the Gemini API takes too.

use filrouge_engine::restore::{
    Answer, Call, CallResult, Calls, Content, Fates, Mark, Media, Provider, Reasoning, Say, Sealed,
    Speaker,
};
use filrouge_types::JsonText;

use super::{NOT_IN_FORMAT, OPENING, Step, args_object, foreign, push_answer};
use crate::json;
use crate::labels::{Label, Rules, is_word};
use crate::media::{self, PDF, Source};
use crate::text::{Text, push_note, spell};

pub(super) const RULES: Rules = Rules {
    id: None,
    first: |b| b.is_ascii_alphabetic() || b == b'_',
    inner: |b| is_word(b) || matches!(b, b'.' | b':'),
    longest: 64,
};

pub(super) fn write(steps: &[Step<'_>], fates: &mut Fates, out: &mut String) {
    let mut gemini = Gemini {
        out,
        fates,
        turn: None,
        signature: None,
    };
    for step in steps {
        match step {
            Step::Say(speaker, say) => gemini.say(*speaker, say),
            Step::Calls(calls, labels) => gemini.calls(calls, labels),
        }
    }
    gemini.close();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    User,
    Model,
    /// The user's turn of function responses, which holds nothing else.
    Responses,
}

struct Gemini<'a, 'p> {
    out: &'a mut String,
    fates: &'a mut Fates,
    /// The turn that is open.
    turn: Option<Turn>,
    /// The signature of a thought, for the part that follows it.
    signature: Option<(u64, &'p JsonText)>,
}

impl<'p> Gemini<'_, 'p> {
    /// Goes on with a turn: user and model alternate, and what one says in a row is one turn.
    fn begin(&mut self, turn: Turn) {
        if self.turn == Some(turn) && turn != Turn::Responses {
            return;
        }
        if self.turn.is_none() && turn == Turn::Model {
            self.begin(Turn::User);
            self.text(&Text::Plain(OPENING.into()));
        }
        if self.turn == Some(Turn::Responses) && turn == Turn::User {
            self.begin(Turn::Model);
            self.text(&Text::Plain(Mark::Unanswered.text().into()));
        }
        self.close();
        json::next(self.out);
        self.out.push_str(match turn {
            Turn::User | Turn::Responses => "{\"role\":\"user\",\"parts\":[",
            Turn::Model => "{\"role\":\"model\",\"parts\":[",
        });
        self.turn = Some(turn);
    }

    fn close(&mut self) {
        if self.turn.is_some() {
            self.out.push_str("]}");
        }
    }

    fn text(&mut self, text: &Text<'_>) {
        json::next(self.out);
        self.out.push_str("{\"text\":\"");
        text.push(self.out);
        self.out.push('"');
        self.sign(None);
        self.out.push('}');
    }

    /// Ends a part of the model with the signature that it has or that waits for it. A part has one: its own.
    fn sign(&mut self, own: Option<&JsonText>) {
        let waiting = self.signature.take();
        if let (Some((seq, waiting)), Some(own)) = (waiting, own)
            && waiting != own
        {
            self.fates.lose(seq, NOT_IN_FORMAT);
        }
        if let Some(signature) = own.or(waiting.map(|(_, signature)| signature)) {
            self.out.push_str(",\"thoughtSignature\":");
            self.out.push_str(signature.as_token());
        }
    }

    fn say(&mut self, speaker: Speaker, say: &'p Say) {
        match speaker {
            Speaker::User => {
                self.begin(Turn::User);
                for content in &say.contents {
                    self.part(content, say.seq);
                }
            }
            Speaker::Assistant => {
                self.begin(Turn::Model);
                self.reasoning(&say.reasoning);
                for content in &say.contents {
                    let text = spell(content, say.seq, self.fates);
                    self.text(&text);
                }
            }
            Speaker::System => {
                self.begin(Turn::User);
                json::next(self.out);
                self.out.push_str("{\"text\":\"");
                push_note(say, self.fates, self.out);
                self.out.push_str("\"}");
            }
        }
    }

    fn part(&mut self, content: &Content, seq: Option<u64>) {
        let (Content::Image(media) | Content::File(media)) = content else {
            let text = spell(content, seq, self.fates);
            return self.text(&text);
        };
        let Some(source) = part(media) else {
            let text = spell(content, seq, self.fates);
            return self.text(&text);
        };
        json::next(self.out);
        match source {
            Part::Inline { mime, data } => {
                self.out.push_str("{\"inlineData\":{\"mimeType\":");
                json::string(self.out, mime);
                self.out.push_str(",\"data\":");
                json::string(self.out, data);
            }
            Part::Link { mime, link } => {
                self.out.push_str("{\"fileData\":{\"mimeType\":");
                json::string(self.out, mime);
                self.out.push_str(",\"fileUri\":");
                link.push(self.out);
            }
        }
        self.out.push_str("}}");
    }

    /// A signed thought goes back as `thoughtSignature` of the part that it led to (Thought signatures guide); its
    /// text is only a summary for people. A part holds one signature: the last.
    fn reasoning(&mut self, reasoning: &'p [Reasoning]) {
        for thought in reasoning {
            match &thought.sealed {
                Some(Sealed::GoogleSignature(signature)) if is_signature(signature) => {
                    let before = self.signature.replace((thought.seq, signature));
                    if let Some((seq, _)) = before {
                        self.fates.lose(seq, NOT_IN_FORMAT);
                    }
                }
                Some(Sealed::GoogleSignature(_)) => {
                    self.fates.lose(thought.seq, NOT_IN_FORMAT);
                }
                _ => self.fates.lose(thought.seq, foreign(thought)),
            }
        }
    }

    fn calls(&mut self, calls: &'p Calls, labels: &[Label<'_>]) {
        self.begin(Turn::Model);
        self.reasoning(&calls.reasoning);
        for (call, label) in calls.calls.iter().zip(labels) {
            self.call(call, label);
        }
        self.begin(Turn::Responses);
        for (call, label) in calls.calls.iter().zip(labels) {
            json::next(self.out);
            self.out.push_str("{\"functionResponse\":{\"name\":");
            json::string(self.out, &label.name);
            self.out.push_str(",\"response\":");
            self.response(&call.result);
            self.out.push_str("}}");
        }
    }

    fn call(&mut self, call: &Call, label: &Label<'_>) {
        json::next(self.out);
        self.out.push_str("{\"functionCall\":{\"name\":");
        json::string(self.out, &label.name);
        self.out.push_str(",\"args\":");
        if args_object(&call.args, self.out) {
            self.fates.adapt(call.seq, "arguments_wrapped");
        }
        self.out.push('}');
        let own = match &call.signature {
            Some((Provider::Google, signature)) if is_signature(signature) => Some(signature),
            Some(_) => {
                self.fates.adapt(call.seq, "call_signature_dropped");
                None
            }
            None => None,
        };
        self.sign(own);
        self.out.push('}');
    }

    /// Writes what a function answered, an object: its own, or one of `output` or `error` (REST reference,
    /// FunctionResponse).
    fn response(&mut self, result: &CallResult) {
        if let Answer::Value(value) = &result.answer
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
        if let Answer::Value(value) = &result.answer {
            self.out.push_str(value.as_str());
        } else {
            self.out.push('"');
            let fates = &mut *self.fates;
            push_answer(result, self.out, |c| spell(c, result.seq, fates));
            self.out.push('"');
        }
        self.out.push('}');
    }
}

/// Whether a signature is bytes in base64, as the API reads it.
fn is_signature(signature: &JsonText) -> bool {
    media::is_base64(&signature.to_plain())
}

enum Part<'a> {
    Inline {
        mime: &'a str,
        data: &'a str,
    },
    Link {
        mime: &'a str,
        link: media::Link<'a>,
    },
}

fn part(medium: &Media) -> Option<Part<'_>> {
    match media::source(medium)? {
        Source::Base64 { mime, data } if is_taken(mime) => Some(Part::Inline { mime, data }),
        Source::Link(link) => {
            let mime = link.mime.filter(|mime| is_taken(mime))?;
            Some(Part::Link { mime, link })
        }
        Source::Base64 { .. } | Source::OpenaiFile(_) => None,
    }
}

/// The types that Gemini reads (guides on images, audio, video and documents); GIF is none of them.
fn is_taken(mime: &str) -> bool {
    const IMAGES: [&str; 5] = [
        "image/png",
        "image/jpeg",
        "image/webp",
        "image/heic",
        "image/heif",
    ];
    let whole = ["audio/", "video/", "text/"];
    mime == PDF || IMAGES.contains(&mime) || whole.iter().any(|kind| mime.starts_with(kind))
}
