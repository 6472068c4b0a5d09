//! OpenAI Chat Completions: `messages`.

use filrouge_engine::restore::{Call, Calls, Content, Dispositions, Media, Message, Speaker};
use filrouge_types::JsonText;

use super::{
    DeferredMedium, NOT_IN_FORMAT, Step, defer_medium, omit_reasoning, push_args_string,
    push_result,
};
use crate::json;
use crate::labels::{Label, LabelRules, is_word};
use crate::media::{self, IMAGES, PDF, Source};
use crate::text::{Text, as_text};

pub(super) const RULES: LabelRules = LabelRules {
    accepts_id: Some(|id| (1..=40).contains(&id.len()) && !id.contains(char::is_control)),
    can_begin: is_word,
    can_contain: is_word,
    max_name_bytes: 64,
};

pub(super) fn write(steps: &[Step<'_>], dispositions: &mut Dispositions, out: &mut String) {
    let mut chat = Chat {
        out,
        dispositions,
        assistant_is_open: false,
    };
    for step in steps {
        match step {
            Step::Message(speaker, message) => chat.write_message(*speaker, message),
            Step::Calls(calls, labels) => chat.write_calls(calls, labels),
        }
    }
    chat.close_message();
}

struct Chat<'a> {
    out: &'a mut String,
    dispositions: &'a mut Dispositions,
    /// Whether the last message is the assistant's and may still receive calls.
    assistant_is_open: bool,
}

impl Chat<'_> {
    fn close_message(&mut self) {
        if std::mem::take(&mut self.assistant_is_open) {
            self.out.push('}');
        }
    }

    fn begin_message(&mut self, role: &str) {
        self.close_message();
        json::push_comma(self.out);
        self.out.push('{');
        json::push_text_member(self.out, "role", role);
    }

    fn write_message(&mut self, speaker: Speaker, message: &Message) {
        match speaker {
            Speaker::User => self.write_user_message(message),
            Speaker::Assistant => self.write_assistant_message(message),
            Speaker::System => {
                self.begin_message("system");
                let contents: Vec<&Content> = message.contents.iter().collect();
                self.write_texts(&contents, message.seq);
                self.out.push('}');
            }
        }
    }

    fn write_user_message(&mut self, message: &Message) {
        self.begin_message("user");
        if let [only] = message.contents.as_slice()
            && !matches!(only, Content::Image(_) | Content::File(_))
        {
            self.write_texts(&[only], message.seq);
        } else {
            self.out.push_str(",\"content\":[");
            for content in &message.contents {
                json::push_comma(self.out);
                if !push_media_part(content, self.out) {
                    as_text(content, message.seq, self.dispositions).push_part("text", self.out);
                }
            }
            self.out.push(']');
        }
        self.out.push('}');
    }

    /// Writes the member `content`, which consists of text only.
    fn write_texts(&mut self, contents: &[&Content], seq: Option<u64>) {
        self.out.push_str(",\"content\":");
        if let [only] = contents {
            self.out.push('"');
            as_text(only, seq, self.dispositions).push(self.out);
            self.out.push('"');
            return;
        }
        self.out.push('[');
        for content in contents {
            json::push_comma(self.out);
            as_text(content, seq, self.dispositions).push_part("text", self.out);
        }
        self.out.push(']');
    }

    /// Writes the assistant's message, to which calls may be added. Its content may be texts or exactly one refusal
    /// (API reference). A refusal next to texts goes into the member `refusal`.
    fn write_assistant_message(&mut self, message: &Message) {
        omit_reasoning(&message.reasoning, NOT_IN_FORMAT, self.dispositions);
        self.begin_message("assistant");
        let mut refusals: Vec<JsonText> = Vec::new();
        let mut others: Vec<&Content> = Vec::with_capacity(message.contents.len());
        for content in &message.contents {
            match content {
                Content::Refusal(text) => refusals.push(text.clone()),
                other => others.push(other),
            }
        }
        let refusal = JsonText::join(&refusals);
        match &refusal {
            Some(refusal) if others.is_empty() => {
                self.out
                    .push_str(",\"content\":[{\"type\":\"refusal\",\"refusal\":");
                self.out.push_str(refusal.as_token());
                self.out.push_str("}]");
            }
            _ => self.write_texts(&others, message.seq),
        }
        if let Some(refusal) = refusal.filter(|_| !others.is_empty()) {
            json::push_member(self.out, "refusal", refusal.as_token());
        }
        self.assistant_is_open = true;
    }

    fn write_calls(&mut self, calls: &Calls, labels: &[Label<'_>]) {
        omit_reasoning(&calls.reasoning, NOT_IN_FORMAT, self.dispositions);
        if !self.assistant_is_open {
            self.begin_message("assistant");
            self.out.push_str(",\"content\":null");
        }
        self.out.push_str(",\"tool_calls\":[");
        for (call, label) in calls.calls.iter().zip(labels) {
            self.write_call(call, label);
        }
        self.out.push(']');
        self.assistant_is_open = true;
        let mut deferred = Vec::new();
        for (call, label) in calls.calls.iter().zip(labels) {
            self.write_result(call, label, &mut deferred);
        }
        self.write_deferred(&deferred);
    }

    fn write_call(&mut self, call: &Call, label: &Label<'_>) {
        json::push_comma(self.out);
        self.out.push('{');
        json::push_text_member(self.out, "id", &label.id);
        self.out.push_str(",\"type\":\"function\",\"function\":{");
        json::push_text_member(self.out, "name", &label.name);
        self.out.push_str(",\"arguments\":");
        push_args_string(call, self.dispositions, self.out);
        self.out.push_str("}}");
    }

    fn write_result<'a>(
        &mut self,
        call: &'a Call,
        label: &'a Label<'a>,
        deferred: &mut Vec<DeferredMedium<'a>>,
    ) {
        self.begin_message("tool");
        json::push_text_member(self.out, "tool_call_id", &label.id);
        self.out.push_str(",\"content\":");
        let (seq, dispositions) = (call.result.seq, &mut *self.dispositions);
        let text_of = |content| match sendable_part(content) {
            Some(_) => defer_medium(content, seq, label, deferred, dispositions),
            None => as_text(content, seq, dispositions),
        };
        push_result(&call.result, "Error: ", self.out, text_of);
        self.out.push('}');
    }

    /// Writes a user message with the images and files of results, because a tool message accepts only text.
    fn write_deferred(&mut self, deferred: &[DeferredMedium<'_>]) {
        if deferred.is_empty() {
            return;
        }
        self.begin_message("user");
        self.out.push_str(",\"content\":[");
        for item in deferred {
            json::push_comma(self.out);
            Text::Plain(item.heading().into()).push_part("text", self.out);
            json::push_comma(self.out);
            push_media_part(item.content, self.out);
        }
        self.out.push_str("]}");
    }
}

