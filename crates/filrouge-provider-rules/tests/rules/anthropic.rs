//! Histories for Anthropic, each of which breaks a rule.

use serde_json::{Value, json};

use crate::{Rejected, breaks};

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "ls", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "4 files"})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn thinking() -> Value {
    json!({"type": "thinking", "thinking": "hm", "signature": "EqQB"})
}

/// A question, the assistant's call, and its result.
fn exchange(call: Value, result: Value) -> Value {
    json!([
        user(json!("x")),
        assistant(json!([call])),
        user(json!([result]))
    ])
}

pub(crate) fn rejected() -> Vec<Rejected> {
    [shapes(), turns(), tools(), results(), thoughts()]
        .into_iter()
        .flatten()
        .collect()
}

fn shapes() -> Vec<Rejected> {
    let image = |source: Value| json!([user(json!([{"type": "image", "source": source}]))]);
    let document = |source: Value| json!([user(json!([{"type": "document", "source": source}]))]);
    let source = "messages[0].content[0].source";
    vec![
        breaks(
            "unknown-member",
            "messages[0]",
            json!([{"role": "user", "content": "x", "name": "Ann"}]),
        ),
        breaks(
            "unknown-member",
            "messages[0].content[0]",
            json!([user(json!([
            {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]))]),
        ),
        breaks("missing-member", "messages[0]", json!([{"role": "user"}])),
        breaks("missing-member", source, image(json!({"type": "url"}))),
        breaks("wrong-type", "messages", json!({})),
        breaks(
            "wrong-type",
            "messages[0].content",
            json!([user(json!({"type": "text", "text": "x"}))]),
        ),
        breaks(
            "wrong-type",
            "messages[1].content[0].input",
            exchange(
                json!({"type": "tool_use", "id": "t1", "name": "ls", "input": "{}"}),
                result("t1"),
            ),
        ),
        breaks(
            "wrong-type",
            "messages[2].content[0].is_error",
            exchange(
                tool_use("t1"),
                json!({"type": "tool_result", "tool_use_id": "t1", "content": "x", "is_error": "true"}),
            ),
        ),
        breaks(
            "unknown-value",
            "messages[0].role",
            json!([{"role": "system", "content": "x"}]),
        ),
        breaks(
            "unknown-value",
            "messages[0].content[0].type",
            json!([user(json!([{"type": "audio"}]))]),
        ),
        breaks(
            "unknown-value",
            "messages[0].content[0].source.type",
            image(json!({"type": "text", "media_type": "text/plain", "data": "x"})),
        ),
        breaks(
            "base64",
            "messages[0].content[0].source.data",
            image(json!({"type": "base64", "media_type": "image/png", "data": "AA"})),
        ),
        breaks(
            "url",
            "messages[0].content[0].source.url",
            document(json!({"type": "url", "url": "a.pdf"})),
        ),
        breaks(
            "media-type",
            "messages[0].content[0].source.media_type",
            image(json!({"type": "base64", "media_type": "image/bmp", "data": "AAAA"})),
        ),
        breaks(
            "media-type",
            "messages[0].content[0].source.media_type",
            document(json!({"type": "base64", "media_type": "image/png", "data": "AAAA"})),
        ),
        breaks(
            "media-type",
            "messages[0].content[0].source.media_type",
            document(json!({"type": "text", "media_type": "text/html", "data": "x"})),
        ),
        breaks(
            "content-empty",
            "messages[0].content[0].source.content",
            document(json!({"type": "content", "content": []})),
        ),
    ]
}

fn turns() -> Vec<Rejected> {
    vec![
        breaks("first-role", "messages[0]", json!([assistant(json!("x"))])),
        breaks(
            "alternation",
            "messages[1]",
            json!([user(json!("x")), user(json!("y"))]),
        ),
        breaks(
            "content-empty",
            "messages[0].content",
            json!([user(json!(""))]),
        ),
        breaks(
            "content-empty",
            "messages[0].content",
            json!([user(json!([]))]),
        ),
        breaks(
            "content-empty",
            "messages[0].content[0].text",
            json!([user(json!([text("")]))]),
        ),
        breaks(
            "text-whitespace",
            "messages[0].content",
            json!([user(json!(" \n"))]),
        ),
        breaks(
            "text-whitespace",
            "messages[0].content[0].text",
            json!([user(json!([text("\n"), text("x")]))]),
        ),
        breaks(
            "trailing-whitespace",
            "messages[1].content",
            json!([user(json!("x")), assistant(json!("y\n"))]),
        ),
        breaks(
            "trailing-whitespace",
            "messages[1].content",
            json!([user(json!("x")), assistant(json!([text("y ")]))]),
        ),
        breaks(
            "block-role",
            "messages[0].content[0]",
            json!([user(
                json!([{"type": "redacted_thinking", "data": "AAAA"}, text("x")])
            )]),
        ),
        breaks(
            "block-role",
            "messages[1].content[0]",
            json!([
                user(json!("x")),
                assistant(json!([
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}}]))
            ]),
        ),
    ]
}

