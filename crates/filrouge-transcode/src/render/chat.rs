//! OpenAI Chat Completions: `messages`.

use filrouge_engine::restore::{
    Call, Calls, Content, Dispositions, Media, Reasoning, Say, Speaker,
};
use filrouge_types::JsonText;

use super::{Following, NOT_IN_FORMAT, Step, args_string, omit_reasoning, push_result, refer_to};
use crate::json;
use crate::labels::{Label, Rules, is_word};
use crate::media::{self, IMAGES, PDF, Source};
use crate::text::{Text, as_text};

pub(super) const RULES: Rules = Rules {
    id: Some(|id| (1..=40).contains(&id.len()) && !id.contains(char::is_control)),
    first: is_word,
    inner: is_word,
    longest: 64,
};

pub(super) fn write(steps: &[Step<'_>], dispositions: &mut Dispositions, out: &mut String) {
    let mut chat = Chat {
        out,
        dispositions,
        open: false,
    };
    for step in steps {
        match step {
            Step::Say(speaker, say) => chat.say(*speaker, say),
            Step::Calls(calls, labels) => chat.calls(calls, labels),
        }
    }
    chat.close();
}

struct Chat<'a> {
    out: &'a mut String,
    dispositions: &'a mut Dispositions,
    /// Whether the last message is the assistant's and may still receive calls.
    open: bool,
}

impl Chat<'_> {
    fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            self.out.push('}');
        }
    }

    fn begin(&mut self, role: &str) {
        self.close();
        json::next(self.out);
        self.out.push_str("{\"role\":\"");
        self.out.push_str(role);
        self.out.push('"');
    }

    fn drop_reasoning(&mut self, reasoning: &[Reasoning]) {
        omit_reasoning(reasoning, NOT_IN_FORMAT, self.dispositions);
    }

    fn say(&mut self, speaker: Speaker, say: &Say) {
        match speaker {
            Speaker::User => self.user(say),
            Speaker::Assistant => self.assistant(say),
            Speaker::System => {
                self.begin("system");
                let contents: Vec<&Content> = say.contents.iter().collect();
                self.texts(&contents, say.seq);
                self.out.push('}');
            }
        }
    }

    fn user(&mut self, say: &Say) {
        self.begin("user");
        if let [only] = say.contents.as_slice()
            && !matches!(only, Content::Image(_) | Content::File(_))
        {
            self.texts(&[only], say.seq);
        } else {
            self.out.push_str(",\"content\":[");
            for content in &say.contents {
                json::next(self.out);
                self.part(content, say.seq);
            }
            self.out.push(']');
        }
        self.out.push('}');
    }

    /// Writes the member `content` with text alone.
    fn texts(&mut self, contents: &[&Content], seq: Option<u64>) {
        self.out.push_str(",\"content\":");
        if let [only] = contents {
            self.out.push('"');
            as_text(only, seq, self.dispositions).push(self.out);
            self.out.push('"');
            return;
        }
        self.out.push('[');
        for content in contents {
            json::next(self.out);
            let text = as_text(content, seq, self.dispositions);
            self.text_part(&text);
        }
        self.out.push(']');
    }

    fn text_part(&mut self, text: &Text<'_>) {
        self.out.push_str("{\"type\":\"text\",\"text\":\"");
        text.push(self.out);
        self.out.push_str("\"}");
    }

    fn part(&mut self, content: &Content, seq: Option<u64>) {
        if !media_part(content, self.out) {
            let text = as_text(content, seq, self.dispositions);
            self.text_part(&text);
        }
    }

    /// Writes the assistant's message, to which calls may be added. Its content may be texts or exactly one refusal
    /// (API reference). A refusal next to texts goes into the member `refusal`.
    fn assistant(&mut self, say: &Say) {
        self.drop_reasoning(&say.reasoning);
        self.begin("assistant");
        let mut refusals: Vec<JsonText> = Vec::new();
        let mut rest: Vec<&Content> = Vec::with_capacity(say.contents.len());
        for content in &say.contents {
            match content {
                Content::Refusal(text) => refusals.push(text.clone()),
                other => rest.push(other),
            }
        }
        let refusal = JsonText::join(&refusals);
        match &refusal {
            Some(refusal) if rest.is_empty() => {
                self.out
                    .push_str(",\"content\":[{\"type\":\"refusal\",\"refusal\":");
                self.out.push_str(refusal.as_token());
                self.out.push_str("}]");
            }
            _ => self.texts(&rest, say.seq),
        }
        if let Some(refusal) = refusal.filter(|_| !rest.is_empty()) {
            self.out.push_str(",\"refusal\":");
            self.out.push_str(refusal.as_token());
        }
        self.open = true;
    }

    fn calls(&mut self, calls: &Calls, labels: &[Label<'_>]) {
        self.drop_reasoning(&calls.reasoning);
        if !self.open {
            self.begin("assistant");
            self.out.push_str(",\"content\":null");
        }
        self.out.push_str(",\"tool_calls\":[");
        for (call, label) in calls.calls.iter().zip(labels) {
            self.call(call, label);
        }
        self.out.push(']');
        self.open = true;
        let mut following = Vec::new();
        for (call, label) in calls.calls.iter().zip(labels) {
            self.result(call, label, &mut following);
        }
        self.follow(&following);
    }

    fn call(&mut self, call: &Call, label: &Label<'_>) {
        if call.signature.is_some() {
            self.dispositions.adapt(call.seq, "call_signature_dropped");
        }
        json::next(self.out);
        self.out.push_str("{\"id\":");
        json::string(self.out, &label.id);
        self.out
            .push_str(",\"type\":\"function\",\"function\":{\"name\":");
        json::string(self.out, &label.name);
        self.out.push_str(",\"arguments\":");
        if args_string(&call.args, self.out) {
            self.dispositions.adapt(call.seq, "arguments_wrapped");
        }
        self.out.push_str("}}");
    }

    fn result<'a>(
        &mut self,
        call: &'a Call,
        label: &'a Label<'a>,
        following: &mut Vec<Following<'a>>,
    ) {
        self.begin("tool");
        self.out.push_str(",\"tool_call_id\":");
        json::string(self.out, &label.id);
        self.out.push_str(",\"content\":\"");
        if !call.result.ok {
            self.out.push_str("Error: ");
        }
        let (seq, dispositions) = (call.result.seq, &mut *self.dispositions);
        push_result(&call.result, self.out, |content| match part(content) {
            Some(_) => refer_to(content, seq, label, following, dispositions),
            None => as_text(content, seq, dispositions),
        });
        self.out.push_str("\"}");
    }

    /// Writes a user message with the images and files of results, because a tool message accepts only text.
    fn follow(&mut self, following: &[Following<'_>]) {
        if following.is_empty() {
            return;
        }
        self.begin("user");
        self.out.push_str(",\"content\":[");
        for item in following {
            json::next(self.out);
            self.text_part(&Text::Plain(item.heading().into()));
            json::next(self.out);
            media_part(item.content, self.out);
        }
        self.out.push_str("]}");
    }
}

