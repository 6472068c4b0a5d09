//! Plans for tests. The items have consecutive seqs, and their pieces are counted by the engine's rule.

use filrouge_engine::restore::{
    Args, Block, Call, CallResult, Calls, Content, Disposition, Dispositions, Media, MediaSource,
    Message, Pair, Plan, PlanTurn, Provider, Reasoning, Report, ResultContent, Sealed, Speaker,
    Window,
};
use filrouge_provider_rules::{Provider as RulesProvider, check_history};
use filrouge_transcode::{Format, render};
use filrouge_types::{JsonText, RawJson, TurnId, TurnStatus};
use serde_json::Value;

pub(crate) fn json_text(plain: &str) -> JsonText {
    JsonText::from_plain(plain)
}

pub(crate) fn raw(json: &str) -> RawJson {
    RawJson::parse(json).unwrap()
}

pub(crate) fn text(plain: &str) -> Content {
    Content::Text(json_text(plain))
}

pub(crate) fn media(source: MediaSource, mime: &str, name: &str) -> Media {
    let nonempty = |text: &str| (!text.is_empty()).then(|| text.into());
    Media {
        source,
        mime: nonempty(mime),
        name: nonempty(name),
    }
}

pub(crate) fn base64(data: &str) -> MediaSource {
    MediaSource::Base64(data.into())
}

pub(crate) fn url(url: &str) -> MediaSource {
    MediaSource::Url(url.into())
}

pub(crate) fn png() -> Content {
    Content::Image(media(base64("iVBORw=="), "image/png", "a.png"))
}

pub(crate) fn pdf() -> Content {
    Content::File(media(base64("JVBERg=="), "application/pdf", "a.pdf"))
}

pub(crate) fn new_message(speaker: Speaker, contents: Vec<Content>) -> Message {
    Message {
        seq: Some(0),
        speaker,
        reasoning: Vec::new(),
        contents,
    }
}

pub(crate) fn user(plain: &str) -> Block {
    Block::Message(new_message(Speaker::User, vec![text(plain)]))
}

pub(crate) fn assistant(plain: &str) -> Block {
    Block::Message(new_message(Speaker::Assistant, vec![text(plain)]))
}

pub(crate) fn new_reasoning(sealed: Option<Sealed>, plain: &str) -> Reasoning {
    Reasoning {
        seq: 0,
        text: (!plain.is_empty()).then(|| json_text(plain)),
        sealed,
    }
}

/// A text of the assistant with the reasoning before it.
pub(crate) fn text_with_reasoning(reasoning: Vec<Reasoning>, plain: &str) -> Block {
    Block::Message(Message {
        reasoning,
        ..new_message(Speaker::Assistant, vec![text(plain)])
    })
}

/// Sealed reasoning of Anthropic.
pub(crate) fn anthropic_seal(signature: &str) -> Option<Sealed> {
    Some(Sealed::AnthropicSignature(json_text(signature)))
}

/// Sealed reasoning of Google.
pub(crate) fn google_seal(signature: &str) -> Option<Sealed> {
    Some(Sealed::GoogleSignature(json_text(signature)))
}

