//! Answers of Chat Completions.

use filrouge_provider_rules::Provider;
use serde_json::{Value, json};

use super::scenario::{Scenario, bad_gateway, permanent, retryable, unnamed};

const PROVIDER: Provider = Provider::OpenaiChat;

fn event(choices: Value) -> Value {
    json!({"id": "chatcmpl-CQx1", "object": "chat.completion.chunk", "created": 1_762_000_000,
        "model": "gpt-5.1-2025-11-13", "service_tier": "default", "system_fingerprint": "fp_1",
        "choices": choices, "obfuscation": "x7"})
}

fn delta(delta: Value) -> Value {
    event(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]))
}

fn text(text: &str) -> Value {
    delta(json!({"content": text}))
}

fn call(index: u64, id: &str, name: &str) -> Value {
    let function = json!({"name": name, "arguments": ""});
    delta(
        json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}),
    )
}

fn arguments(index: u64, arguments: &str) -> Value {
    delta(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
}

fn begin() -> Value {
    delta(json!({"role": "assistant", "content": "", "refusal": null}))
}

fn usage(cached: u64, reasoning: u64) -> Value {
    json!({"prompt_tokens": 1117, "completion_tokens": 146, "total_tokens": 1263,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 50, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}})
}

/// The events after the answer: finish reason, counts, and the end.
fn end(reason: &str, usage: Value) -> Vec<Value> {
    let stop = json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason}]);
    let mut counts = event(json!([]));
    counts["usage"] = usage;
    vec![event(stop), counts]
}

fn body(answer: Vec<Value>, reason: &str) -> String {
    let mut events = vec![begin()];
    events.extend(answer);
    events.extend(end(reason, usage(1024, 64)));
    format!("{}data: [DONE]\n\n", unnamed(&events))
}

fn streamed_scenario(name: &'static str, answer: Vec<Value>, reason: &str) -> Scenario {
    Scenario::streamed(PROVIDER, name, body(answer, reason))
}

fn two_calls() -> Vec<Value> {
    vec![
        call(0, "call_a1", "get_weather"),
        arguments(0, "{\"city\":"),
        arguments(0, "\"Münch"),
        arguments(0, "en\"}"),
        call(1, "call_b2", "get_time"),
        arguments(1, "{\"zone\": \"Europe/"),
        arguments(1, "Berlin\", \"n\": 1e3}"),
    ]
}

fn interleaved() -> Vec<Value> {
    let both = json!({"tool_calls": [
        {"index": 0, "function": {"arguments": "\"Rome\"}"}},
        {"index": 1, "function": {"arguments": "\"CET\"}"}},
    ]});
    vec![
        call(0, "call_a1", "get_weather"),
        call(1, "call_b2", "get_time"),
        arguments(0, "{\"city\":"),
        arguments(1, "{\"zone\":"),
        delta(both),
    ]
}

fn texts() -> Vec<Scenario> {
    let with_split_escapes = body(
        vec![text("A fox: 🦊; "), text("🧵e\u{301}\u{202e}ok")],
        "stop",
    );
    vec![
        streamed_scenario(
            "text",
            vec![text("Hello"), text(", "), text("world\n")],
            "stop",
        ),
        streamed_scenario(
            "text of many scripts",
            vec![
                text("Grüße, 👩‍👩‍👧 "),
                text("мир, 世界\u{2028}"),
                text("\u{0}\"\\/\t"),
            ],
            "stop",
        ),
        Scenario::streamed(
            PROVIDER,
            "characters in two escapes, in two events",
            with_split_escapes
                .replace('🦊', "\\ud83e\\udd8a")
                .replace("; \"", "; \\ud83e\"")
                .replace('🧵', "\\uddf5"),
        ),
        streamed_scenario("no text", vec![], "stop"),
        streamed_scenario("text that is too long", vec![text("One, two")], "length"),
        streamed_scenario(
            "text that a filter stops",
            vec![text("How to")],
            "content_filter",
        ),
        streamed_scenario(
            "refusal",
            vec![
                delta(json!({"refusal": "I can't "})),
                delta(json!({"refusal": "help with that."})),
            ],
            "stop",
        ),
        Scenario::streamed(
            PROVIDER,
            "two answers",
            format!(
                "{}data: [DONE]\n\n",
                unnamed(&[
                    begin(),
                    event(
                        json!([{"index": 1, "delta": {"role": "assistant", "content": "No"}, "finish_reason": null}])
                    ),
                    text("Ye"),
                    event(json!([{"index": 1, "delta": {"content": "."}, "finish_reason": null}])),
                    text("s."),
                    event(json!([{"index": 0, "delta": {}, "finish_reason": "stop"}])),
                    event(json!([{"index": 1, "delta": {}, "finish_reason": "stop"}])),
                ])
            ),
        ),
        streamed_scenario(
            "reasoning of a compatible server",
            vec![
                delta(json!({"reasoning_content": "Let me "})),
                delta(json!({"reasoning_content": "see."})),
                text("42"),
            ],
            "stop",
        ),
    ]
}

