//! Converts content blocks, and the metadata of records, to parts.

use super::injected::is_injected;
use crate::jsonl::MessageBuilder;
use crate::object::{Object, Refusal, Writer};
use crate::raw::Raw;
use crate::{MessageError, PartKind, SkipReason, Tokens};

/// Marks the tool calls whose output the model no longer sees, as of the time `at`.
pub(super) fn mark_pruned(builder: &mut MessageBuilder, metadata: Raw<'_>, at: i64) {
    let metadata = metadata.object().unwrap_or_default();
    let ids = metadata.field("compactedToolIds").list();
    for id in ids.unwrap_or_default() {
        let id = id.text().unwrap_or_default();
        if let Some(tool) = builder.tool_mut(&id, None) {
            tool.pruned = tool.pruned.or(Some(at));
        }
    }
}

/// Returns the blocks of a message's content; a string counts as one text block.
pub(super) fn blocks_of(content: Raw<'_>) -> Vec<Object<'_>> {
    if content.token().is_some() {
        return vec![Object::with_field("text", content)];
    }
    content.objects().unwrap_or_default()
}

/// Converts a block of a user's message, or a block of an agent's message of a kind that users' messages have too.
/// Never keeps the content of a file. `synthetic` is whether the program wrote the text.
pub(super) fn user_part(block: &Object<'_>, synthetic: bool) -> PartKind {
    if let Some(text) = block.text("text") {
        return PartKind::Text {
            synthetic: synthetic || is_injected(&text),
            text: text.into(),
        };
    }
    let kind = block.boxed("type").unwrap_or_else(|| "unknown".into());
    match &*kind {
        "image" | "document" => {
            let source = block.field("source").object().unwrap_or_default();
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

/// Returns the JSON of a block of an unknown kind, with only the fields listed here.
fn json_of(block: &Object<'_>) -> String {
    let mut json = Writer::default();
    json.copy(block, &["type", "tool_use_id", "name", "input", "content"]);
    json.finish()
}

pub(super) fn missing_message() -> Refusal {
    (
        SkipReason::BadField,
        "message is absent or no object".to_owned(),
    )
}

/// Merges the usage in one record into its message's usage. Of two numbers, the larger one is kept: every record of a
/// message repeats the usage, and in some early versions the usage still grows from record to record.
pub(super) fn merge_usage(earlier: Option<Tokens>, usage: &Object<'_>) -> Tokens {
    let earlier = earlier.unwrap_or_default();
    let larger = |raw: Raw<'_>, earlier: u64| raw.number().unwrap_or(0).max(earlier);
    Tokens {
        input: larger(usage.field("input_tokens"), earlier.input),
        output: larger(usage.field("output_tokens"), earlier.output),
        reasoning: 0,
        cache_read: larger(usage.field("cache_read_input_tokens"), earlier.cache_read),
        cache_write: larger(
            usage.field("cache_creation_input_tokens"),
            earlier.cache_write,
        ),
    }
}

pub(super) fn api_error(json: &Object<'_>, message: &Object<'_>) -> MessageError {
    let texts = blocks_of(message.field("content"));
    let text = texts.first().and_then(|block| block.text("text"));
    let status = json.field("apiErrorStatus").number();
    MessageError {
        name: json.boxed("error").unwrap_or_else(|| "api_error".into()),
        message: text.unwrap_or_default().into(),
        retryable: status.is_some_and(|code| code == 429 || code >= 500),
    }
}

/// Whether the origin of a record says that the program wrote its text, as `{"kind":"task-notification"}` does.
pub(super) fn is_from_program(origin: Raw<'_>) -> bool {
    let kind = origin.object().and_then(|origin| origin.text("kind"));
    kind.is_some_and(|kind| kind != "human" && kind != "user")
}
