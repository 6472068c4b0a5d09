//! A plan's way to the messages of a provider.

mod anthropic;
mod chat;
mod gemini;
mod pairs;
mod responses;

use filrouge_engine::restore::{
    Answer, Args, Block, CallResult, Calls, Content, Fates, Plan, PlanTurn, Reasoning, Report, Say,
    Sealed, Speaker,
};
use filrouge_types::RawJson;
use serde::Serialize;

use crate::format::Format;
use crate::json;
use crate::labels::{Label, Rules, labels};
use crate::text::{Text, join, note};

/// A restored conversation in a provider's format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Context {
    /// The messages, a JSON array that goes into the provider's request as it is. It may end with the user's turn or
    /// with tool results; the caller's next message then follows them.
    pub messages: RawJson,
    /// What was kept, left out and changed.
    pub report: Report,
}

/// What stands in for an answer without content.
const NO_OUTPUT: &str = "(no output)";
/// What stands in for an error without content.
const NO_MESSAGE: &str = "(failed without a message)";
/// What a conversation is opened with that the assistant began, where the provider wants the user first.
const OPENING: &str = "[The conversation began with the assistant.]";
/// Why reasoning is left out that the format has no place for.
const NOT_IN_FORMAT: &str = "reasoning_not_in_format";

/// Writes `plan` in `format`. It never fails: what the format cannot hold is left out or changed, and reported.
#[must_use]
pub fn render(plan: Plan, format: Format) -> Context {
    let Plan {
        summary,
        turns,
        mut fates,
    } = plan;
    let mut out = String::from("[");
    let write: Write = match format {
        Format::OpenaiChat => (chat::RULES, chat::write),
        Format::OpenaiResponses => (responses::RULES, responses::write),
        Format::Anthropic => (anthropic::RULES, anthropic::write),
        Format::Gemini => (gemini::RULES, gemini::write),
        Format::Pairs => {
            pairs::write(summary.as_ref(), &turns, &mut fates, &mut out);
            return finish(out, fates);
        }
    };
    let labels = labels(&turns, &write.0);
    let steps = steps(summary.as_ref(), &turns, &labels.labels, &mut fates);
    write.1(&steps, &mut fates, &mut out);
    labels.note(&mut fates);
    finish(out, fates)
}

type Write = (Rules, fn(&[Step<'_>], &mut Fates, &mut String));

fn finish(mut out: String, fates: Fates) -> Context {
    out.push(']');
    Context {
        messages: RawJson::from_checked(out),
        report: fates.report(),
    }
}

/// One step of the conversation, with what it needs from outside itself.
enum Step<'a> {
    /// Somebody says something; never nothing.
    Say(Speaker, &'a Say),
    /// The agent calls tools, at least one, each with its label.
    Calls(&'a Calls, &'a [Label<'a>]),
}

fn steps<'a>(
    summary: Option<&'a Say>,
    turns: &'a [PlanTurn],
    mut labels: &'a [Label<'a>],
    fates: &mut Fates,
) -> Vec<Step<'a>> {
    let blocks = turns.iter().map(|t| t.blocks.len()).sum::<usize>();
    let mut steps = Vec::with_capacity(blocks + 1);
    // The summary is nobody's words in this conversation: the application tells it, as a user.
    steps.extend(summary.and_then(|summary| said(Speaker::User, summary, fates)));
    for block in turns.iter().flat_map(|t| &t.blocks) {
        match block {
            Block::Say(say) => steps.extend(said(say.speaker, say, fates)),
            Block::Calls(calls) => {
                let (own, rest) = labels.split_at(calls.calls.len());
                labels = rest;
                if own.is_empty() {
                    lose_all(&calls.reasoning, NOT_IN_FORMAT, fates);
                } else {
                    steps.push(Step::Calls(calls, own));
                }
            }
        }
    }
    steps
}

/// The step of something said; `None` when nothing is. Reasoning is the agent's, and leads to something.
fn said<'a>(speaker: Speaker, say: &'a Say, fates: &mut Fates) -> Option<Step<'a>> {
    let empty = say.contents.is_empty();
    if empty || speaker != Speaker::Assistant {
        lose_all(&say.reasoning, NOT_IN_FORMAT, fates);
    }
    (!empty).then_some(Step::Say(speaker, say))
}

/// Notes that none of `reasoning` is shown.
fn lose_all(reasoning: &[Reasoning], reason: &'static str, fates: &mut Fates) {
    for thought in reasoning {
        fates.lose(thought.seq, reason);
    }
}

/// Why reasoning is left out by a provider that takes only its own.
const fn foreign(thought: &Reasoning) -> &'static str {
    match &thought.sealed {
        None => "reasoning_unsigned",
        Some(
            Sealed::AnthropicSignature(_)
            | Sealed::AnthropicRedacted(_)
            | Sealed::OpenaiItem { .. }
            | Sealed::GoogleSignature(_)
            | Sealed::Unknown,
        ) => "reasoning_of_other_provider",
    }
}

/// Appends arguments as a JSON object; whether they had to be wrapped.
fn args_object(args: &Args, out: &mut String) -> bool {
    match args {
        Args::Object(object) => {
            out.push_str(object.as_str());
            return false;
        }
        Args::Value(value) => {
            out.push_str("{\"value\":");
            out.push_str(value.as_str());
        }
        Args::Text(text) => {
            out.push_str("{\"text\":");
            out.push_str(text.as_token());
        }
    }
    out.push('}');
    true
}

/// Appends arguments as a string that holds a JSON object; whether they had to be wrapped.
fn args_string(args: &Args, out: &mut String) -> bool {
    let mut object = String::new();
    let wrapped = args_object(args, &mut object);
    json::string(out, &object);
    wrapped
}

/// A medium that the text of a result only points at: it follows all results.
struct Following<'a> {
    number: usize,
    content: &'a Content,
    label: &'a Label<'a>,
}

impl Following<'_> {
    /// What stands before it.
    fn told(&self) -> String {
        let (kind, number) = (kind(self.content), self.number);
        let Label { id, name } = self.label;
        format!("[{kind} {number}: from the result of {name}, call {id}]")
    }
}

/// The content of item `seq`, a tool's result, as text that points at what follows it.
fn point<'a>(
    content: &'a Content,
    seq: Option<u64>,
    label: &'a Label<'a>,
    following: &mut Vec<Following<'a>>,
    fates: &mut Fates,
) -> Text<'a> {
    note(fates, seq, "media_after_result");
    let number = following.len() + 1;
    following.push(Following {
        number,
        content,
        label,
    });
    Text::Plain(format!("[{} {number} follows]", kind(content)).into())
}

const fn kind(content: &Content) -> &'static str {
    match content {
        Content::Image(_) => "image",
        _ => "file",
    }
}

/// Appends what a tool answered as the inside of a JSON string, or the placeholder of an empty answer.
fn push_answer<'a>(
    result: &'a CallResult,
    out: &mut String,
    spell: impl FnMut(&'a Content) -> Text<'a>,
) {
    let said = match &result.answer {
        Answer::Value(value) => {
            json::escape(out, value.as_str());
            true
        }
        Answer::Contents(contents) => join(out, contents.iter().map(spell)),
    };
    if !said {
        out.push_str(if result.ok { NO_OUTPUT } else { NO_MESSAGE });
    }
}