/// Sealed reasoning of OpenAI.
pub(crate) fn openai_seal(id: &str) -> Option<Sealed> {
    Some(Sealed::OpenaiItem {
        id: json_text(id),
        summary: raw(r#"[{"type":"summary_text","text":"s"}]"#),
        encrypted_content: Some(json_text("enc")),
    })
}

/// A call whose successful result has these contents.
pub(crate) fn call(id: &str, name: &str, contents: Vec<Content>) -> Call {
    Call {
        seq: 0,
        call_id: id.into(),
        name: name.into(),
        args: Args::Object(raw(r#"{"q": "a\"b"}"#)),
        signature: None,
        result: CallResult {
            seq: Some(0),
            ok: true,
            content: ResultContent::Contents(contents),
        },
    }
}

pub(crate) fn failed(mut call: Call) -> Call {
    call.result.ok = false;
    call
}

/// A call whose result is a JSON value.
pub(crate) fn with_value(mut call: Call, value: &str) -> Call {
    call.result.content = ResultContent::Value(raw(value));
    call
}

pub(crate) fn with_signature(mut call: Call, provider: Provider, signature: &str) -> Call {
    call.signature = Some((provider, json_text(signature)));
    call
}

pub(crate) fn calls(calls: Vec<Call>) -> Block {
    Block::Calls(Calls {
        reasoning: Vec::new(),
        calls,
    })
}

pub(crate) fn turn(number: u8, blocks: Vec<Block>) -> PlanTurn {
    PlanTurn {
        turn_id: TurnId::from_derived([number; 16]),
        status: TurnStatus::Finalized,
        blocks,
        pair: None,
    }
}

/// A turn with a question and an answer, for the format of pairs.
pub(crate) fn pair_turn(number: u8, question: &str, answer: &str) -> PlanTurn {
    PlanTurn {
        pair: Some(Pair {
            question: json_text(question),
            answer: json_text(answer),
        }),
        ..turn(number, Vec::new())
    }
}

/// Assigns seqs, and counts the pieces of each item.
#[derive(Default)]
struct SeqCounter {
    last: u64,
    dispositions: Vec<Disposition>,
}

impl SeqCounter {
    fn next_seq(&mut self, pieces: usize) -> u64 {
        self.last += 1;
        let pieces = u32::try_from(pieces).unwrap();
        self.dispositions
            .push(Disposition::new(self.last, pieces, None));
        self.last
    }

    fn number_reasoning(&mut self, reasoning: &mut [Reasoning]) {
        for thought in reasoning {
            thought.seq = self.next_seq(1);
        }
    }

    fn number_message(&mut self, message: &mut Message) {
        self.number_reasoning(&mut message.reasoning);
        message.seq = message.seq.map(|_| self.next_seq(message.contents.len()));
    }

    fn number_calls(&mut self, calls: &mut Calls) {
        self.number_reasoning(&mut calls.reasoning);
        for call in &mut calls.calls {
            call.seq = self.next_seq(1);
            call.result.seq = call.result.seq.map(|_| self.next_seq(1));
        }
    }
}

/// Makes a plan. Every item that has a seq gets a new seq, from 1, and its pieces are counted.
pub(crate) fn plan(mut summary: Option<Message>, mut turns: Vec<PlanTurn>) -> Plan {
    let mut counter = SeqCounter::default();
    if let Some(message) = &mut summary {
        counter.number_message(message);
    }
    for block in turns.iter_mut().flat_map(|t| &mut t.blocks) {
        match block {
            Block::Message(message) => counter.number_message(message),
            Block::Calls(calls) => counter.number_calls(calls),
        }
    }
    Plan {
        summary,
        turns,
        dispositions: Dispositions::new(counter.dispositions, Window::default()),
    }
}

/// The provider whose rules apply to a format; `None` for pairs.
pub(crate) fn rules_provider(format: Format) -> Option<RulesProvider> {
    match format {
        Format::OpenaiChat => Some(RulesProvider::OpenaiChat),
        Format::OpenaiResponses => Some(RulesProvider::OpenaiResponses),
        Format::Anthropic => Some(RulesProvider::Anthropic),
        Format::Gemini => Some(RulesProvider::Gemini),
        Format::Pairs => None,
    }
}

/// Renders a plan, and checks the messages against the provider's rules.
pub(crate) fn render_plan(plan: &Plan, format: Format) -> (Value, Report) {
    let context = render(plan.clone(), format);
    let messages: Value = serde_json::from_str(context.messages.as_str())
        .unwrap_or_else(|error| panic!("{format}: {error}: {}", context.messages.as_str()));
    if let Some(provider) = rules_provider(format) {
        let violations = check_history(provider, &messages);
        assert!(
            violations.is_empty(),
            "{format}: {violations:#?}\n{messages:#}"
        );
    }
    (messages, context.report)
}

/// The messages of one turn.
pub(crate) fn render_messages(blocks: Vec<Block>, format: Format) -> Value {
    render_plan(&plan(None, vec![turn(1, blocks)]), format).0
}

/// Items with the changes or the reasons that a report lists for them.
pub(crate) type ReportedItems = Vec<(u64, &'static str)>;

/// The messages of one turn, and the changes and drops that its report lists.
pub(crate) fn render_turn(
    blocks: Vec<Block>,
    format: Format,
) -> (Value, ReportedItems, ReportedItems) {
    let (messages, report) = render_plan(&plan(None, vec![turn(1, blocks)]), format);
    let adapted = report.adapted.iter().map(|a| (a.seq, a.change)).collect();
    let dropped = report.dropped.iter().map(|d| (d.seq, d.reason)).collect();
    (messages, adapted, dropped)
}
