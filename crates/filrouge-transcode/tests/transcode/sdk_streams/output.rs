//! Output items of OpenAI's Responses, with their events.

use serde_json::{Value, json};

/// An output item: its events and its final form.
pub(crate) struct Item {
    pub(crate) events: Vec<Value>,
    pub(crate) done: Value,
}

fn added(at: usize, item: &Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": at, "item": item})
}

fn done(at: usize, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": at, "item": item})
}

/// A message of one part; `kind` is `output_text` or `refusal`.
pub(crate) fn message(at: usize, kind: &str, deltas: &[&str]) -> Item {
    let complete = deltas.concat();
    let id = format!("msg_{at}");
    let part = |text: &str| match kind {
        "refusal" => json!({"type": "refusal", "refusal": text}),
        _ => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
    };
    let item = |status: &str, content: Vec<Value>| json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content});
    let event = |what: &str, member: &str, value: Value| {
        let mut event = json!({"type": format!("response.{what}"), "item_id": id, "output_index": at, "content_index": 0});
        event[member] = value;
        if what.starts_with("output_text") {
            event["logprobs"] = json!([]);
        }
        event
    };
    let mut events = vec![
        added(at, &item("in_progress", vec![])),
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
    events.push(done(at, &complete));
    Item {
        events,
        done: complete,
    }
}

/// A call; `kind` is `function_call` or `custom_tool_call`.
pub(crate) fn call(at: usize, kind: &str, call_id: &str, name: &str, deltas: &[&str]) -> Item {
    let (member, stem) = match kind {
        "function_call" => ("arguments", "function_call_arguments"),
        _ => ("input", "custom_tool_call_input"),
    };
    let id = format!("fc_{at}");
    let item = |status: &str, text: &str| {
        let mut item =
            json!({"id": id, "type": kind, "status": status, "call_id": call_id, "name": name});
        item[member] = json!(text);
        item
    };
    let event = |what: &str, member: &str, text: &str| {
        let mut event =
            json!({"type": format!("response.{stem}.{what}"), "item_id": id, "output_index": at});
        event[member] = json!(text);
        event
    };
    let complete = item("completed", &deltas.concat());
    let mut events = vec![added(at, &item("in_progress", ""))];
    events.extend(deltas.iter().map(|d| event("delta", "delta", d)));
    events.push(event("done", member, &deltas.concat()));
    events.push(done(at, &complete));
    Item {
        events,
        done: complete,
    }
}

/// Reasoning with summaries.
pub(crate) fn reasoning(at: usize, summaries: &[&[&str]], sealed: &str) -> Item {
    let id = format!("rs_{at}");
    let begin = json!({"id": id, "type": "reasoning", "summary": []});
    let mut events = vec![added(at, &begin)];
    for (part, deltas) in summaries.iter().enumerate() {
        let event = |what: &str, member: &str, value: Value| {
            let mut event = json!({"type": format!("response.reasoning_summary_{what}"), "item_id": id, "output_index": at, "summary_index": part});
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
    events.push(done(at, &complete));
    Item {
        events,
        done: complete,
    }
}
