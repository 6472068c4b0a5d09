//! Output items of OpenAI's Responses, with their events.

use serde_json::{Value, json};

/// An output item: its events and its final form.
pub(crate) struct Item {
    pub(crate) events: Vec<Value>,
    pub(crate) done: Value,
}

fn added(output_index: usize, item: &Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": output_index, "item": item})
}

fn done(output_index: usize, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": output_index, "item": item})
}

/// A message of one part; `kind` is `output_text` or `refusal`.
pub(crate) fn message(output_index: usize, kind: &str, deltas: &[&str]) -> Item {
    let complete = deltas.concat();
    let id = format!("msg_{output_index}");
    let part = |text: &str| match kind {
        "refusal" => json!({"type": "refusal", "refusal": text}),
        _ => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
    };
    let item = |status: &str, content: Vec<Value>| json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content});
    let event = |event_name: &str, member: &str, value: Value| {
        let mut event = json!({"type": format!("response.{event_name}"), "item_id": id, "output_index": output_index, "content_index": 0});
        event[member] = value;
        if event_name.starts_with("output_text") {
            event["logprobs"] = json!([]);
        }
        event
    };
    let mut events = vec![
        added(output_index, &item("in_progress", vec![])),
        event("content_part.added", "part", part("")),
    ];
    events.extend(
        deltas
            .iter()
            .map(|d| event(&format!("{kind}.delta"), "delta", json!(d))),
    );
    let member = if kind == "refusal" { "refusal" } else { "text" };
    events.push(event(&format!("{kind}.done"), member, json!(complete)));
    events.push(event("content_part.done", "part", part(&complete)));
    let complete = item("completed", vec![part(&complete)]);
    events.push(done(output_index, &complete));
    Item {
        events,
        done: complete,
    }
}

/// A call; `kind` is `function_call` or `custom_tool_call`.
pub(crate) fn call(
    output_index: usize,
    kind: &str,
    call_id: &str,
    name: &str,
    deltas: &[&str],
) -> Item {
    let (member, stem) = match kind {
        "function_call" => ("arguments", "function_call_arguments"),
        _ => ("input", "custom_tool_call_input"),
    };
    let id = format!("fc_{output_index}");
    let item = |status: &str, text: &str| {
        let mut item =
            json!({"id": id, "type": kind, "status": status, "call_id": call_id, "name": name});
        item[member] = json!(text);
        item
    };
    let event = |event_name: &str, member: &str, text: &str| {
        let mut event = json!({"type": format!("response.{stem}.{event_name}"), "item_id": id, "output_index": output_index});
        event[member] = json!(text);
        event
    };
    let complete = item("completed", &deltas.concat());
    let mut events = vec![added(output_index, &item("in_progress", ""))];
    events.extend(deltas.iter().map(|d| event("delta", "delta", d)));
    events.push(event("done", member, &deltas.concat()));
    events.push(done(output_index, &complete));
    Item {
        events,
        done: complete,
    }
}

/// Reasoning with summaries.
pub(crate) fn reasoning(output_index: usize, summaries: &[&[&str]], sealed: &str) -> Item {
    let id = format!("rs_{output_index}");
    let begin = json!({"id": id, "type": "reasoning", "summary": []});
    let mut events = vec![added(output_index, &begin)];
    for (part, deltas) in summaries.iter().enumerate() {
        let event = |event_name: &str, member: &str, value: Value| {
            let mut event = json!({"type": format!("response.reasoning_summary_{event_name}"), "item_id": id, "output_index": output_index, "summary_index": part});
            event[member] = value;
            event
        };
        let complete = json!({"type": "summary_text", "text": deltas.concat()});
        events.push(event(
            "part.added",
            "part",
            json!({"type": "summary_text", "text": ""}),
        ));
        events.extend(
            deltas
                .iter()
                .map(|d| event("text.delta", "delta", json!(d))),
        );
        events.push(event("text.done", "text", json!(deltas.concat())));
        events.push(event("part.done", "part", complete));
    }
    let parts: Vec<Value> = summaries
        .iter()
        .map(|d| json!({"type": "summary_text", "text": d.concat()}))
        .collect();
    let complete =
        json!({"id": id, "type": "reasoning", "summary": parts, "encrypted_content": sealed});
    events.push(done(output_index, &complete));
    Item {
        events,
        done: complete,
    }
}
