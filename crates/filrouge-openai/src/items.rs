//! Translates recorded items into the items of OpenAI's conversations.

use filrouge_types::{Channel, Item, Part, Role};
use serde_json::{Value, json};

/// The position of an OpenAI item: the seq of the recorded item from which it is derived, and its index, from 0, among
/// the OpenAI items derived from that one.
type Position = (u64, usize);

/// The id of an OpenAI item: `item_SEQ` for the first one derived from a recorded item, `item_SEQ_N` for later ones.
fn format_id((seq, n): Position) -> String {
    match n {
        0 => format!("item_{seq}"),
        _ => format!("item_{seq}_{n}"),
    }
}

/// The position that an OpenAI item's id names; `None` for a malformed id.
pub(crate) fn parse_id(text: &str) -> Option<Position> {
    let numbers = text.strip_prefix("item_")?;
    let (seq, n) = numbers.split_once('_').unwrap_or((numbers, "0"));
    let position = (seq.parse().ok()?, n.parse().ok()?);
    (position.0 > 0 && format_id(position) == text).then_some(position)
}

/// Derives the OpenAI items from recorded ones, and returns those whose position `is_wanted` accepts.
pub(crate) fn openai_items(items: &[Item], is_wanted: impl Fn(Position) -> bool) -> Vec<Value> {
    let mut openai_items = Vec::new();
    for item in items {
        for (n, mut derived) in derive_items(item).into_iter().enumerate() {
            derived["id"] = format_id((item.seq, n)).into();
            if is_wanted((item.seq, n)) {
                openai_items.push(derived);
            }
        }
    }
    openai_items
}

/// Derives one or more OpenAI items from a recorded item, without ids. Each tool call, tool result and reasoning part
/// is a separate OpenAI item; other parts that are adjacent form one message. An item without parts, such as a redacted
/// one, becomes a message without content.
fn derive_items(item: &Item) -> Vec<Value> {
    let mut derived: Vec<Value> = Vec::new();
    for part in Part::all(&item.body.parts) {
        let mut openai_item = derive_item(item, &part);
        match (
            derived.last_mut().and_then(content),
            content(&mut openai_item),
        ) {
            (Some(content), Some(added)) => content.append(added),
            _ => derived.push(openai_item),
        }
    }
    if derived.is_empty() {
        derived.push(message(item.body.role, Vec::new()));
    }
    derived
}

/// The content of an OpenAI item that is a message; `None` for other items.
fn content(item: &mut Value) -> Option<&mut Vec<Value>> {
    item.get_mut("content")?.as_array_mut()
}

fn derive_item(item: &Item, part: &Part<'_>) -> Value {
    let member = |name| part.text(name).unwrap_or_default();
    let text = part.text("text").unwrap_or_else(|| part.display_text());
    match (member("type").as_str(), item.body.role) {
        ("tool_call", _) => {
            let json = part.value("args").map(|args| args.as_str().to_owned());
            let arguments = part.text("args").or(json).unwrap_or_default();
            json!({ "type": "function_call", "call_id": member("call_id"), "name": member("name"),
                "arguments": arguments, "status": "completed" })
        }
        ("tool_result", _) => {
            let failed = part.flag("ok") == Some(false);
            let status = if failed { "incomplete" } else { "completed" };
            json!({ "type": "function_call_output", "call_id": member("call_id"),
                "output": part.display_text(), "status": status })
        }
        (kind, _) if kind == "reasoning" || item.body.channel == Channel::Thought => {
            json!({ "type": "reasoning", "summary": [{ "type": "summary_text", "text": text }] })
        }
        (_, role @ Role::Assistant) => {
            let output = json!({ "type": "output_text", "text": text, "annotations": [] });
            message(role, vec![output])
        }
        (_, role) => message(role, vec![json!({ "type": "input_text", "text": text })]),
    }
}

fn message(role: Role, content: Vec<Value>) -> Value {
    json!({ "type": "message", "role": role, "status": "completed", "content": content })
}