/// An image or a file that a user message can contain.
enum Part<'a> {
    Image(Source<'a>),
    File(&'a Media, Source<'a>),
}

fn part(content: &Content) -> Option<Part<'_>> {
    match content {
        Content::Image(image) => match media::source(image)? {
            Source::Base64 { mime, .. } if !IMAGES.contains(&mime) => None,
            Source::OpenaiFile(_) => None,
            source => Some(Part::Image(source)),
        },
        // The API refuses everything but a PDF: "Expected a base64-encoded data URL with an application/pdf MIME type".
        Content::File(file) => match media::source(file)? {
            Source::Base64 { mime, .. } if mime != PDF => None,
            Source::Link(_) => None,
            source => Some(Part::File(file, source)),
        },
        _ => None,
    }
}

/// Writes an image or a file as a part; returns `false` and writes nothing if it cannot be one.
fn media_part(content: &Content, out: &mut String) -> bool {
    match part(content) {
        None => return false,
        Some(Part::Image(source)) => {
            out.push_str("{\"type\":\"image_url\",\"image_url\":{\"url\":");
            push_source(source, out);
        }
        Some(Part::File(_, Source::OpenaiFile(id))) => {
            out.push_str("{\"type\":\"file\",\"file\":{\"file_id\":");
            json::string(out, id);
        }
        Some(Part::File(file, source)) => {
            out.push_str("{\"type\":\"file\",\"file\":{\"filename\":");
            json::string(out, media::file_name(file));
            out.push_str(",\"file_data\":");
            push_source(source, out);
        }
    }
    out.push_str("}}");
    true
}

/// Appends a `data:` URL, an address or an id as a string.
pub(super) fn push_source(source: Source<'_>, out: &mut String) {
    match source {
        Source::Base64 { mime, data } => {
            out.push_str("\"data:");
            json::escape(out, mime);
            out.push_str(";base64,");
            json::escape(out, data);
            out.push('"');
        }
        Source::Link(link) => link.push(out),
        Source::OpenaiFile(id) => json::string(out, id),
    }
}
