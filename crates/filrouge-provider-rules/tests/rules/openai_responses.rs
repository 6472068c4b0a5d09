//! Histories for OpenAI Responses, each of which breaks a rule.

use serde_json::{Value, json};

use crate::{Rejected, breaks};

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "ls", "arguments": "{}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "4 files"})
}

fn reasoning(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": []})
}

fn user(parts: Value) -> Value {
    json!([{"role": "user", "content": parts}])
}

pub(crate) fn rejected() -> Vec<Rejected> {
    [shapes(), media(), messages(), calls(), items()]
        .into_iter()
        .flatten()
        .collect()
}

fn shapes() -> Vec<Rejected> {
    vec![
        breaks(
            "unknown-member",
            "input[0]",
            json!([{"role": "user", "content": "x", "name": "Ann"}]),
        ),
        breaks(
            "unknown-member",
            "input[0].summary[0]",
            json!([
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "x", "index": 0}]}, call("c1"), output("c1")]),
        ),
        breaks("missing-member", "input[0]", json!([{"role": "user"}])),
        breaks("missing-member", "input[0]", json!([{"content": "x"}])),
        breaks(
            "missing-member",
            "input[0].content[0]",
            user(json!([
            {"type": "input_image", "image_url": "https://example.com/a.png"}])),
        ),
        breaks(
            "missing-member",
            "input[0]",
            json!([{"role": "assistant", "id": "msg_1", "status": "completed", "content": [
            {"type": "output_text", "text": "x", "annotations": []}]}]),
        ),
        breaks(
            "missing-member",
            "input[0].content[0]",
            json!([{"type": "message", "role": "assistant", "id": "msg_1",
            "status": "completed", "content": [{"type": "output_text", "text": "x"}]}]),
        ),
        breaks("wrong-type", "input", json!("hello")),
        breaks(
            "wrong-type",
            "input[0].content",
            json!([{"role": "user", "content": 1}]),
        ),
        breaks(
            "wrong-type",
            "input[0].content",
            json!([{"type": "message", "role": "assistant", "id": "msg_1",
            "status": "completed", "content": "x"}]),
        ),
        breaks(
            "wrong-type",
            "input[0].arguments",
            json!([
            {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": {}}, output("c1")]),
        ),
        breaks(
            "unknown-value",
            "input[0].type",
            json!([{"type": "item_reference", "id": "msg_1"}]),
        ),
        breaks(
            "unknown-value",
            "input[0].role",
            json!([{"role": "tool", "content": "x"}]),
        ),
        breaks(
            "unknown-value",
            "input[0].content[0].type",
            user(json!([{"type": "text", "text": "x"}])),
        ),
        breaks(
            "unknown-value",
            "input[0].content[0].type",
            json!([
            {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]),
        ),
        breaks(
            "unknown-value",
            "input[0].content[0].annotations[0].type",
            json!([
            {"role": "assistant", "content": [{"type": "output_text", "text": "x", "annotations": [{"type": "note"}]}]}]),
        ),
        breaks(
            "unknown-value",
            "input[0].status",
            json!([
            {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}", "status": "failed"}, output("c1")]),
        ),
    ]
}

fn media() -> Vec<Rejected> {
    let image =
        |url: &str| user(json!([{"type": "input_image", "image_url": url, "detail": "auto"}]));
    let link = "input[0].content[0].image_url";
    let part = "input[0].content[0]";
    vec![
        breaks("base64", link, image("data:image/png;base64,!!!!")),
        breaks("url", link, image("a.png")),
        breaks("media-type", link, image("data:image/svg+xml;base64,AAAA")),
        breaks(
            "source",
            part,
            user(json!([{"type": "input_image", "detail": "auto"}])),
        ),
        breaks(
            "source",
            part,
            user(json!([
            {"type": "input_image", "detail": "auto", "file_id": "file-1", "image_url": "https://example.com/a.png"}])),
        ),
        breaks(
            "source",
            part,
            user(json!([{"type": "input_file", "filename": "a.pdf"}])),
        ),
        breaks(
            "source",
            part,
            user(json!([{"type": "input_file", "file_data": "data:application/pdf;base64,AAAA"}])),
        ),
    ]
}

fn messages() -> Vec<Rejected> {
    vec![
        breaks(
            "content-empty",
            "input[0].content",
            json!([{"role": "user", "content": ""}]),
        ),
        breaks("content-empty", "input[0].content", user(json!([]))),
        breaks(
            "content-empty",
            "input[0].content[0].text",
            user(json!([{"type": "input_text", "text": ""}])),
        ),
        breaks(
            "content-empty",
            "input[0].content",
            json!([{"role": "assistant", "content": ""}]),
        ),
        breaks(
            "phase-role",
            "input[0].phase",
            json!([{"role": "user", "content": "x", "phase": "commentary"}]),
        ),
    ]
}

fn calls() -> Vec<Rejected> {
    let exchange = |id: &str, name: &str, arguments: &str| json!([{"type": "function_call", "call_id": id, "name": name, "arguments": arguments}, output(id)]);
    vec![
        breaks("call-id", "input[0].call_id", exchange("", "ls", "{}")),
        breaks(
            "call-id",
            "input[0].call_id",
            exchange(&"c".repeat(65), "ls", "{}"),
        ),
        breaks(
            "call-id-reused",
            "input[2].call_id",
            json!([call("c1"), output("c1"), call("c1")]),
        ),
        breaks(
            "function-name",
            "input[0].name",
            exchange("c1", "fs.read", "{}"),
        ),
        breaks(
            "function-name",
            "input[0].name",
            exchange("c1", &"f".repeat(65), "{}"),
        ),
        breaks(
            "arguments",
            "input[0].arguments",
            exchange("c1", "ls", "null"),
        ),
        breaks(
            "arguments",
            "input[0].arguments",
            exchange("c1", "ls", "ls -l"),
        ),
        breaks("call-unanswered", "input[0]", json!([call("c1")])),
        breaks(
            "call-unanswered",
            "input[0]",
            json!([call("c1"), {"role": "user", "content": "go on"}]),
        ),
        breaks("output-stray", "input[0]", json!([output("c1")])),
        breaks(
            "output-stray",
            "input[0]",
            json!([output("c1"), call("c1")]),
        )
        .also(&["call-unanswered"]),
        breaks(
            "output-twice",
            "input[2]",
            json!([call("c1"), output("c1"), output("c1")]),
        ),
    ]
}

fn items() -> Vec<Rejected> {
    let message = |id: &str| {
        json!({"type": "message", "role": "assistant", "id": id, "status": "completed", "content": [
        {"type": "output_text", "text": "x", "annotations": []}]})
    };
    vec![
        breaks("item-id", "input[0].id", json!([message("item_1")])),
        breaks("item-id", "input[0].id", json!([message("msg 1")])),
        breaks(
            "item-id",
            "input[0].id",
            json!([message(&format!("msg_{}", "1".repeat(61)))]),
        ),
        breaks(
            "item-id",
            "input[0].id",
            json!([reasoning("msg_1"), message("msg_2")]),
        ),
        breaks(
            "item-id",
            "input[0].id",
            json!([
            {"type": "function_call", "id": "call_1", "call_id": "call_1", "name": "ls", "arguments": "{}"}, output("call_1")]),
        ),
        breaks(
            "item-id-reused",
            "input[1].id",
            json!([message("msg_1"), message("msg_1")]),
        ),
        breaks("reasoning-alone", "input[0]", json!([reasoning("rs_1")])),
        breaks(
            "reasoning-alone",
            "input[0]",
            json!([reasoning("rs_1"), {"role": "user", "content": "x"}]),
        ),
        breaks(
            "reasoning-alone",
            "input[1]",
            json!([call("c1"), reasoning("rs_1"), output("c1")]),
        ),
        breaks(
            "reasoning-alone",
            "input[1]",
            json!([reasoning("rs_1"), reasoning("rs_2")]),
        ),
    ]
}
