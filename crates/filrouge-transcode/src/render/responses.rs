//! OpenAI Responses: `input`.

use std::collections::HashSet;

use filrouge_engine::restore::{
    Call, CallResult, Calls, Content, Dispositions, Media, Message, Reasoning, ResultContent,
    Sealed, Speaker, is_text,
};
use filrouge_types::{JsonText, RawJson};
use serde::Deserialize;

use super::chat::push_source;
use super::{NO_MESSAGE, NOT_IN_FORMAT, Step, foreign_reason, push_args_string, push_result};
use crate::json;
use crate::labels::{Label, LabelRules, is_word};
use crate::media::{self, IMAGES, PDF, Source};
use crate::text::{Text, as_text};

pub(super) const RULES: LabelRules = LabelRules {
    accepts_id: Some(|id| (1..=64).contains(&id.len()) && !id.contains(char::is_control)),
    can_begin: is_word,
    can_contain: is_word,
    max_name_bytes: 64,
};

pub(super) fn write(steps: &[Step<'_>], dispositions: &mut Dispositions, out: &mut String) {
    let mut responses = Responses {
        out,
        dispositions,
        written_ids: HashSet::new(),
        message_count: 0,
    };
    for step in steps {
        match step {
            Step::Message(speaker, message) => responses.write_message(*speaker, message),
            Step::Calls(calls, labels) => responses.write_calls(calls, labels),
        }
    }
}

struct Responses<'a> {
    out: &'a mut String,
    dispositions: &'a mut Dispositions,
    /// The ids of written reasoning items: the API refuses a duplicate.
    written_ids: HashSet<String>,
    /// The number of messages that were written with an id.
    message_count: usize,
}

/// One text of a reasoning item's summary.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Summary {
    #[serde(rename = "type")]
    kind: SummaryKind,
    #[serde(rename = "text")]
    _text: JsonText,
}

#[derive(Deserialize)]
enum SummaryKind {
    #[serde(rename = "summary_text")]
    Text,
}

/// Whether the API could have created the reasoning item: "Expected an ID that begins with 'rs'", of letters, digits,
/// `_` and `-`.
fn is_valid_item(id: &str, summary: &RawJson) -> bool {
    let summary = serde_json::from_str::<Vec<Summary>>(summary.as_str());
    id.starts_with("rs")
        && id.len() <= 64
        && id.bytes().all(is_word)
        && summary.is_ok_and(|s| s.iter().all(|s| matches!(s.kind, SummaryKind::Text)))
}

