//! A plan as lines that tests compare.

use filrouge_engine::restore::{
    Args, Block, Call, Content, Media, MediaSource, Plan, Reasoning, ResultContent, Say, Sealed,
    Speaker,
};

/// One line for each text, for each group of calls, and for the pair of a turn.
pub(crate) fn plan_lines(plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> = plan.summary.iter().map(say).collect();
    for turn in &plan.turns {
        for block in &turn.blocks {
            match block {
                Block::Say(block) => lines.push(say(block)),
                Block::Calls(calls) => {
                    let reasoning = thoughts(&calls.reasoning);
                    let calls: Vec<String> = calls.calls.iter().map(call).collect();
                    lines.push(format!("{reasoning}calls {}", calls.join(" | ")));
                }
            }
        }
        if let Some(pair) = &turn.pair {
            let (question, answer) = (pair.question.inner(), pair.answer.inner());
            lines.push(format!("pair: {question} / {answer}"));
        }
    }
    lines
}

fn say(say: &Say) -> String {
    let speaker = match say.speaker {
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
        Speaker::System => "system",
    };
    let contents = contents(&say.contents);
    format!("{}{speaker}: {contents}", thoughts(&say.reasoning))
}

fn thoughts(thoughts: &[Reasoning]) -> String {
    thoughts.iter().map(thought).collect()
}

fn thought(thought: &Reasoning) -> String {
    let text = thought.text.as_ref().map_or("-", |t| t.inner());
    let sealed = match &thought.sealed {
        None => "",
        Some(Sealed::AnthropicSignature(_)) => " anthropic",
        Some(Sealed::AnthropicRedacted(_)) => " anthropic redacted",
        Some(Sealed::OpenaiItem { .. }) => " openai",
        Some(Sealed::GoogleSignature(_)) => " google",
        Some(Sealed::Unknown) => " unknown",
    };
    format!("({text}{sealed}) ")
}

fn contents(contents: &[Content]) -> String {
    let all: Vec<String> = contents.iter().map(content).collect();
    all.join(" + ")
}

fn content(content: &Content) -> String {
    match content {
        Content::Text(text) => text.inner().to_owned(),
        Content::Refusal(text) => format!("refusal {}", text.inner()),
        Content::Summary(text) => format!("summary {}", text.inner()),
        Content::Mark(mark) => format!("<{mark:?}>"),
        Content::Image(image) => format!("image {}", media(image)),
        Content::File(file) => format!("file {}", media(file)),
    }
}

fn media(media: &Media) -> String {
    let mime = media.mime.as_deref().unwrap_or("?");
    let name = media.name.as_deref().unwrap_or("?");
    let source = match &media.source {
        MediaSource::Base64(data) => format!("base64 {data}"),
        MediaSource::Url(url) => format!("url {url}"),
        MediaSource::Id(id) => format!("id {id}"),
        MediaSource::Elsewhere(at) => format!("at {at}"),
    };
    format!("{mime} {name} {source}")
}

fn call(call: &Call) -> String {
    let args = match &call.args {
        Args::Object(json) => json.as_str().to_owned(),
        Args::Value(json) => format!("value {}", json.as_str()),
        Args::Text(text) => format!("text {}", text.inner()),
    };
    let signed = call.signature.as_ref().map_or("", |_| " signed");
    let failed = if call.result.ok { "" } else { "failed " };
    let result = match &call.result.content {
        ResultContent::Contents(list) if list.is_empty() => "nothing".to_owned(),
        ResultContent::Contents(list) => contents(list),
        ResultContent::Value(json) => format!("value {}", json.as_str()),
    };
    format!(
        "{} {}({args}){signed} = {failed}{result}",
        call.call_id, call.name
    )
}