/// An image or a file that a user message can contain.
fn sendable_part(content: &Content) -> Option<(&Media, Source<'_>)> {
    let is_image = matches!(content, Content::Image(_));
    media::sendable(content).filter(|(_, source)| match source {
        Source::Base64 { mime, .. } if is_image => IMAGES.contains(mime),
        // The API refuses everything but a PDF: "Expected a base64-encoded data URL with an application/pdf MIME type".
        Source::Base64 { mime, .. } => *mime == PDF,
        Source::Link(_) => is_image,
        Source::OpenaiFile(_) => !is_image,
    })
}

/// Writes an image or a file as a part; returns `false` and writes nothing if it cannot be one.
fn push_media_part(content: &Content, out: &mut String) -> bool {
    let Some((medium, source)) = sendable_part(content) else {
        return false;
    };
    match (content, source) {
        (Content::Image(_), _) => {
            out.push_str("{\"type\":\"image_url\",\"image_url\":{\"url\":");
        }
        (_, Source::OpenaiFile(_)) => out.push_str("{\"type\":\"file\",\"file\":{\"file_id\":"),
        _ => {
            out.push_str("{\"type\":\"file\",\"file\":{\"filename\":");
            json::push_string(out, media::file_name(medium));
            out.push_str(",\"file_data\":");
        }
    }
    push_source(source, out);
    out.push_str("}}");
    true
}

/// Appends a `data:` URL, an address or an id as a string.
pub(super) fn push_source(source: Source<'_>, out: &mut String) {
    match source {
        Source::Base64 { mime, data } => {
            out.push_str("\"data:");
            json::push_escaped(out, mime);
            out.push_str(";base64,");
            json::push_escaped(out, data);
            out.push('"');
        }
        Source::Link(link) => link.push(out),
        Source::OpenaiFile(id) => json::push_string(out, id),
    }
}
