//! A plan as lines that tests compare.

use filrouge_engine::restore::{
    Args, Block, Call, Content, Media, MediaSource, Message, Plan, Reasoning, ResultContent,
    Sealed, Speaker,
};

/// One line for each text, for each group of calls, and for the pair of a turn.
pub(crate) fn plan_lines(plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> = plan.summary.iter().map(message_line).collect();
    for turn in &plan.turns {
        for block in &turn.blocks {
            match block {
                Block::Message(message) => lines.push(message_line(message)),
                Block::Calls(calls) => {
                    let reasoning = reasoning_text(&calls.reasoning);
                    let calls: Vec<String> = calls.calls.iter().map(call_text).collect();
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

fn message_line(message: &Message) -> String {
    let speaker = match message.speaker {
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
        Speaker::System => "system",
    };
    let contents = contents_text(&message.contents);
    format!(
        "{}{speaker}: {contents}",
        reasoning_text(&message.reasoning)
    )
}

fn reasoning_text(reasoning: &[Reasoning]) -> String {
    reasoning.iter().map(thought_text).collect()
}

fn thought_text(thought: &Reasoning) -> String {
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

fn contents_text(contents: &[Content]) -> String {
    let texts: Vec<String> = contents.iter().map(content_text).collect();
    texts.join(" + ")
}

fn content_text(content: &Content) -> String {
    match content {
        Content::Text(text) => text.inner().to_owned(),
        Content::Refusal(text) => format!("refusal {}", text.inner()),
        Content::Summary(text) => format!("summary {}", text.inner()),
        Content::Mark(mark) => format!("<{mark:?}>"),
        Content::Image(image) => format!("image {}", media_text(image)),
        Content::File(file) => format!("file {}", media_text(file)),
    }
}

fn media_text(media: &Media) -> String {
    let mime = media.mime.as_deref().unwrap_or("?");
    let name = media.name.as_deref().unwrap_or("?");
    let source = match &media.source {
        MediaSource::Base64(data) => format!("base64 {data}"),
        MediaSource::Url(url) => format!("url {url}"),
        MediaSource::Id(id) => format!("id {id}"),
        MediaSource::Elsewhere(location) => format!("at {location}"),
    };
    format!("{mime} {name} {source}")
}

fn call_text(call: &Call) -> String {
    let args = match &call.args {
        Args::Object(json) => json.as_str().to_owned(),
        Args::Value(json) => format!("value {}", json.as_str()),
        Args::Text(text) => format!("text {}", text.inner()),
    };
    let signed = call.signature.as_ref().map_or("", |_| " signed");
    let failed = if call.result.ok { "" } else { "failed " };
    let result = match &call.result.content {
        ResultContent::Contents(list) if list.is_empty() => "nothing".to_owned(),
        ResultContent::Contents(list) => contents_text(list),
        ResultContent::Value(json) => format!("value {}", json.as_str()),
    };
    format!(
        "{} {}({args}){signed} = {failed}{result}",
        call.call_id, call.name
    )
}
