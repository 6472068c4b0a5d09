//! Histories for Gemini, each of which breaks a rule.

use serde_json::{Value, json};

use crate::{Rejected, breaks};

fn user(parts: Value) -> Value {
    json!({"role": "user", "parts": parts})
}

fn model(parts: Value) -> Value {
    json!({"role": "model", "parts": parts})
}

fn question() -> Value {
    user(json!([{"text": "x"}]))
}

fn call(name: &str) -> Value {
    json!({"functionCall": {"name": name, "args": {}}})
}

fn response(name: &str) -> Value {
    json!({"functionResponse": {"name": name, "response": {"output": "4 files"}}})
}

/// Sets the id of a part's member `kind`: `functionCall` or `functionResponse`.
fn with_id(mut part: Value, kind: &str, id: &str) -> Value {
    part[kind]["id"] = json!(id);
    part
}

pub(crate) fn rejected() -> Vec<Rejected> {
    [shapes(), turns(), kinds(), calls(), responses()]
        .into_iter()
        .flatten()
        .collect()
}

fn shapes() -> Vec<Rejected> {
    let only_part = |part: Value| json!([user(json!([part]))]);
    let inline =
        |name: &str, data: &str| only_part(json!({"inlineData": {"mimeType": name, "data": data}}));
    vec![
        breaks(
            "unknown-member",
            "contents[0]",
            json!([{"role": "user", "parts": [{"text": "x"}], "name": "Ann"}]),
        ),
        breaks(
            "unknown-member",
            "contents[0].parts[0]",
            only_part(json!({"text": "x", "thought_signature": "AAAA"})),
        ),
        breaks("missing-member", "contents[0]", json!([{"role": "user"}])),
        breaks(
            "missing-member",
            "contents[0]",
            json!([{"parts": [{"text": "x"}]}]),
        ),
        breaks(
            "missing-member",
            "contents[0].parts[0].inlineData",
            only_part(json!({"inlineData": {"data": "AAAA"}})),
        ),
        breaks("wrong-type", "contents[0].parts", json!([user(json!("x"))])),
        breaks(
            "wrong-type",
            "contents[0].parts[0].text",
            only_part(json!({"text": 1})),
        ),
        breaks(
            "wrong-type",
            "contents[1].parts[0].functionCall.args",
            json!([
                question(),
                model(json!([{"functionCall": {"name": "ls", "args": "{}"}}])),
                user(json!([response("ls")]))
            ]),
        ),
        breaks(
            "unknown-value",
            "contents[0].role",
            json!([{"role": "assistant", "parts": [{"text": "x"}]}]),
        ),
        breaks(
            "base64",
            "contents[0].parts[0].inlineData.data",
            inline("image/png", "AA"),
        ),
        breaks(
            "base64",
            "contents[1].parts[0].thoughtSignature",
            json!([
                question(),
                model(json!([{"text": "y", "thoughtSignature": "not base64"}]))
            ]),
        ),
        breaks(
            "url",
            "contents[0].parts[0].fileData.fileUri",
            only_part(json!({"fileData": {"fileUri": "files/abc"}})),
        ),
        breaks(
            "media-type",
            "contents[0].parts[0].inlineData.mimeType",
            inline("png", "AAAA"),
        ),
    ]
}

fn turns() -> Vec<Rejected> {
    vec![
        breaks(
            "first-role",
            "contents[0]",
            json!([model(json!([{"text": "x"}]))]),
        ),
        breaks(
            "alternation",
            "contents[1]",
            json!([question(), question()]),
        ),
        breaks("parts-empty", "contents[0].parts", json!([user(json!([]))])),
        breaks(
            "text-empty",
            "contents[0].parts[0].text",
            json!([user(json!([{"text": ""}]))]),
        ),
        breaks(
            "thought-alone",
            "contents[1]",
            json!([question(), model(json!([{"text": "hm", "thought": true}]))]),
        ),
    ]
}