fn tools() -> Vec<Rejected> {
    let exchange_with = |id: &str, name: &str| {
        exchange(
            json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
            result(id),
        )
    };
    let call = "messages[1].content[0]";
    vec![
        breaks(
            "tool-use-id",
            "messages[1].content[0].id",
            exchange_with("call:1", "ls"),
        ),
        breaks(
            "tool-use-id",
            "messages[1].content[0].id",
            exchange_with("", "ls"),
        ),
        breaks(
            "tool-use-id-reused",
            "messages[1].content[1].id",
            json!([
                user(json!("x")),
                assistant(json!([tool_use("t1"), tool_use("t1")])),
                user(json!([result("t1")]))
            ]),
        ),
        breaks(
            "tool-use-id-reused",
            "messages[3].content[0].id",
            json!([
                user(json!("x")),
                assistant(json!([tool_use("t1")])),
                user(json!([result("t1")])),
                assistant(json!([tool_use("t1")]))
            ]),
        ),
        breaks(
            "tool-name",
            "messages[1].content[0].name",
            exchange_with("t1", "fs.read"),
        ),
        breaks(
            "tool-name",
            "messages[1].content[0].name",
            exchange_with("t1", &"f".repeat(129)),
        ),
        breaks(
            "missing-member",
            call,
            exchange(
                json!({"type": "tool_use", "id": "t1", "name": "ls"}),
                result("t1"),
            ),
        ),
        breaks(
            "tool-use-unanswered",
            "messages[1]",
            json!([user(json!("x")), assistant(json!([tool_use("t1")]))]),
        ),
        breaks(
            "tool-use-unanswered",
            "messages[1]",
            json!([
                user(json!("x")),
                assistant(json!([tool_use("t1")])),
                user(json!("go on"))
            ]),
        ),
        breaks(
            "tool-use-unanswered",
            "messages[1]",
            json!([
                user(json!("x")),
                assistant(json!([tool_use("t1"), tool_use("t2")])),
                user(json!([result("t2")]))
            ]),
        ),
    ]
}

fn results() -> Vec<Rejected> {
    let error = |content: Value| {
        let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": true});
        exchange(tool_use("t1"), result)
    };
    let image =
        json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}});
    let content = "messages[2].content[0].content";
    vec![
        breaks(
            "tool-result-stray",
            "messages[0].content[0]",
            json!([user(json!([result("t1")]))]),
        ),
        breaks(
            "tool-result-stray",
            "messages[4].content[0]",
            json!([
                user(json!("x")),
                assistant(json!([tool_use("t1")])),
                user(json!([result("t1")])),
                assistant(json!("y")),
                user(json!([result("t1")]))
            ]),
        ),
        breaks(
            "tool-result-twice",
            "messages[2].content[1]",
            json!([
                user(json!("x")),
                assistant(json!([tool_use("t1")])),
                user(json!([result("t1"), result("t1")]))
            ]),
        ),
        breaks(
            "tool-result-order",
            "messages[2].content[1]",
            json!([
                user(json!("x")),
                assistant(json!([tool_use("t1")])),
                user(json!([text("here:"), result("t1")]))
            ]),
        ),
        breaks("error-result", content, error(json!(""))),
        breaks("error-result", content, error(json!([]))),
        breaks(
            "error-result",
            "messages[2].content[0].content[0]",
            error(json!([image])),
        ),
        breaks(
            "error-result",
            content,
            exchange(
                tool_use("t1"),
                json!({"type": "tool_result", "tool_use_id": "t1", "is_error": true}),
            ),
        ),
        breaks(
            "content-empty",
            content,
            exchange(
                tool_use("t1"),
                json!({"type": "tool_result", "tool_use_id": "t1", "content": []}),
            ),
        ),
        breaks(
            "unknown-value",
            "messages[2].content[0].content[0].type",
            exchange(
                tool_use("t1"),
                json!({"type": "tool_result", "tool_use_id": "t1", "content": [result("t1")]}),
            ),
        ),
    ]
}

fn thoughts() -> Vec<Rejected> {
    let turn = |blocks: Value| json!([user(json!("x")), assistant(blocks)]);
    vec![
        breaks(
            "signature",
            "messages[1].content[0].signature",
            turn(json!([
            {"type": "thinking", "thinking": "hm", "signature": ""}, text("y")])),
        ),
        breaks(
            "redacted-data",
            "messages[1].content[0].data",
            turn(json!([
            {"type": "redacted_thinking", "data": ""}, text("y")])),
        ),
        breaks(
            "thinking-last",
            "messages[1].content[0]",
            turn(json!([thinking()])),
        ),
        breaks(
            "thinking-first",
            "messages[1].content[0]",
            turn(json!([text("y"), thinking(), text("z")])),
        ),
        breaks(
            "block-role",
            "messages[0].content[0]",
            json!([user(json!([thinking(), text("x")]))]),
        ),
    ]
}
