//! Answers of Anthropic's Messages.

use filrouge_provider_rules::Provider;
use serde_json::{Value, json};

use super::scenario::{Scenario, bad_gateway, named, permanent, retryable};

const PROVIDER: Provider = Provider::Anthropic;

fn message(content: Value, reason: Option<&str>, output: u64) -> Value {
    json!({"id": "msg_01A", "type": "message", "role": "assistant", "model": "claude-opus-4-5-20251101",
        "content": content, "stop_reason": reason, "stop_sequence": null,
        "usage": {"input_tokens": 25, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 1200,
            "cache_creation": {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 0},
            "output_tokens": output, "service_tier": "standard"}})
}

fn begin() -> Value {
    json!({"type": "message_start", "message": message(json!([]), None, 1)})
}

fn end(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"input_tokens": 25, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 1200, "output_tokens": 89, "output_tokens_details": {"thinking_tokens": 31}}}),
        json!({"type": "message_stop"}),
    ]
}

/// A block: its start event and its deltas.
fn block(index: u64, content_block: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "content_block_start", "index": index, "content_block": content_block}),
    ];
    let delta =
        |delta: &Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    events.extend(deltas.iter().map(delta));
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn text(index: u64, texts: &[&str]) -> Vec<Value> {
    let delta = |text: &&str| json!({"type": "text_delta", "text": text});
    block(
        index,
        json!({"type": "text", "text": ""}),
        &texts.iter().map(delta).collect::<Vec<_>>(),
    )
}

fn thinking(index: u64, texts: &[&str], signature: &str) -> Vec<Value> {
    let delta = |text: &&str| json!({"type": "thinking_delta", "thinking": text});
    let mut deltas: Vec<Value> = texts.iter().map(delta).collect();
    deltas.push(json!({"type": "signature_delta", "signature": signature}));
    block(
        index,
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        &deltas,
    )
}

fn tool(index: u64, id: &str, name: &str, input: &[&str]) -> Vec<Value> {
    let delta = |json: &&str| json!({"type": "input_json_delta", "partial_json": json});
    let content_block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    block(
        index,
        content_block,
        &input.iter().map(delta).collect::<Vec<_>>(),
    )
}

fn body(blocks: &[Vec<Value>], reason: &str) -> String {
    let mut events = vec![begin(), json!({"type": "ping"})];
    events.extend(blocks.concat());
    events.extend(end(reason));
    named(&events)
}

fn streamed_scenario(name: &'static str, blocks: &[Vec<Value>], reason: &str) -> Scenario {
    Scenario::streamed(PROVIDER, name, body(blocks, reason))
}

fn weather_call(index: u64) -> Vec<Value> {
    tool(
        index,
        "toolu_01W",
        "get_weather",
        &["", "{\"city\": \"Mün", "chen\", \"unit", "\": \"c\"}"],
    )
}

fn time_call(index: u64) -> Vec<Value> {
    tool(
        index,
        "toolu_02T",
        "get_time",
        &["", "{\"zone\":", " [1, {\"a\": null}], \"n\": -0.50}"],
    )
}

fn texts() -> Vec<Scenario> {
    let with_split_escapes = body(&[text(0, &["A fox: 🦊; ", "🧵 e\u{301}"])], "end_turn");
    vec![
        streamed_scenario("text", &[text(0, &["Hello", ", ", "world\n"])], "end_turn"),
        streamed_scenario(
            "text of many scripts",
            &[text(
                0,
                &["Grüße, 👩‍👩‍👧 ", "мир, 世界\u{2028}\u{85}", "\u{0}\"\\/\t"],
            )],
            "end_turn",
        ),
        Scenario::streamed(
            PROVIDER,
            "characters in two escapes, in two events",
            with_split_escapes
                .replace('🦊', "\\ud83e\\udd8a")
                .replace("; \"", "; \\ud83e\"")
                .replace('🧵', "\\uddf5"),
        ),
        streamed_scenario("no text", &[], "end_turn"),
        streamed_scenario(
            "two texts",
            &[text(0, &["One. "]), text(1, &["Two", "."])],
            "end_turn",
        ),
        streamed_scenario(
            "text that is too long",
            &[text(0, &["One, two"])],
            "max_tokens",
        ),
        streamed_scenario(
            "text up to a stop sequence",
            &[text(0, &["One, two"])],
            "stop_sequence",
        ),
        streamed_scenario("refusal", &[text(0, &["I"])], "refusal"),
        streamed_scenario("a pause", &[text(0, &["Working"])], "pause_turn"),
    ]
}

