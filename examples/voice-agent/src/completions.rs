//! Formats answers to `chat/completions` in OpenAI's format: a stream of chunks, or one object.

use serde_json::{Value, json};

/// Formats one chunk as a server-sent event.
fn chunk(model: &str, id: &str, delta: Value, finish: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    let chunk =
        json!({ "id": id, "object": "chat.completion.chunk", "model": model, "choices": [choice] });
    format!("data: {chunk}\n\n")
}

/// Formats an answer as one event per sentence, so that speech can begin with the first one. The whole answer is
/// recorded before the first event is sent.
pub(crate) fn stream(model: &str, id: &str, text: &str) -> String {
    let mut events = chunk(
        model,
        id,
        json!({ "role": "assistant", "content": "" }),
        None,
    );
    for sentence in text.split_inclusive(['.', '!', '?', ';']) {
        events += &chunk(model, id, json!({ "content": sentence }), None);
    }
    events += &chunk(model, id, json!({}), Some("stop"));
    events + "data: [DONE]\n\n"
}

/// Formats an answer as one object.
pub(crate) fn complete(model: &str, id: &str, text: &str) -> Value {
    let message = json!({ "role": "assistant", "content": text });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
    json!({ "id": id, "object": "chat.completion", "model": model, "choices": [choice] })
}
