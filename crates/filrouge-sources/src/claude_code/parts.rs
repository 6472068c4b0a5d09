//! Blocks and what goes with them to parts.

use std::borrow::Cow;

use serde::Deserialize;

use super::record::{Block, Record, Said, Usage};
use super::told::is_put_in;
use crate::jsonl::{Raw, Talk};
use crate::object::{Refusal, Writer};
use crate::{MessageError, PartKind, SkipReason, Tokens};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Queued<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow)]
    pub(super) prompt: Raw<'a>,
    #[serde(borrow)]
    pub(super) command_mode: Raw<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Compacted<'a> {
    #[serde(borrow)]
    trigger: Raw<'a>,
    #[serde(borrow)]
    compacted_tool_ids: Raw<'a>,
}

pub(super) fn trigger_of(metadata: Raw<'_>) -> Option<Cow<'_, str>> {
    metadata.read::<Compacted<'_>>()?.trigger.text()
}

/// The model no longer sees what these tools gave.
pub(super) fn prune(talk: &mut Talk, metadata: Raw<'_>, at: i64) {
    let told: Compacted<'_> = metadata.read().unwrap_or_default();
    for id in told
        .compacted_tool_ids
        .read::<Vec<Raw<'_>>>()
        .unwrap_or_default()
    {
        let id = id.text().unwrap_or_default();
        if let Some(tool) = talk.tool(&id, None) {
            tool.pruned = tool.pruned.or(Some(at));
        }
    }
}

/// The blocks of a content; a string is one text.
pub(super) fn blocks_of(content: Raw<'_>) -> Vec<Block<'_>> {
    if content.token().is_some() {
        let text = Block {
            text: content,
            ..Block::default()
        };
        return vec![text];
    }
    content.read().unwrap_or_default()
}

/// A block of a user's message, or one an agent's can have as well. Never the content of a file.
pub(super) fn user_part(block: &Block<'_>, aside: bool) -> PartKind {
    if let Some(text) = block.text.text() {
        return PartKind::Text {
            synthetic: aside || is_put_in(&text),
            text: text.into(),
        };
    }
    let kind = block.kind.boxed().unwrap_or_else(|| "unknown".into());
    match &*kind {
        "image" | "document" => {
            let source: Source<'_> = block.source.read().unwrap_or_default();
            PartKind::File {
                mime: source.media_type.boxed(),
                name: block.title.boxed(),
                url: source.url.boxed(),
            }
        }
        _ => PartKind::Other {
            json: json_of(block).into(),
            name: kind,
        },
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Source<'a> {
    #[serde(borrow)]
    media_type: Raw<'a>,
    #[serde(borrow)]
    url: Raw<'a>,
}

/// A block of another kind: what is read of it, as JSON.
fn json_of(block: &Block<'_>) -> String {
    let mut json = Writer::default();
    let fields = [
        ("type", block.kind),
        ("tool_use_id", block.tool_use_id),
        ("name", block.name),
        ("input", block.input),
        ("content", block.content),
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
pub(super) fn largest(before: Option<Tokens>, usage: &Usage<'_>) -> Tokens {
    let before = before.unwrap_or_default();
    let of = |raw: Raw<'_>, before: u64| raw.number().unwrap_or(0).max(before);
    Tokens {
        input: of(usage.input_tokens, before.input),
        output: of(usage.output_tokens, before.output),
        reasoning: 0,
        cache_read: of(usage.cache_read_input_tokens, before.cache_read),
        cache_write: of(usage.cache_creation_input_tokens, before.cache_write),
    }
}

pub(super) fn api_error(one: &Record<'_>, said: &Said<'_>) -> MessageError {
    let texts = blocks_of(said.content);
    let text = texts.first().and_then(|block| block.text.text());
    let status = one.api_error_status.number();
    MessageError {
        name: one.error.boxed().unwrap_or_else(|| "api_error".into()),
        message: text.unwrap_or_default().into(),
        retryable: status.is_some_and(|code| code == 429 || code >= 500),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Origin<'a> {
    #[serde(borrow)]
    kind: Raw<'a>,
}

/// Whether a record says that its text comes from the program: `{"kind":"task-notification"}`.
pub(super) fn is_no_person(origin: &str) -> bool {
    let origin: Origin<'_> = serde_json::from_str(origin).unwrap_or_default();
    origin
        .kind
        .text()
        .is_some_and(|kind| kind != "human" && kind != "user")
}
