//! Recorded items in the shapes of OpenAI's conversation items.

use filrouge_types::{Channel, Item, Part, Role};
use serde_json::{Value, json};

/// Where an OpenAI item stands: the seq of the recorded item, and its place among those made of it.
type Place = (u64, usize);

/// The id of an OpenAI item: `item_SEQ` for the first one made of a recorded item, `item_SEQ_N` for those behind it.
fn id((seq, n): Place) -> String {
    match n {
        0 => format!("item_{seq}"),
        _ => format!("item_{seq}_{n}"),
    }
}

/// The place that an id names; none for what is no id.
pub(crate) fn place(text: &str) -> Option<Place> {
    let numbers = text.strip_prefix("item_")?;
    let (seq, n) = numbers.split_once('_').unwrap_or((numbers, "0"));
    let place = (seq.parse().ok()?, n.parse().ok()?);
    (place.0 > 0 && id(place) == text).then_some(place)
}

/// The OpenAI items of recorded ones, those at the places that `wanted` names.
pub(crate) fn shown(items: &[Item], wanted: impl Fn(Place) -> bool) -> Vec<Value> {
    let mut all = Vec::new();
    for item in items {
        for (n, mut made) in made_of(item).into_iter().enumerate() {
            made["id"] = id((item.seq, n)).into();
            if wanted((item.seq, n)) {
                all.push(made);
            }
        }
    }
    all
}

/// At least one: a call, a result or a thought is an item of its own, and other parts that stand together are one
/// message. A redacted item is a message without content.
fn made_of(item: &Item) -> Vec<Value> {
    let mut made: Vec<Value> = Vec::new();
    for part in Part::all(&item.body.parts) {
        let mut one = of_part(item, &part);
        match (made.last_mut().and_then(content), content(&mut one)) {
            (Some(open), Some(more)) => open.append(more),
            _ => made.push(one),
        }
    }
    if made.is_empty() {
        made.push(message(item.body.role, Vec::new()));
    }
    made
}

/// What a message holds.
fn content(item: &mut Value) -> Option<&mut Vec<Value>> {
    item.get_mut("content")?.as_array_mut()
}

fn of_part(item: &Item, part: &Part<'_>) -> Value {
    let member = |name| part.text(name).unwrap_or_default();
    let text = part.text("text").unwrap_or_else(|| part.says());
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
                "output": part.says(), "status": status })
        }
        (kind, _) if kind == "reasoning" || item.body.channel == Channel::Thought => {
            json!({ "type": "reasoning", "summary": [{ "type": "summary_text", "text": text }] })
        }
        (_, role @ Role::Assistant) => {
            let said = json!({ "type": "output_text", "text": text, "annotations": [] });
            message(role, vec![said])
        }
        (_, role) => message(role, vec![json!({ "type": "input_text", "text": text })]),
    }
}

fn message(role: Role, content: Vec<Value>) -> Value {
    json!({ "type": "message", "role": role, "status": "completed", "content": content })
}
