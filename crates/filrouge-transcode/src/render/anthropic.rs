//! Anthropic Messages: `messages`.

mod part;

use filrouge_engine::restore::{
    Call, CallResult, Calls, Content, Dispositions, Message, Reasoning, ResultContent, Sealed,
    Speaker,
};
use filrouge_types::JsonText;

use self::part::is_sendable;
use super::{
    DeferredMedium, NOT_IN_FORMAT, OPENING, Step, defer_medium, foreign_reason, push_args_object,
    push_result,
};
use crate::json;
use crate::labels::{Label, LabelRules, is_word};
use crate::text::{Text, as_text, push_note, report_change};

pub(super) const RULES: LabelRules = LabelRules {
    // The API sets no limit; 64 is far above the length of its own ids.
    accepts_id: Some(|id| (1..=64).contains(&id.len()) && id.bytes().all(is_word)),
    can_begin: is_word,
    can_contain: is_word,
    max_name_bytes: 128,
};

pub(super) fn write(steps: &[Step<'_>], dispositions: &mut Dispositions, out: &mut String) {
    let mut anthropic = Anthropic {
        out,
        dispositions,
        role: None,
        blocks: 0,
        has_thinking: false,
        text: None,
    };
    for step in steps {
        match step {
            Step::Message(speaker, message) => anthropic.write_message(*speaker, message),
            Step::Calls(calls, labels) => anthropic.write_calls(calls, labels),
        }
    }
    anthropic.close_message();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
}

struct Anthropic<'a> {
    out: &'a mut String,
    dispositions: &'a mut Dispositions,
    /// The role of the open message.
    role: Option<Role>,
    /// The number of blocks of the open message.
    blocks: usize,
    /// Whether the first block of the open message is thinking.
    has_thinking: bool,
    /// If the open message ends with a text block so far: where the text begins in `out`, and the seq of its item.
    text: Option<(usize, Option<u64>)>,
}

