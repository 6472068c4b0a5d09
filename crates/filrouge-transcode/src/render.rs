//! Renders a plan as messages in a provider's format.

mod anthropic;
mod chat;
mod gemini;
mod pairs;
mod responses;

use filrouge_engine::restore::{
    Args, Block, Call, CallResult, Calls, Content, Dispositions, Message, Plan, PlanTurn,
    Reasoning, Report, ResultContent, Speaker,
};
use filrouge_types::RawJson;
use serde::Serialize;

use crate::format::Format;
use crate::json;
use crate::labels::{Label, LabelRules, assign_labels};
use crate::text::{Text, push_joined, report_change};

/// A restored conversation in a provider's format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Context {
    /// The messages: a JSON array to pass unchanged in the provider's request. It may end with the user's turn or with
    /// tool results; the caller's next message then follows them.
    pub messages: RawJson,
    /// The items that were kept, left out and changed.
    pub report: Report,
}

/// The text that replaces an empty result.
const NO_OUTPUT: &str = "(no output)";
/// The text that replaces an error without a message.
const NO_MESSAGE: &str = "(failed without a message)";
/// The user message that precedes a conversation begun by the assistant, for providers that require the user first.
const OPENING: &str = "[The conversation began with the assistant.]";
/// The reason for leaving out reasoning that the format cannot represent.
const NOT_IN_FORMAT: &str = "reasoning_not_in_format";

/// Renders `plan` in `format`. It never fails: content that the format cannot represent is left out or changed, and
/// reported.
pub fn render(plan: Plan, format: Format) -> Context {
    let Plan {
        summary,
        mut turns,
        mut dispositions,
    } = plan;
    if format == Format::Gemini {
        turns
            .iter_mut()
            .for_each(|turn| gemini::arrange(&mut turn.blocks));
    }
    let mut out = String::from("[");
    let write: Write = match format {
        Format::OpenaiChat => (chat::RULES, chat::write),
        Format::OpenaiResponses => (responses::RULES, responses::write),
        Format::Anthropic => (anthropic::RULES, anthropic::write),
        Format::Gemini => (gemini::RULES, gemini::write),
        Format::Pairs => {
            pairs::write(summary.as_ref(), &turns, &mut dispositions, &mut out);
            return finish(out, dispositions);
        }
    };
    let labels = assign_labels(&turns, &write.0);
    let steps = steps(summary.as_ref(), &turns, &labels.labels, &mut dispositions);
    write.1(&steps, &mut dispositions, &mut out);
    // They are reported last: only the first change of each item is, and a change of its content is more important.
    for (seq, change) in labels.changes {
        dispositions.adapt(seq, change);
    }
    finish(out, dispositions)
}

/// A format's rules for labels, and the function that writes the steps.
type Write = (LabelRules, fn(&[Step<'_>], &mut Dispositions, &mut String));

fn finish(mut out: String, dispositions: Dispositions) -> Context {
    out.push(']');
    Context {
        messages: RawJson::from_checked(out),
        report: dispositions.report(),
    }
}

/// One step of the conversation.
enum Step<'a> {
    /// A speaker's message, which is not empty.
    Message(Speaker, &'a Message),
    /// The agent calls one or more tools; the labels are those of the calls, in their order.
    Calls(&'a Calls, &'a [Label<'a>]),
}

/// The steps of the summary and all turns. Reports what a step leaves out.
fn steps<'a>(
    summary: Option<&'a Message>,
    turns: &'a [PlanTurn],
    mut labels: &'a [Label<'a>],
    dispositions: &mut Dispositions,
) -> Vec<Step<'a>> {
    let blocks = turns.iter().map(|t| t.blocks.len()).sum::<usize>();
    let mut steps = Vec::with_capacity(blocks + 1);
    // The summary has no speaker: the application supplies it, as a user message.
    steps.extend(summary.and_then(|summary| message_step(Speaker::User, summary, dispositions)));
    for block in turns.iter().flat_map(|t| &t.blocks) {
        match block {
            Block::Message(message) => {
                steps.extend(message_step(message.speaker, message, dispositions));
            }
            Block::Calls(calls) => {
                let (call_labels, remaining) = labels.split_at(calls.calls.len());
                labels = remaining;
                if call_labels.is_empty() {
                    omit_reasoning(&calls.reasoning, NOT_IN_FORMAT, dispositions);
                } else {
                    steps.push(Step::Calls(calls, call_labels));
                }
            }
        }
    }
    steps
}

/// The step of a message; `None` for a message without contents. The reasoning of such a message, or of another speaker
/// than the agent, is left out.
fn message_step<'a>(
    speaker: Speaker,
    message: &'a Message,
    dispositions: &mut Dispositions,
) -> Option<Step<'a>> {
    let is_empty = message.contents.is_empty();
    if is_empty || speaker != Speaker::Assistant {
        omit_reasoning(&message.reasoning, NOT_IN_FORMAT, dispositions);
    }
    (!is_empty).then_some(Step::Message(speaker, message))
}