fn calls() -> Vec<Scenario> {
    let custom = json!({"tool_calls": [{"index": 0, "id": "call_c3", "type": "custom",
        "custom": {"name": "run_sql", "input": "SELECT "}}]});
    let more = json!({"tool_calls": [{"index": 0, "custom": {"input": "1; -- é"}}]});
    let mut text_and_calls = vec![text("Let me "), text("see now.")];
    text_and_calls.extend(two_calls());
    vec![
        streamed_scenario("a call", two_calls()[..4].to_vec(), "tool_calls"),
        streamed_scenario("two calls", two_calls(), "tool_calls"),
        streamed_scenario("two calls that grow at once", interleaved(), "tool_calls"),
        streamed_scenario("text and calls", text_and_calls, "tool_calls"),
        streamed_scenario(
            "a call without arguments",
            vec![call(0, "call_n", "now"), arguments(0, "{}")],
            "tool_calls",
        ),
        streamed_scenario(
            "a call that is too long",
            vec![
                call(0, "call_l", "write"),
                arguments(0, "{\"text\": \"Once upon"),
            ],
            "length",
        ),
        streamed_scenario(
            "arguments that are not JSON",
            vec![
                call(0, "call_x", "write"),
                arguments(0, "{'text': "),
                arguments(0, "'a'}"),
            ],
            "tool_calls",
        ),
        streamed_scenario(
            "a custom tool",
            vec![delta(custom), delta(more)],
            "tool_calls",
        ),
    ]
}

fn unusual_streams() -> Vec<Scenario> {
    let error = json!({"error": {"message": "The server had an error processing your request.",
        "type": "server_error", "param": null, "code": null}});
    let greeting = body(vec![text("Hi")], "stop");
    let unknown = event(json!([])).as_object().cloned().map(|mut chunk| {
        chunk.insert("object".to_owned(), json!("chat.completion.heartbeat"));
        Value::Object(chunk)
    });
    vec![
        Scenario::streamed(
            PROVIDER,
            "comments, names and unknown events",
            format!(
                ": keep-alive\n\n{}",
                greeting.replacen(
                    "data: {",
                    &format!(
                        "event: chunk\nretry: 10\ndata: {}\n\n: hm\n\ndata: {{",
                        unknown.unwrap()
                    ),
                    2
                )
            ),
        ),
        Scenario::streamed(
            PROVIDER,
            "line ends of three kinds",
            greeting
                .replacen("\n\n", "\r\n\r\n", 3)
                .replacen("}\n\n", "}\r\r", 1),
        ),
        Scenario::streamed(
            PROVIDER,
            "an error in the middle",
            unnamed(&[begin(), text("It is"), text(" so"), error]),
        )
        .with_error(retryable("server_error")),
    ]
}

fn refused() -> Vec<Scenario> {
    let limit = json!({"error": {"message": "Rate limit reached for gpt-5.1 in organization org-1 on tokens per min (TPM): Limit 30000, Used 29000.",
        "type": "tokens", "param": null, "code": "rate_limit_exceeded"}});
    let quota = json!({"error": {"message": "You exceeded your current quota, please check your plan and billing details.",
        "type": "insufficient_quota", "param": null, "code": "insufficient_quota"}});
    let server = json!({"error": {"message": "The server had an error while processing your request. Sorry about that!",
        "type": "server_error", "param": null, "code": null}});
    let request = json!({"error": {"message": "Unknown parameter: 'x'.", "type": "invalid_request_error",
        "param": "x", "code": "unknown_parameter"}});
    let refused =
        |name, status, body: &Value, error| Scenario::refused(PROVIDER, name, status, body, error);
    vec![
        refused(
            "a rate limit",
            429,
            &limit,
            retryable("rate_limit_exceeded"),
        ),
        refused(
            "a quota that is used up",
            429,
            &quota,
            permanent("insufficient_quota"),
        ),
        refused(
            "a fault of the server",
            500,
            &server,
            retryable("server_error"),
        ),
        refused(
            "a request that is wrong",
            400,
            &request,
            permanent("unknown_parameter"),
        ),
        bad_gateway(PROVIDER),
    ]
}

fn complete_responses() -> Vec<Scenario> {
    let answer = |message: Value, reason: &str| {
        json!({"id": "chatcmpl-CQx2", "object": "chat.completion", "created": 1_762_000_000,
            "model": "gpt-5.1-2025-11-13", "system_fingerprint": null, "service_tier": "default",
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": reason}],
            "usage": usage(1024, 64)})
    };
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}});
    let calls = json!({"role": "assistant", "content": "Got it.", "refusal": null,
        "tool_calls": [call("call_a1", "{\"city\": \"Rome\"}"), call("call_b2", "{\"city\": \"Kyōto\"}")]});
    let text =
        json!({"role": "assistant", "content": "Hello 🌍", "refusal": null, "annotations": []});
    let refusal =
        json!({"role": "assistant", "content": null, "refusal": "I can't help with that."});
    let error = json!({"error": {"message": "Slow down", "type": "requests", "param": null, "code": "rate_limit_exceeded"}});
    vec![
        Scenario::complete(PROVIDER, "complete text", &answer(text, "stop")),
        Scenario::complete(PROVIDER, "complete calls", &answer(calls, "tool_calls")),
        Scenario::complete(PROVIDER, "complete refusal", &answer(refusal, "stop")),
        Scenario {
            status: 429,
            ..Scenario::complete(PROVIDER, "a rate limit, no stream", &error)
        }
        .with_error(retryable("rate_limit_exceeded")),
    ]
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    [
        texts(),
        calls(),
        unusual_streams(),
        refused(),
        complete_responses(),
    ]
    .concat()
}
