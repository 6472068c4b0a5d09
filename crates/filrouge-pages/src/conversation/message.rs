//! Renders the messages of a provider's request for reading, whatever its format.

use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use crate::words::ConversationWords;

/// The maximum number of bytes that are shown of one text.
const TEXT_MAX: usize = 16 << 10;
/// The members that have the text of a message.
const TEXTS: [&str; 4] = ["content", "parts", "text", "output"];

/// Renders one message, which is the one with this number.
pub(super) fn render(number: usize, message: &Value, words: &ConversationWords) -> Markup {
    let name = ["role", "type"];
    let name = name.iter().find_map(|name| message.get(name)?.as_str());
    html! {
        article.message id={ "message-" (number) } {
            header { span.role { bdi { (name.unwrap_or(words.item)) } } " " span.meta { (number) } }
            @match message {
                Value::Object(members) => {
                    @for (name, value) in members.iter().filter(|(name, _)| *name != "role") {
                        (member(name, value, words))
                    }
                }
                value => { (json(value, words)) }
            }
        }
    }
}

fn member(name: &str, value: &Value, words: &ConversationWords) -> Markup {
    if !TEXTS.contains(&name) {
        return html! { p.label { bdi { (name) } } (json(value, words)) };
    }
    match value {
        Value::String(content) => text(content, words),
        Value::Array(blocks) => html! { @for block in blocks { (block_of(block, words)) } },
        value => json(value, words),
    }
}

/// A block of a message's content: a text, or anything else as JSON.
fn block_of(block: &Value, words: &ConversationWords) -> Markup {
    match (block, block.get("text")) {
        (Value::String(content), _) | (_, Some(Value::String(content))) => text(content, words),
        _ => json(block, words),
    }
}

fn text(content: &str, words: &ConversationWords) -> Markup {
    limited(content, words, filrouge_document::html_text)
}

fn json(value: &Value, words: &ConversationWords) -> Markup {
    match value {
        Value::Null => html! {},
        Value::String(content) => text(content, words),
        // Cut JSON is no JSON.
        value => match value.to_string() {
            long if long.len() > TEXT_MAX => limited(&long, words, filrouge_document::html_text),
            short => limited(&short, words, filrouge_document::html_json),
        },
    }
}

/// The content, or its beginning and a remark that there is more.
fn limited(content: &str, words: &ConversationWords, render: fn(&str) -> String) -> Markup {
    let end = content.floor_char_boundary(TEXT_MAX);
    html! {
        (PreEscaped(render(&content[..end])))
        @if end < content.len() { p.cut { (words.cut) } }
    }
}
