//! Plans for tests. Each item has its own seq, in order, and its pieces are counted as the engine counts them.

use filrouge_engine::restore::{
    Args, Block, Call, CallResult, Calls, Content, Disposition, Dispositions, Media, MediaSource,
    Pair, Plan, PlanTurn, Provider, Reasoning, Report, ResultContent, Say, Sealed, Speaker, Window,
};
use filrouge_provider_rules::{Provider as Rules, check_history};
use filrouge_transcode::{Format, render};
use filrouge_types::{JsonText, RawJson, TurnId, TurnStatus};
use serde_json::Value;

pub(crate) fn token(plain: &str) -> JsonText {
    JsonText::from_plain(plain)
}

pub(crate) fn raw(json: &str) -> RawJson {
    RawJson::parse(json).unwrap()
}

pub(crate) fn text(plain: &str) -> Content {
    Content::Text(token(plain))
}

pub(crate) fn media(source: MediaSource, mime: &str, name: &str) -> Media {
    let some = |text: &str| (!text.is_empty()).then(|| text.into());
    Media {
        source,
        mime: some(mime),
        name: some(name),
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

pub(crate) fn say(speaker: Speaker, contents: Vec<Content>) -> Say {
    Say {
        seq: Some(0),
        speaker,
        reasoning: Vec::new(),
        contents,
    }
}

pub(crate) fn user(plain: &str) -> Block {
    Block::Say(say(Speaker::User, vec![text(plain)]))
}

pub(crate) fn assistant(plain: &str) -> Block {
    Block::Say(say(Speaker::Assistant, vec![text(plain)]))
}

pub(crate) fn thinking(sealed: Option<Sealed>, plain: &str) -> Reasoning {
    Reasoning {
        seq: 0,
        text: (!plain.is_empty()).then(|| token(plain)),
        sealed,
    }
}

/// Text of the assistant with the reasoning that led to it.
pub(crate) fn thought(reasoning: Vec<Reasoning>, plain: &str) -> Block {
    Block::Say(Say {
        reasoning,
        ..say(Speaker::Assistant, vec![text(plain)])
    })
}

/// Sealed reasoning of Anthropic.
pub(crate) fn signed(signature: &str) -> Option<Sealed> {
    Some(Sealed::AnthropicSignature(token(signature)))
}

/// Sealed reasoning of Google.
pub(crate) fn google(signature: &str) -> Option<Sealed> {
    Some(Sealed::GoogleSignature(token(signature)))
}

/// Sealed reasoning of OpenAI.
pub(crate) fn openai(id: &str) -> Option<Sealed> {
    Some(Sealed::OpenaiItem {
        id: token(id),
        summary: raw(r#"[{"type":"summary_text","text":"s"}]"#),
        encrypted_content: Some(token("enc")),
    })
}

/// A successful call with this result.
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
pub(crate) fn valued(mut call: Call, value: &str) -> Call {
    call.result.content = ResultContent::Value(raw(value));
    call
}

pub(crate) fn with_signature(mut call: Call, provider: Provider, signature: &str) -> Call {
    call.signature = Some((provider, token(signature)));
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

/// A turn for the format of pairs.
pub(crate) fn paired(number: u8, question: &str, answer: &str) -> PlanTurn {
    PlanTurn {
        pair: Some(Pair {
            question: token(question),
            answer: token(answer),
        }),
        ..turn(number, Vec::new())
    }
}

/// Assigns seqs, and counts the pieces of each item.
#[derive(Default)]
struct Numbers {
    last: u64,
    dispositions: Vec<Disposition>,
}

impl Numbers {
    fn next(&mut self, pieces: usize) -> u64 {
        self.last += 1;
        let pieces = u32::try_from(pieces).unwrap();
        self.dispositions
            .push(Disposition::new(self.last, pieces, None));
        self.last
    }

    fn reasoning(&mut self, reasoning: &mut [Reasoning]) {
        for thought in reasoning {
            thought.seq = self.next(1);
        }
    }

    fn say(&mut self, say: &mut Say) {
        self.reasoning(&mut say.reasoning);
        say.seq = say.seq.map(|_| self.next(say.contents.len()));
    }

    fn calls(&mut self, calls: &mut Calls) {
        self.reasoning(&mut calls.reasoning);
        for call in &mut calls.calls {
            call.seq = self.next(1);
            call.result.seq = call.result.seq.map(|_| self.next(1));
        }
    }
}

/// Assigns every item that has a seq a new one, from 1, and counts its pieces.
pub(crate) fn plan(mut summary: Option<Say>, mut turns: Vec<PlanTurn>) -> Plan {
    let mut numbers = Numbers::default();
    if let Some(say) = &mut summary {
        numbers.say(say);
    }
    for block in turns.iter_mut().flat_map(|t| &mut t.blocks) {
        match block {
            Block::Say(say) => numbers.say(say),
            Block::Calls(calls) => numbers.calls(calls),
        }
    }
    Plan {
        summary,
        turns,
        dispositions: Dispositions::new(numbers.dispositions, Window::default()),
    }
}

/// The rules of a format's provider.
pub(crate) fn rules(format: Format) -> Option<Rules> {
    match format {
        Format::OpenaiChat => Some(Rules::OpenaiChat),
        Format::OpenaiResponses => Some(Rules::OpenaiResponses),
        Format::Anthropic => Some(Rules::Anthropic),
        Format::Gemini => Some(Rules::Gemini),
        Format::Pairs => None,
    }
}

/// Renders a plan, and checks the messages against the provider's rules.
pub(crate) fn render_plan(plan: &Plan, format: Format) -> (Value, Report) {
    let context = render(plan.clone(), format);
    let messages: Value = serde_json::from_str(context.messages.as_str())
        .unwrap_or_else(|error| panic!("{format}: {error}: {}", context.messages.as_str()));
    if let Some(provider) = rules(format) {
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
pub(crate) type Reported = Vec<(u64, &'static str)>;

/// The messages of one turn, and the changes and drops that its report lists.
pub(crate) fn render_turn(blocks: Vec<Block>, format: Format) -> (Value, Reported, Reported) {
    let (messages, report) = render_plan(&plan(None, vec![turn(1, blocks)]), format);
    let adapted = report.adapted.iter().map(|a| (a.seq, a.change)).collect();
    let dropped = report.dropped.iter().map(|d| (d.seq, d.reason)).collect();
    (messages, adapted, dropped)
}
