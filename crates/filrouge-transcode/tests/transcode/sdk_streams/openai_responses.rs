//! Answers of OpenAI's Responses.

use filrouge_provider_rules::Provider;
use serde_json::{Value, json};

use super::output::{Item, call, message, reasoning};
use super::scenario::{Scenario, bad_gateway, named, permanent, retryable};

const PROVIDER: Provider = Provider::OpenaiResponses;

fn response(status: &str, output: &[Value]) -> Value {
    let has_usage = status == "completed" || status == "incomplete";
    let usage = json!({"input_tokens": 1117, "input_tokens_details": {"cached_tokens": 1024, "cache_write_tokens": 50},
        "output_tokens": 146, "output_tokens_details": {"reasoning_tokens": 64}, "total_tokens": 1263});
    json!({"id": "resp_68a", "object": "response", "created_at": 1_762_000_000, "status": status, "background": false,
        "error": null, "incomplete_details": null, "instructions": null, "max_output_tokens": null, "metadata": {},
        "model": "gpt-5.1-2025-11-13", "output": output, "parallel_tool_calls": true, "previous_response_id": null,
        "reasoning": {"effort": "low", "summary": null}, "store": true, "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"}, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "truncation": "disabled", "usage": if has_usage { usage } else { Value::Null }, "user": null})
}

fn numbered(mut events: Vec<Value>) -> String {
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    named(&events)
}

fn begin() -> Vec<Value> {
    let event = |kind: &str| json!({"type": format!("response.{kind}"), "response": response("in_progress", &[])});
    vec![event("created"), event("in_progress")]
}

fn events(items: &[Item]) -> Vec<Value> {
    items.iter().flat_map(|item| item.events.clone()).collect()
}

fn streamed_scenario(name: &'static str, items: &[Item]) -> Scenario {
    stopped_scenario(name, items, None)
}

/// An answer that stopped early for a reason.
fn stopped_scenario(name: &'static str, items: &[Item], reason: Option<&str>) -> Scenario {
    let output: Vec<Value> = items.iter().map(|item| item.done.clone()).collect();
    let status = if reason.is_some() {
        "incomplete"
    } else {
        "completed"
    };
    let mut last = response(status, &output);
    if let Some(reason) = reason {
        last["incomplete_details"] = json!({"reason": reason});
    }
    let end = json!({"type": format!("response.{status}"), "response": last});
    let events = [begin(), events(items), vec![end]].concat();
    Scenario::streamed(PROVIDER, name, numbered(events))
}

fn weather_call(index: usize) -> Item {
    call(
        index,
        "function_call",
        "call_a1",
        "get_weather",
        &["{\"city\":", "\"Münch", "en\"}"],
    )
}

fn time_call(index: usize) -> Item {
    call(
        index,
        "function_call",
        "call_b2",
        "get_time",
        &["{\"zone\": \"Europe/", "Berlin\", \"n\": 1e3}"],
    )
}

fn text_message(deltas: &[&str]) -> Item {
    message(0, "output_text", deltas)
}

fn texts() -> Vec<Scenario> {
    let with_split_escapes = String::from_utf8(
        streamed_scenario("", &[text_message(&["A fox: 🦊; ", "🧵 e\u{301}"])]).body,
    )
    .unwrap();
    // Only the two deltas are split within the character; the repeated complete text is not.
    let with_split_escapes = with_split_escapes
        .replacen("; \"", "; \\ud83e\"", 1)
        .replacen("\"🧵", "\"\\uddf5", 1)
        .replace("; 🧵", "; \\ud83e\\uddf5")
        .replace('🦊', "\\ud83e\\udd8a");
    vec![
        streamed_scenario("text", &[text_message(&["Hello", ", ", "world\n"])]),
        streamed_scenario(
            "text of many scripts",
            &[text_message(&[
                "Grüße, 👩‍👩‍👧 ",
                "мир, 世界\u{2028}",
                "\u{0}\"\\/\t",
            ])],
        ),
        Scenario::streamed(
            PROVIDER,
            "characters in two escapes, in two events",
            with_split_escapes,
        ),
        streamed_scenario("nothing", &[]),
        streamed_scenario(
            "two messages",
            &[
                text_message(&["One. "]),
                message(1, "output_text", &["Two", "."]),
            ],
        ),
        streamed_scenario(
            "refusal",
            &[message(0, "refusal", &["I can't ", "help with that."])],
        ),
        stopped_scenario(
            "text that is too long",
            &[text_message(&["One, two"])],
            Some("max_output_tokens"),
        ),
        stopped_scenario(
            "text that a filter stops",
            &[text_message(&["How to"])],
            Some("content_filter"),
        ),
    ]
}

fn interleaved() -> Scenario {
    let (first, second) = (weather_call(0), time_call(1));
    let mut mixed = Vec::new();
    for at in 0..first.events.len().max(second.events.len()) {
        mixed.extend(
            [&first, &second]
                .into_iter()
                .filter_map(|i| i.events.get(at).cloned()),
        );
    }
    let items = [
        Item {
            events: mixed,
            done: first.done,
        },
        Item {
            events: vec![],
            done: second.done,
        },
    ];
    streamed_scenario("two calls that grow at once", &items)
}

