//! Blocks and what goes with them to parts.

use std::borrow::Cow;

use super::told::is_put_in;
use crate::jsonl::Talk;
use crate::object::{Object, Refusal, Writer};
use crate::raw::Raw;
use crate::{MessageError, PartKind, SkipReason, Tokens};

pub(super) fn trigger_of(metadata: Raw<'_>) -> Option<Cow<'_, str>> {
    metadata.object()?.text("trigger")
}

/// The model no longer sees what these tools gave.
pub(super) fn prune(talk: &mut Talk, metadata: Raw<'_>, at: i64) {
    let told = metadata.object().unwrap_or_default();
    for id in told.at("compactedToolIds").list().unwrap_or_default() {
        let id = id.text().unwrap_or_default();
        if let Some(tool) = talk.tool(&id, None) {
            tool.pruned = tool.pruned.or(Some(at));
        }
    }
}

/// The blocks of a content; a string is one text.
pub(super) fn blocks_of(content: Raw<'_>) -> Vec<Object<'_>> {
    if content.token().is_some() {
        return vec![Object::of("text", content)];
    }
    content.objects().unwrap_or_default()
}

/// A block of a user's message, or one an agent's can have as well. Never the content of a file.
pub(super) fn user_part(block: &Object<'_>, aside: bool) -> PartKind {
    if let Some(text) = block.text("text") {
        return PartKind::Text {
            synthetic: aside || is_put_in(&text),
            text: text.into(),
        };
    }
    let kind = block.boxed("type").unwrap_or_else(|| "unknown".into());
    match &*kind {
        "image" | "document" => {
            let source = block.at("source").object().unwrap_or_default();
            PartKind::File {
                mime: source.boxed("media_type"),
                name: block.boxed("title"),
                url: source.boxed("url"),
            }
        }
        _ => PartKind::Other {
            json: json_of(block).into(),
            name: kind,
        },
    }
}

/// A block of another kind: what is read of it, as JSON.
fn json_of(block: &Object<'_>) -> String {
    let mut json = Writer::default();
    let fields = [
        ("type", block.at("type")),
        ("tool_use_id", block.at("tool_use_id")),
        ("name", block.at("name")),
        ("input", block.at("input")),
        ("content", block.at("content")),
    ];
    for (key, value) in fields {
        if let Some(raw) = value.json() {
            json.raw(key, raw);
        }
    }
    json.finish()
}

pub(super) fn no_message() -> Refusal {
    (
        SkipReason::BadField,
        "message is absent or no object".to_owned(),
    )
}

/// A message's usage is told by each of its records, by some early versions while it still grows.
pub(super) fn largest(before: Option<Tokens>, usage: &Object<'_>) -> Tokens {
    let before = before.unwrap_or_default();
    let of = |raw: Raw<'_>, before: u64| raw.number().unwrap_or(0).max(before);
    Tokens {
        input: of(usage.at("input_tokens"), before.input),
        output: of(usage.at("output_tokens"), before.output),
        reasoning: 0,
        cache_read: of(usage.at("cache_read_input_tokens"), before.cache_read),
        cache_write: of(usage.at("cache_creation_input_tokens"), before.cache_write),
    }
}

pub(super) fn api_error(one: &Object<'_>, said: &Object<'_>) -> MessageError {
    let texts = blocks_of(said.at("content"));
    let text = texts.first().and_then(|block| block.text("text"));
    let status = one.at("apiErrorStatus").number();
    MessageError {
        name: one.boxed("error").unwrap_or_else(|| "api_error".into()),
        message: text.unwrap_or_default().into(),
        retryable: status.is_some_and(|code| code == 429 || code >= 500),
    }
}

/// Whether a record says that its text comes from the program: `{"kind":"task-notification"}`.
pub(super) fn is_no_person(origin: Raw<'_>) -> bool {
    let kind = origin.object().and_then(|origin| origin.text("kind"));
    kind.is_some_and(|kind| kind != "human" && kind != "user")
}
