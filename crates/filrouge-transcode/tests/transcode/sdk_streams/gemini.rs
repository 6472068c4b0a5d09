//! Answers of Gemini's streamGenerateContent and generateContent.

use filrouge_provider_rules::Provider;
use serde_json::{Value, json};

use super::scenario::{Scenario, bad_gateway, permanent, retryable, unnamed};

const PROVIDER: Provider = Provider::Gemini;

fn event(parts: Value, reason: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if let Some(reason) = reason {
        candidate["finishReason"] = json!(reason);
    }
    json!({"candidates": [candidate], "modelVersion": "gemini-3-pro-preview", "responseId": "aBcD_123",
        "usageMetadata": {"promptTokenCount": 1117, "candidatesTokenCount": 82, "thoughtsTokenCount": 64,
            "totalTokenCount": 1263, "cachedContentTokenCount": 1024,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1117}]}})
}

/// One event for each part, and the finish reason in the last one.
fn streamed_scenario(name: &'static str, parts: &[Value], reason: &str) -> Scenario {
    let mut events: Vec<Value> = parts
        .iter()
        .map(|part| event(json!([part]), None))
        .collect();
    events.push(event(json!([{"text": ""}]), Some(reason)));
    Scenario::streamed(PROVIDER, name, unnamed(&events).replace('\n', "\r\n"))
}

fn text(text: &str) -> Value {
    json!({"text": text})
}

fn thought(text: &str) -> Value {
    json!({"text": text, "thought": true})
}

fn weather_call(signature: Option<&str>) -> Value {
    let mut part =
        json!({"functionCall": {"name": "get_weather", "args": {"city": "München", "n": 1.5}}});
    if let Some(signature) = signature {
        part["thoughtSignature"] = json!(signature);
    }
    part
}

fn time_call() -> Value {
    json!({"functionCall": {"id": "fc-2", "name": "get_time", "args": {}}})
}

fn answers() -> Vec<Scenario> {
    vec![
        streamed_scenario(
            "text",
            &[text("Hello"), text(", "), text("world\n")],
            "STOP",
        ),
        streamed_scenario(
            "text of many scripts",
            &[
                text("Grüße, 👩‍👩‍👧 "),
                text("мир, 世界\u{2028}"),
                text("\u{0}\"\\/\t"),
            ],
            "STOP",
        ),
        streamed_scenario("no text", &[], "STOP"),
        streamed_scenario("text that is too long", &[text("One, two")], "MAX_TOKENS"),
        streamed_scenario("text that a filter stops", &[text("How to")], "SAFETY"),
        streamed_scenario("a call", &[weather_call(None)], "STOP"),
        streamed_scenario(
            "two calls",
            &[weather_call(Some("c2lnMQ==")), time_call()],
            "STOP",
        ),
        streamed_scenario(
            "text and calls",
            &[
                text("Let me "),
                text("see now."),
                weather_call(None),
                time_call(),
            ],
            "STOP",
        ),
        streamed_scenario(
            "thoughts and text",
            &[thought("Let me "), thought("see."), text("4"), text("2")],
            "STOP",
        ),
        streamed_scenario(
            "thoughts and calls",
            &[
                thought("First."),
                weather_call(Some("c2ln/+8=")),
                time_call(),
            ],
            "STOP",
        ),
        Scenario::streamed(
            PROVIDER,
            "calls in one event",
            unnamed(&[event(
                json!([weather_call(None), weather_call(None), time_call()]),
                Some("STOP"),
            )]),
        ),
    ]
}

fn failures() -> Vec<Scenario> {
    let error = |code: u16, status: &str, message: &str| json!({"error": {"code": code, "message": message, "status": status}});
    let refused = |name, body: &Value, error| {
        let status = body["error"]["code"].as_u64().unwrap();
        Scenario::refused(PROVIDER, name, u16::try_from(status).unwrap(), body, error)
    };
    let limit = error(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota. Please retry in 32s.",
    );
    let server = error(500, "INTERNAL", "An internal error has occurred.");
    let overloaded = error(
        503,
        "UNAVAILABLE",
        "The model is overloaded. Please try again later.",
    );
    let bad_request = error(400, "INVALID_ARGUMENT", "Invalid value at 'contents'.");
    let failing_stream = unnamed(&[event(json!([text("It is")]), None), overloaded.clone()]);
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "gemini-3-pro-preview",
        "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7}});
    vec![
        refused("a rate limit", &limit, retryable("RESOURCE_EXHAUSTED")),
        refused("a fault of the server", &server, retryable("INTERNAL")),
        refused("overloaded", &overloaded, retryable("UNAVAILABLE")),
        refused(
            "a request that is wrong",
            &bad_request,
            permanent("INVALID_ARGUMENT"),
        ),
        Scenario::streamed(PROVIDER, "an error in the middle", failing_stream)
            .with_error(retryable("UNAVAILABLE")),
        Scenario::streamed(PROVIDER, "a prompt that is blocked", unnamed(&[blocked]))
            .with_error(permanent("PROHIBITED_CONTENT")),
        bad_gateway(PROVIDER),
    ]
}

fn complete_responses() -> Vec<Scenario> {
    let parts = json!([thought("First."), {"text": "Got it."}, weather_call(Some("c2lnMQ==")), time_call()]);
    let error = json!({"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}});
    vec![
        Scenario::complete(
            PROVIDER,
            "complete text",
            &event(json!([text("Hello 🌍")]), Some("STOP")),
        ),
        Scenario::complete(PROVIDER, "complete steps", &event(parts, Some("STOP"))),
        Scenario {
            status: 503,
            ..Scenario::complete(PROVIDER, "overloaded, no stream", &error)
        }
        .with_error(retryable("UNAVAILABLE")),
    ]
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    [answers(), failures(), complete_responses()].concat()
}