fn steps() -> Vec<Scenario> {
    let reasoning_item = || {
        reasoning(
            0,
            &[&["**Looking** ", "at it"], &["Then 𝛑"]],
            "gAAAAABo1x9=",
        )
    };
    vec![
        streamed_scenario("a call", &[weather_call(0)]),
        streamed_scenario("two calls", &[weather_call(0), time_call(1)]),
        interleaved(),
        streamed_scenario(
            "text and calls",
            &[
                text_message(&["Let me ", "see now."]),
                weather_call(1),
                time_call(2),
            ],
        ),
        streamed_scenario(
            "a call without arguments",
            &[call(0, "function_call", "call_n", "now", &["{}"])],
        ),
        streamed_scenario(
            "arguments that are not JSON",
            &[call(
                0,
                "function_call",
                "call_x",
                "write",
                &["{'text': ", "'a'}"],
            )],
        ),
        stopped_scenario(
            "a call that is too long",
            &[call(
                0,
                "function_call",
                "call_l",
                "write",
                &["{\"text\": \"Once", " upon"],
            )],
            Some("max_output_tokens"),
        ),
        streamed_scenario(
            "a custom tool",
            &[call(
                0,
                "custom_tool_call",
                "call_c3",
                "run_sql",
                &["SELECT ", "1; -- é"],
            )],
        ),
        streamed_scenario(
            "reasoning and calls",
            &[reasoning_item(), weather_call(1), time_call(2)],
        ),
        streamed_scenario(
            "reasoning and text",
            &[reasoning_item(), message(1, "output_text", &["4", "2"])],
        ),
        streamed_scenario(
            "reasoning without words",
            &[
                reasoning(0, &[], "gAAAAABo2="),
                message(1, "output_text", &["42"]),
            ],
        ),
    ]
}

fn unusual_streams() -> Vec<Scenario> {
    let hello = text_message(&["Hello", " there"]);
    let failed = |code: &str, message: &str| {
        let mut last = response("failed", &[]);
        last["error"] = json!({"code": code, "message": message});
        let end = json!({"type": "response.failed", "response": last});
        numbered([begin(), hello.events[..4].to_vec(), vec![end]].concat())
    };
    let error = json!({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down", "param": null});
    let nested = json!({"type": "error", "error": {"type": "invalid_request_error", "code": "context_length_exceeded",
        "message": "Your input exceeds the context window of this model.", "param": "input"}});
    let in_the_middle =
        |error: Value| numbered([begin(), hello.events[..4].to_vec(), vec![error]].concat());
    let mut with_unknown_events = text_message(&["Hello", " there"]);
    with_unknown_events.events.insert(3, json!({"type": "response.output_text.sparkle", "output_index": 0, "item_id": "msg_0", "glitter": 1}));
    with_unknown_events
        .events
        .insert(1, json!({"type": "keepalive"}));
    let streamed_error = |name, body| Scenario::streamed(PROVIDER, name, body);
    vec![
        streamed_scenario("unknown events", &[with_unknown_events]),
        streamed_error(
            "a fault at the end",
            failed("server_error", "The model failed to generate a response."),
        )
        .with_error(retryable("server_error")),
        streamed_error("an error in the middle", in_the_middle(error))
            .with_error(retryable("rate_limit_exceeded")),
        streamed_error("an error in the middle, in a member", in_the_middle(nested))
            .with_error(permanent("context_length_exceeded")),
    ]
}

fn refused() -> Vec<Scenario> {
    let error = |kind: &str, code: Value, message: &str| json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
    let refused =
        |name, status, body: &Value, error| Scenario::refused(PROVIDER, name, status, body, error);
    let limit = error(
        "tokens",
        json!("rate_limit_exceeded"),
        "Rate limit reached for gpt-5.1 on tokens per min (TPM).",
    );
    let quota = error(
        "insufficient_quota",
        json!("insufficient_quota"),
        "You exceeded your current quota.",
    );
    let server = error(
        "server_error",
        json!("server_error"),
        "The server had an error while processing your request.",
    );
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
        bad_gateway(PROVIDER),
    ]
}

fn complete_responses() -> Vec<Scenario> {
    let complete = |name, items: &[Item]| {
        let output: Vec<Value> = items.iter().map(|item| item.done.clone()).collect();
        Scenario::complete(PROVIDER, name, &response("completed", &output))
    };
    let mut failed = response("failed", &[]);
    failed["error"] = json!({"code": "server_error", "message": "The model failed."});
    let error = json!({"error": {"message": "Slow down", "type": "requests", "param": null, "code": "rate_limit_exceeded"}});
    vec![
        complete("complete text", &[text_message(&["Hello 🌍"])]),
        complete("complete refusal", &[message(0, "refusal", &["No."])]),
        complete(
            "complete steps",
            &[
                reasoning(0, &[&["So"], &["then"]], "gAAAAABo1x9="),
                message(1, "output_text", &["Got it."]),
                weather_call(2),
                time_call(3),
            ],
        ),
        Scenario::complete(PROVIDER, "a fault, no stream", &failed)
            .with_error(retryable("server_error")),
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
        steps(),
        unusual_streams(),
        refused(),
        complete_responses(),
    ]
    .concat()
}
