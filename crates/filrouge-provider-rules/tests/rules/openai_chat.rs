//! Histories for OpenAI Chat Completions, each of which breaks a rule.

use serde_json::{Value, json};

use crate::{Rejected, breaks};

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn assistant_calls(calls: &[Value]) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn tool_message(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "4 files"})
}

fn user(parts: Value) -> Value {
    json!([{"role": "user", "content": parts}])
}

pub(crate) fn rejected() -> Vec<Rejected> {
    [shapes(), contents(), calls(), tool_messages()]
        .into_iter()
        .flatten()
        .collect()
}

fn shapes() -> Vec<Rejected> {
    let image = |url: &str| user(json!([{"type": "image_url", "image_url": {"url": url}}]));
    let link = "messages[0].content[0].image_url.url";
    let audio = json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "ogg"}});
    vec![
        breaks(
            "unknown-member",
            "messages[0]",
            json!([{"role": "user", "content": "x", "id": "m1"}]),
        ),
        breaks(
            "unknown-member",
            "messages[0].content[0]",
            user(json!([{"type": "text", "text": "x", "index": 0}])),
        ),
        breaks("missing-member", "messages[0]", json!([{"role": "user"}])),
        breaks("missing-member", "messages[0]", json!([{"content": "x"}])),
        breaks(
            "wrong-type",
            "messages[0].content",
            json!([{"role": "user", "content": null}]),
        ),
        breaks("wrong-type", "messages[0]", json!(["x"])),
        breaks(
            "wrong-type",
            "messages",
            json!({"role": "user", "content": "x"}),
        ),
        breaks(
            "wrong-type",
            "messages[0].tool_calls",
            json!([{"role": "assistant", "content": "x", "tool_calls": null}]),
        ),
        breaks(
            "unknown-value",
            "messages[0].role",
            json!([{"role": "function", "content": "x", "name": "f"}]),
        ),
        breaks(
            "unknown-value",
            "messages[0].content[0].type",
            user(json!([{"type": "input_text", "text": "x"}])),
        ),
        breaks(
            "unknown-value",
            "messages[0].content[0].type",
            json!([{"role": "system", "content": [
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}]),
        ),
        breaks(
            "unknown-value",
            "messages[0].content[0].input_audio.format",
            user(json!([audio])),
        ),
        breaks("base64", link, image("data:image/png;base64,AAA")),
        breaks("url", link, image("file:///tmp/a.png")),
        breaks("media-type", link, image("data:image/tiff;base64,AAAA")),
        breaks(
            "file-source",
            "messages[0].content[0].file",
            user(json!([{"type": "file", "file": {"file_data": "data:text/plain;base64,AAAA"}}])),
        ),
        breaks(
            "file-source",
            "messages[0].content[0].file",
            user(json!([{"type": "file", "file": {}}])),
        ),
        breaks(
            "participant-name",
            "messages[0].name",
            json!([{"role": "user", "content": "x", "name": "A B"}]),
        ),
    ]
}

fn contents() -> Vec<Rejected> {
    let only = |message: Value| json!([message]);
    vec![
        breaks(
            "content-empty",
            "messages[0].content",
            json!([{"role": "user", "content": ""}]),
        ),
        breaks("content-empty", "messages[0].content", user(json!([]))),
        breaks(
            "content-empty",
            "messages[0].content[0].text",
            user(json!([{"type": "text", "text": ""}])),
        ),
        breaks(
            "content-empty",
            "messages[0].refusal",
            only(json!({"role": "assistant", "refusal": ""})),
        ),
        breaks(
            "content-missing",
            "messages[0]",
            only(json!({"role": "assistant"})),
        ),
        breaks(
            "content-missing",
            "messages[0]",
            only(json!({"role": "assistant", "content": null, "refusal": null})),
        ),
        breaks(
            "refusal-part",
            "messages[0].content[1]",
            only(json!({"role": "assistant", "content": [
            {"type": "text", "text": "x"}, {"type": "refusal", "refusal": "no"}]})),
        ),
    ]
}

fn calls() -> Vec<Rejected> {
    let exchange = |id: &str, name: &str, arguments: &str| {
        json!([
            assistant_calls(&[call(id, name, arguments)]),
            tool_message(id)
        ])
    };
    let function = "messages[0].tool_calls[0].function";
    let name = "messages[0].tool_calls[0].function.name";
    let arguments = "messages[0].tool_calls[0].function.arguments";
    vec![
        breaks(
            "missing-member",
            function,
            json!([
                assistant_calls(&[json!({
            "id": "c1", "type": "function", "function": {"name": "ls"}})]),
                tool_message("c1")
            ]),
        ),
        breaks(
            "tool-calls-empty",
            "messages[0].tool_calls",
            json!([{"role": "assistant", "content": "x", "tool_calls": []}]),
        ),
        breaks(
            "call-id",
            "messages[0].tool_calls[0].id",
            exchange("", "ls", "{}"),
        ),
        breaks(
            "call-id",
            "messages[0].tool_calls[0].id",
            exchange(&"c".repeat(41), "ls", "{}"),
        ),
        breaks(
            "call-id-reused",
            "messages[0].tool_calls[1].id",
            json!([
                assistant_calls(&[call("c1", "ls", "{}"), call("c1", "ls", "{}")]),
                tool_message("c1")
            ]),
        ),
        breaks(
            "call-id-reused",
            "messages[1].tool_calls[0].id",
            json!([
                assistant_calls(&[call("c1", "ls", "{}")]),
                assistant_calls(&[call("c1", "ls", "{}")]),
                tool_message("c1")
            ]),
        )
        .also(&["call-unanswered"]),
        breaks("function-name", name, exchange("c1", "", "{}")),
        breaks("function-name", name, exchange("c1", "fs.read", "{}")),
        breaks("function-name", name, exchange("c1", &"f".repeat(65), "{}")),
        breaks("arguments", arguments, exchange("c1", "ls", "")),
        breaks("arguments", arguments, exchange("c1", "ls", "[1]")),
        breaks("arguments", arguments, exchange("c1", "ls", "{\"path\":")),
    ]
}

fn tool_messages() -> Vec<Rejected> {
    let one_call = || assistant_calls(&[call("c1", "ls", "{}")]);
    vec![
        breaks(
            "call-unanswered",
            "messages[0].tool_calls",
            json!([one_call()]),
        ),
        breaks(
            "call-unanswered",
            "messages[0].tool_calls",
            json!([one_call(), {"role": "user", "content": "go on"}]),
        ),
        breaks(
            "call-unanswered",
            "messages[0].tool_calls",
            json!([
                assistant_calls(&[call("c1", "ls", "{}"), call("c2", "ls", "{}")]),
                tool_message("c1")
            ]),
        ),
        breaks(
            "call-answered-twice",
            "messages[2]",
            json!([one_call(), tool_message("c1"), tool_message("c1")]),
        ),
        breaks(
            "tool-message-stray",
            "messages[0]",
            json!([tool_message("c1")]),
        ),
        breaks(
            "tool-message-stray",
            "messages[3]",
            json!([
            one_call(), tool_message("c1"), {"role": "user", "content": "x"}, tool_message("c1")]),
        ),
        breaks(
            "tool-call-id-unknown",
            "messages[2]",
            json!([one_call(), tool_message("c1"), tool_message("c2")]),
        ),
    ]
}