/// Reports that `reasoning` is left out.
fn omit_reasoning(reasoning: &[Reasoning], reason: &'static str, dispositions: &mut Dispositions) {
    for thought in reasoning {
        dispositions.omit_piece(thought.seq, reason);
    }
}

/// The reason for leaving out reasoning that the format's provider cannot verify: unsigned, or of another provider.
const fn foreign_reason(thought: &Reasoning) -> &'static str {
    match thought.sealed {
        None => "reasoning_unsigned",
        Some(_) => "reasoning_of_other_provider",
    }
}

/// Appends a call's arguments as a JSON object; reports them if they were no object and had to be wrapped in one.
fn push_args_object(call: &Call, dispositions: &mut Dispositions, out: &mut String) {
    let (name, value) = match &call.args {
        Args::Object(object) => return out.push_str(object.as_str()),
        Args::Value(value) => ("value", value.as_str()),
        Args::Text(text) => ("text", text.as_token()),
    };
    out.push('{');
    json::push_member(out, name, value);
    out.push('}');
    dispositions.adapt(call.seq, "arguments_wrapped");
}

/// Like [`push_args_object`], but as a JSON string that contains the object. Formats with such strings have no place
/// for a call's signature, so its omission is reported.
fn push_args_string(call: &Call, dispositions: &mut Dispositions, out: &mut String) {
    if call.signature.is_some() {
        dispositions.adapt(call.seq, "call_signature_dropped");
    }
    let mut object = String::new();
    push_args_object(call, dispositions, &mut object);
    json::push_string(out, &object);
}

/// A medium that a result's text only refers to. It is written after all results of the step.
struct DeferredMedium<'a> {
    /// The number in that text, from 1.
    number: usize,
    content: &'a Content,
    label: &'a Label<'a>,
}

impl DeferredMedium<'_> {
    /// The text that precedes the medium.
    fn heading(&self) -> String {
        let (kind, number) = (medium_kind(self.content), self.number);
        let Label { id, name } = self.label;
        format!("[{kind} {number}: from the result of {name}, call {id}]")
    }
}

/// Adds a medium of a tool's result to `deferred`, and returns the text that takes its place in the result. `seq` is
/// the result's item.
fn defer_medium<'a>(
    content: &'a Content,
    seq: Option<u64>,
    label: &'a Label<'a>,
    deferred: &mut Vec<DeferredMedium<'a>>,
    dispositions: &mut Dispositions,
) -> Text<'a> {
    report_change(dispositions, seq, "media_after_result");
    let number = deferred.len() + 1;
    deferred.push(DeferredMedium {
        number,
        content,
        label,
    });
    Text::Plain(format!("[{} {number} follows]", medium_kind(content)).into())
}

const fn medium_kind(content: &Content) -> &'static str {
    match content {
        Content::Image(_) => "image",
        _ => "file",
    }
}

/// Appends a tool's result as a JSON string, or a placeholder for an empty result. A failed one begins with
/// `error_prefix`.
fn push_result<'a>(
    result: &'a CallResult,
    error_prefix: &str,
    out: &mut String,
    as_text: impl FnMut(&'a Content) -> Text<'a>,
) {
    out.push('"');
    if !result.ok {
        out.push_str(error_prefix);
    }
    let has_content = match &result.content {
        ResultContent::Value(value) => {
            json::push_escaped(out, value.as_str());
            true
        }
        ResultContent::Contents(contents) => push_joined(out, contents.iter().map(as_text)),
    };
    if !has_content {
        out.push_str(if result.ok { NO_OUTPUT } else { NO_MESSAGE });
    }
    out.push('"');
}