fn kinds() -> Vec<Rejected> {
    vec![
        breaks(
            "part-kind",
            "contents[0].parts[0]",
            json!([user(json!([{}]))]),
        ),
        breaks(
            "part-kind",
            "contents[0].parts[0]",
            json!([user(json!([
            {"text": "x", "fileData": {"fileUri": "gs://bucket/a.png"}}]))]),
        ),
        breaks(
            "part-kind",
            "contents[1].parts[0]",
            json!([
                question(),
                model(json!([
            {"fileData": {"fileUri": "gs://bucket/a.png"}, "thought": true}, {"text": "y"}]))
            ]),
        ),
        breaks(
            "part-role",
            "contents[0].parts[0]",
            json!([user(json!([{"text": "x", "thought": true}, {"text": "x"}]))]),
        ),
        breaks(
            "part-role",
            "contents[0].parts[0]",
            json!([user(json!([{"text": "x", "thoughtSignature": "AAAA"}]))]),
        ),
        breaks(
            "part-role",
            "contents[0].parts[0]",
            json!([user(json!([call("ls")]))]),
        )
        .also(&["call-position", "call-unanswered"]),
        breaks(
            "part-role",
            "contents[1].parts[0]",
            json!([question(), model(json!([response("ls")]))]),
        )
        .also(&["response-stray"]),
    ]
}

fn calls() -> Vec<Rejected> {
    let exchange_with = |name: &str| {
        json!([
            question(),
            model(json!([call(name)])),
            user(json!([response(name)]))
        ])
    };
    let call_with_id = |id: &str| with_id(call("ls"), "functionCall", id);
    let response_with_id = |id: &str| with_id(response("ls"), "functionResponse", id);
    vec![
        breaks(
            "function-name",
            "contents[1].parts[0].functionCall.name",
            exchange_with("1st"),
        ),
        breaks(
            "function-name",
            "contents[1].parts[0].functionCall.name",
            exchange_with("list files"),
        ),
        breaks(
            "function-name",
            "contents[2].parts[0].functionResponse.name",
            exchange_with(&"f".repeat(65)),
        ),
        breaks(
            "function-call-id",
            "contents[1].parts[0].functionCall.id",
            json!([
                question(),
                model(json!([call_with_id("")])),
                user(json!([response_with_id("")]))
            ]),
        ),
        breaks(
            "function-call-id",
            "contents[1].parts[1].functionCall",
            json!([
                question(),
                model(json!([call_with_id("a"), call_with_id("a")])),
                user(json!([response_with_id("a"), response_with_id("a")]))
            ]),
        ),
        breaks(
            "call-position",
            "contents[0]",
            json!([model(json!([call("ls")])), user(json!([response("ls")]))]),
        )
        .also(&["first-role"]),
        breaks(
            "call-position",
            "contents[2]",
            json!([
                question(),
                model(json!([{"text": "y"}])),
                model(json!([call("ls")])),
                user(json!([response("ls")]))
            ]),
        )
        .also(&["alternation"]),
        breaks(
            "call-unanswered",
            "contents[1]",
            json!([question(), model(json!([call("ls")]))]),
        ),
        breaks(
            "call-unanswered",
            "contents[1]",
            json!([question(), model(json!([call("ls")])), question()]),
        ),
    ]
}

fn responses() -> Vec<Rejected> {
    let exchange =
        |calls: Value, responses: Value| json!([question(), model(calls), user(responses)]);
    let path = "contents[2].parts[0].functionResponse";
    vec![
        breaks(
            "response-count",
            "contents[2]",
            exchange(json!([call("ls"), call("cat")]), json!([response("ls")])),
        ),
        breaks(
            "response-count",
            "contents[2]",
            exchange(json!([call("ls")]), json!([response("ls"), response("ls")])),
        ),
        breaks(
            "response-name",
            path,
            exchange(json!([call("ls")]), json!([response("cat")])),
        ),
        breaks(
            "response-name",
            path,
            exchange(
                json!([call("ls"), call("cat")]),
                json!([response("cat"), response("ls")]),
            ),
        ),
        breaks(
            "response-id",
            path,
            exchange(
                json!([with_id(call("ls"), "functionCall", "a")]),
                json!([response("ls")]),
            ),
        ),
        breaks(
            "response-id",
            path,
            exchange(
                json!([call("ls")]),
                json!([with_id(response("ls"), "functionResponse", "a")]),
            ),
        ),
        breaks(
            "response-stray",
            "contents[0].parts[0].functionResponse",
            json!([user(json!([response("ls")]))]),
        ),
        breaks(
            "response-mixed",
            "contents[2]",
            exchange(
                json!([call("ls")]),
                json!([response("ls"), {"text": "and?"}]),
            ),
        ),
    ]
}