impl Anthropic<'_> {
    /// Continues or begins a message of `role`. Roles must alternate, so consecutive content of one role forms one
    /// message.
    fn begin_message(&mut self, role: Role) {
        if self.role == Some(role) {
            return;
        }
        if self.role.is_none() && role == Role::Assistant {
            self.begin_message(Role::User);
            self.write_text(&Text::Plain(OPENING.into()), None);
        }
        self.close_message();
        json::push_comma(self.out);
        self.out.push_str(match role {
            Role::User => "{\"role\":\"user\",\"content\":[",
            Role::Assistant => "{\"role\":\"assistant\",\"content\":[",
        });
        self.role = Some(role);
        self.blocks = 0;
        self.has_thinking = false;
    }

    /// Closes the open message. An assistant's message may not end in white space, which is trimmed: "final assistant
    /// content cannot end with trailing whitespace".
    fn close_message(&mut self) {
        let Some(role) = self.role else {
            return;
        };
        if let Some((start, seq)) = self.text.take().filter(|_| role == Role::Assistant) {
            let end = self.out.len() - "\"}".len();
            let kept = json::trim_end(&self.out[start..end]).len();
            if start + kept < end {
                self.out.truncate(start + kept);
                self.out.push_str("\"}");
                report_change(self.dispositions, seq, "space_trimmed");
            }
        }
        self.out.push_str("]}");
    }

    /// Begins the next block.
    fn begin_block(&mut self) {
        json::push_comma(self.out);
        self.blocks += 1;
        self.text = None;
    }

    fn write_text(&mut self, text: &Text<'_>, seq: Option<u64>) {
        self.begin_block();
        self.out.push_str("{\"type\":\"text\",\"text\":\"");
        self.text = Some((self.out.len(), seq));
        text.push(self.out);
        self.out.push_str("\"}");
    }

    fn write_message(&mut self, speaker: Speaker, message: &Message) {
        match speaker {
            Speaker::User => {
                self.begin_message(Role::User);
                for content in &message.contents {
                    if is_sendable(content) {
                        self.write_medium_block(content, message.seq);
                    } else {
                        let text = as_text(content, message.seq, self.dispositions);
                        self.write_text(&text, message.seq);
                    }
                }
            }
            Speaker::Assistant => {
                self.begin_message(Role::Assistant);
                self.write_reasoning(&message.reasoning);
                for content in &message.contents {
                    let text = as_text(content, message.seq, self.dispositions);
                    self.write_text(&text, message.seq);
                }
            }
            Speaker::System => {
                self.begin_message(Role::User);
                self.begin_block();
                self.out.push_str("{\"type\":\"text\",\"text\":\"");
                push_note(message, self.dispositions, self.out);
                self.out.push_str("\"}");
            }
        }
    }

    /// Writes the thinking before the content that it led to. A message that has thinking must begin with it. So in a
    /// message that began with another block, thinking is left out. Anthropic refuses an empty signature.
    fn write_reasoning(&mut self, reasoning: &[Reasoning]) {
        for thought in reasoning {
            let seal = match &thought.sealed {
                Some(Sealed::AnthropicSignature(seal) | Sealed::AnthropicRedacted(seal))
                    if !seal.is_empty() =>
                {
                    seal
                }
                _ => {
                    self.dispositions
                        .omit_piece(thought.seq, foreign_reason(thought));
                    continue;
                }
            };
            if self.blocks > 0 && !self.has_thinking {
                self.dispositions.omit_piece(thought.seq, NOT_IN_FORMAT);
                continue;
            }
            self.begin_block();
            self.has_thinking = true;
            if matches!(thought.sealed, Some(Sealed::AnthropicRedacted(_))) {
                self.out.push_str("{\"type\":\"redacted_thinking\"");
                json::push_member(self.out, "data", seal.as_token());
            } else {
                let text = thought.text.as_ref();
                self.out.push_str("{\"type\":\"thinking\",\"thinking\":");
                self.out.push_str(text.map_or("\"\"", JsonText::as_token));
                json::push_member(self.out, "signature", seal.as_token());
            }
            self.out.push('}');
        }
    }

    fn write_calls(&mut self, calls: &Calls, labels: &[Label<'_>]) {
        self.begin_message(Role::Assistant);
        self.write_reasoning(&calls.reasoning);
        for (call, label) in calls.calls.iter().zip(labels) {
            self.write_call(call, label);
        }
        self.begin_message(Role::User);
        let mut deferred = Vec::new();
        for (call, label) in calls.calls.iter().zip(labels) {
            self.write_result(&call.result, label, &mut deferred);
        }
        for item in &deferred {
            self.write_text(&Text::Plain(item.heading().into()), None);
            self.write_medium_block(item.content, None);
        }
    }

    fn write_call(&mut self, call: &Call, label: &Label<'_>) {
        if call.signature.is_some() {
            self.dispositions.adapt(call.seq, "call_signature_dropped");
        }
        self.begin_block();
        self.out.push_str("{\"type\":\"tool_use\"");
        json::push_text_member(self.out, "id", &label.id);
        json::push_text_member(self.out, "name", &label.name);
        self.out.push_str(",\"input\":");
        push_args_object(call, self.dispositions, self.out);
        self.out.push('}');
    }

    fn write_result<'a>(
        &mut self,
        result: &'a CallResult,
        label: &'a Label<'a>,
        deferred: &mut Vec<DeferredMedium<'a>>,
    ) {
        self.begin_block();
        self.out.push_str("{\"type\":\"tool_result\"");
        json::push_text_member(self.out, "tool_use_id", &label.id);
        if !result.ok {
            self.out.push_str(",\"is_error\":true");
        }
        self.out.push_str(",\"content\":");
        match &result.content {
            ResultContent::Contents(contents) if result.ok && contents.iter().any(is_sendable) => {
                self.write_parts(contents, result.seq);
            }
            // A failed result may contain nothing but text: "all content must be type `text` if `is_error` is true".
            _ => {
                let (seq, dispositions) = (result.seq, &mut *self.dispositions);
                push_result(result, "", self.out, |content| match is_sendable(content) {
                    true => defer_medium(content, seq, label, deferred, dispositions),
                    false => as_text(content, seq, dispositions),
                });
            }
        }
        self.out.push('}');
    }

    /// Writes a result that contains images or documents.
    fn write_parts(&mut self, contents: &[Content], seq: Option<u64>) {
        self.out.push('[');
        for content in contents {
            json::push_comma(self.out);
            if is_sendable(content) {
                self.write_medium(content, seq);
            } else {
                as_text(content, seq, self.dispositions).push_part("text", self.out);
            }
        }
        self.out.push(']');
    }

    fn write_medium_block(&mut self, content: &Content, seq: Option<u64>) {
        self.begin_block();
        self.write_medium(content, seq);
    }

    /// Writes an image or a file as a block.
    fn write_medium(&mut self, content: &Content, seq: Option<u64>) {
        if part::push_block(content, self.out) {
            report_change(self.dispositions, seq, "file_as_text");
        }
    }
}