fn steps() -> Vec<Scenario> {
    let redacted = block(
        1,
        json!({"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4="}),
        &[],
    );
    vec![
        streamed_scenario("a call", &[weather_call(0)], "tool_use"),
        streamed_scenario("two calls", &[weather_call(0), time_call(1)], "tool_use"),
        streamed_scenario(
            "text and calls",
            &[
                text(0, &["Let me ", "see now."]),
                weather_call(1),
                time_call(2),
            ],
            "tool_use",
        ),
        streamed_scenario(
            "a call without input",
            &[tool(0, "toolu_03N", "now", &[""])],
            "tool_use",
        ),
        streamed_scenario(
            "thinking, text and calls",
            &[
                thinking(0, &["Let me ", "see: 𝛑…"], "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"),
                text(1, &["Got it."]),
                weather_call(2),
                time_call(3),
            ],
            "tool_use",
        ),
        streamed_scenario(
            "thinking between calls",
            &[
                thinking(0, &["First."], "c2ln/+8="),
                weather_call(1),
                thinking(2, &["Then."], "c2lnMg=="),
                time_call(3),
            ],
            "tool_use",
        ),
        streamed_scenario(
            "thinking that is sealed",
            &[thinking(0, &["So"], "c2ln"), redacted, text(2, &["42"])],
            "end_turn",
        ),
        streamed_scenario(
            "thinking without words",
            &[thinking(0, &[], "b21pdHRlZA=="), text(1, &["42"])],
            "end_turn",
        ),
        streamed_scenario(
            "a call that is too long",
            &[
                vec![],
                tool(0, "toolu_04L", "write", &["{\"text\": \"Once"]),
            ],
            "max_tokens",
        ),
    ]
}

/// Two calls whose deltas alternate.
fn interleaved() -> Scenario {
    let (first, second) = (weather_call(0), time_call(1));
    let mut mixed = vec![first[0].clone(), second[0].clone()];
    for at in 1..first.len().max(second.len()) {
        mixed.extend(
            [&first, &second]
                .into_iter()
                .filter_map(|block| block.get(at).cloned()),
        );
    }
    streamed_scenario("two calls that grow at once", &[mixed], "tool_use")
}

fn unusual_streams() -> Vec<Scenario> {
    let hello = text(0, &["Hello", " there"]);
    let error = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
    let broken = |error: Value| named(&[vec![begin()], hello[..2].to_vec(), vec![error]].concat());
    let mut with_unknown_events = hello.clone();
    with_unknown_events.insert(
        2,
        json!({"type": "content_block_note", "index": 0, "note": {"a": [1]}}),
    );
    with_unknown_events.insert(1, json!({"type": "ping"}));
    let greeting = body(std::slice::from_ref(&hello), "end_turn");
    let overloaded = error("overloaded_error", "Overloaded");
    vec![
        interleaved(),
        streamed_scenario("unknown events", &[with_unknown_events], "end_turn"),
        Scenario::streamed(
            PROVIDER,
            "line ends of three kinds",
            greeting
                .replacen("\n\n", "\r\n\r\n", 2)
                .replacen("}\n\n", "}\r\r", 1),
        ),
        Scenario::streamed(PROVIDER, "overloaded in the middle", broken(overloaded))
            .with_error(retryable("overloaded_error")),
        Scenario::streamed(
            PROVIDER,
            "a fault in the middle",
            broken(error("api_error", "Internal server error")),
        )
        .with_error(retryable("api_error")),
        Scenario::streamed(
            PROVIDER,
            "an error at the beginning",
            named(&[error("invalid_request_error", "no")]),
        )
        .with_error(permanent("invalid_request_error")),
    ]
}

fn refused() -> Vec<Scenario> {
    let error = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011"});
    let refused =
        |name, status, body: &Value, error| Scenario::refused(PROVIDER, name, status, body, error);
    let limit = error(
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50,000 input tokens per minute.",
    );
    let server = error("api_error", "Internal server error");
    let overloaded = error("overloaded_error", "Overloaded");
    let wrong_key = error("authentication_error", "invalid x-api-key");
    vec![
        refused("a rate limit", 429, &limit, retryable("rate_limit_error")),
        refused(
            "a fault of the server",
            500,
            &server,
            retryable("api_error"),
        ),
        refused(
            "overloaded",
            529,
            &overloaded,
            retryable("overloaded_error"),
        ),
        refused(
            "a key that is wrong",
            401,
            &wrong_key,
            permanent("authentication_error"),
        ),
        bad_gateway(PROVIDER),
    ]
}

fn complete_responses() -> Vec<Scenario> {
    let text = json!([{"type": "text", "text": "Hello 🌍"}]);
    let steps = json!([
        {"type": "thinking", "thinking": "Let me see.", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"},
        {"type": "redacted_thinking", "data": "EmwKAhgB"},
        {"type": "text", "text": "Got it."},
        {"type": "tool_use", "id": "toolu_01W", "name": "get_weather", "input": {"city": "Rome"}},
        {"type": "tool_use", "id": "toolu_02T", "name": "get_time", "input": {}},
    ]);
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    vec![
        Scenario::complete(
            PROVIDER,
            "complete text",
            &message(text, Some("end_turn"), 89),
        ),
        Scenario::complete(
            PROVIDER,
            "complete steps",
            &message(steps, Some("tool_use"), 89),
        ),
        Scenario::complete(
            PROVIDER,
            "complete and empty",
            &message(json!([]), Some("end_turn"), 2),
        ),
        Scenario {
            status: 529,
            ..Scenario::complete(PROVIDER, "overloaded, no stream", &error)
        }
        .with_error(retryable("overloaded_error")),
    ]
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    [
        texts(),
        steps(),
        unusual_streams(),
        refused(),
        complete_responses(),
    ]
    .concat()
}