impl Responses<'_> {
    fn begin_item(&mut self, kind: &str) {
        json::push_comma(self.out);
        self.out.push('{');
        json::push_text_member(self.out, "type", kind);
    }

    /// Writes reasoning right before the item it led to; otherwise the API refuses it: it "was provided without its
    /// required following item".
    fn write_reasoning(&mut self, reasoning: &[Reasoning]) {
        for thought in reasoning {
            let Some(Sealed::OpenaiItem {
                id,
                summary,
                encrypted_content,
            }) = &thought.sealed
            else {
                self.dispositions
                    .omit_piece(thought.seq, foreign_reason(thought));
                continue;
            };
            let plain_id = id.to_plain();
            if !is_valid_item(&plain_id, summary) || !self.written_ids.insert(plain_id) {
                self.dispositions.omit_piece(thought.seq, NOT_IN_FORMAT);
                continue;
            }
            self.begin_item("reasoning");
            json::push_member(self.out, "id", id.as_token());
            json::push_member(self.out, "summary", summary.as_str());
            if let Some(encrypted) = encrypted_content.as_ref().filter(|e| !e.is_empty()) {
                json::push_member(self.out, "encrypted_content", encrypted.as_token());
            }
            self.out.push('}');
        }
    }

    fn write_message(&mut self, speaker: Speaker, message: &Message) {
        let role = match speaker {
            Speaker::User => "user",
            Speaker::System => "system",
            Speaker::Assistant => return self.write_assistant_message(message),
        };
        self.begin_item("message");
        json::push_text_member(self.out, "role", role);
        self.out.push_str(",\"content\":[");
        for content in &message.contents {
            json::push_comma(self.out);
            if speaker == Speaker::System || !push_media_part(content, self.out) {
                let text = as_text(content, message.seq, self.dispositions);
                text.push_part("input_text", self.out);
            }
        }
        self.out.push_str("]}");
    }

    /// Writes the assistant's message. A single text becomes an `EasyInputMessage`. Several texts, or a refusal, need
    /// an output message, whose members are all required (API reference). Its id is unique only within this input.
    fn write_assistant_message(&mut self, message: &Message) {
        self.write_reasoning(&message.reasoning);
        self.begin_item("message");
        if let [only] = message.contents.as_slice()
            && !matches!(only, Content::Refusal(_))
        {
            self.out.push_str(",\"role\":\"assistant\",\"content\":\"");
            as_text(only, message.seq, self.dispositions).push(self.out);
            self.out.push_str("\"}");
            return;
        }
        self.message_count += 1;
        json::push_text_member(self.out, "id", &format!("msg_{}", self.message_count));
        self.out
            .push_str(",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[");
        for content in &message.contents {
            json::push_comma(self.out);
            if let Content::Refusal(refusal) = content {
                self.out.push_str("{\"type\":\"refusal\",\"refusal\":");
                self.out.push_str(refusal.as_token());
                self.out.push('}');
            } else {
                self.out
                    .push_str("{\"type\":\"output_text\",\"annotations\":[],\"text\":\"");
                as_text(content, message.seq, self.dispositions).push(self.out);
                self.out.push_str("\"}");
            }
        }
        self.out.push_str("]}");
    }

    fn write_calls(&mut self, calls: &Calls, labels: &[Label<'_>]) {
        self.write_reasoning(&calls.reasoning);
        for (call, label) in calls.calls.iter().zip(labels) {
            self.write_call(call, label);
        }
        for (call, label) in calls.calls.iter().zip(labels) {
            self.begin_item("function_call_output");
            json::push_text_member(self.out, "call_id", &label.id);
            self.out.push_str(",\"output\":");
            self.write_output(&call.result);
            self.out.push('}');
        }
    }

    fn write_call(&mut self, call: &Call, label: &Label<'_>) {
        self.begin_item("function_call");
        json::push_text_member(self.out, "call_id", &label.id);
        json::push_text_member(self.out, "name", &label.name);
        self.out.push_str(",\"arguments\":");
        push_args_string(call, self.dispositions, self.out);
        self.out.push('}');
    }

    fn write_output(&mut self, result: &CallResult) {
        match &result.content {
            ResultContent::Contents(contents)
                if contents.iter().any(|c| sendable_part(c).is_some()) =>
            {
                self.write_parts(result, contents);
            }
            _ => {
                let (seq, dispositions) = (result.seq, &mut *self.dispositions);
                let text_of = |c| as_text(c, seq, dispositions);
                push_result(result, "Error: ", self.out, text_of);
            }
        }
    }

    /// Writes a result that contains images or files.
    fn write_parts(&mut self, result: &CallResult, contents: &[Content]) {
        self.out.push('[');
        let mut needs_error_prefix = !result.ok;
        if needs_error_prefix && contents.first().is_some_and(|c| sendable_part(c).is_some()) {
            needs_error_prefix = false;
            let text = format!("Error: {NO_MESSAGE}");
            Text::Plain(text.into()).push_part("input_text", self.out);
        }
        for content in contents {
            json::push_comma(self.out);
            if push_media_part(content, self.out) {
                continue;
            }
            self.out.push_str("{\"type\":\"input_text\",\"text\":\"");
            if std::mem::take(&mut needs_error_prefix) {
                self.out.push_str("Error: ");
            }
            as_text(content, result.seq, self.dispositions).push(self.out);
            self.out.push_str("\"}");
        }
        self.out.push(']');
    }
}

fn sendable_part(content: &Content) -> Option<(&Media, Source<'_>)> {
    media::sendable(content).filter(|(_, source)| match (content, source) {
        (Content::Image(_), Source::Base64 { mime, .. }) => IMAGES.contains(mime),
        (_, Source::Base64 { mime, .. }) => is_document(mime),
        _ => true,
    })
}

/// Whether `input_file` accepts the type (File inputs guide): PDF, text and code, word processing, presentations and
/// spreadsheets.
fn is_document(mime: &str) -> bool {
    const OFFICE: [&str; 5] = [
        "application/vnd.openxmlformats-officedocument.",
        "application/vnd.oasis.opendocument.",
        "application/vnd.ms-",
        "application/msword",
        "application/rtf",
    ];
    mime == PDF || is_text(mime) || OFFICE.iter().any(|office| mime.starts_with(office))
}

/// Writes an image or a file as a part; returns `false` and writes nothing if it cannot be one.
fn push_media_part(content: &Content, out: &mut String) -> bool {
    let Some((medium, source)) = sendable_part(content) else {
        return false;
    };
    let is_image = matches!(content, Content::Image(_));
    out.push_str(match is_image {
        true => "{\"type\":\"input_image\",\"detail\":\"auto\",",
        false => "{\"type\":\"input_file\",",
    });
    match source {
        Source::OpenaiFile(_) => out.push_str("\"file_id\":"),
        _ if is_image => out.push_str("\"image_url\":"),
        Source::Link(_) => out.push_str("\"file_url\":"),
        Source::Base64 { .. } => {
            out.push_str("\"filename\":");
            json::push_string(out, media::file_name(medium));
            out.push_str(",\"file_data\":");
        }
    }
    push_source(source, out);
    out.push('}');
    true
}
