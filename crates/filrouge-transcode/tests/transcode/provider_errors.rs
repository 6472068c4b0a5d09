//! Tests of provider errors: the same bytes have the same meaning in every format, as a body or as an event.

use filrouge_engine::stream::{StreamEnd, StreamErrorSource};
use filrouge_transcode::{Decoder, StreamFormat};
use serde_json::{Value, json};

/// Bodies of errors, each with its code, its message, and whether a retry may succeed.
const BODIES: &[(&str, &str, &str, bool)] = &[
    (
        r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":429}}"#,
        "insufficient_quota",
        "You exceeded your current quota",
        false,
    ),
    (
        r#"{"error":{"message":"Slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#,
        "rate_limit_exceeded",
        "Slow down",
        true,
    ),
    (
        r#"{"error":{"message":"Slow down","type":"rate_limit_error"}}"#,
        "rate_limit_error",
        "Slow down",
        true,
    ),
    (
        r#"{"error":{"message":"No such model","type":"invalid_request_error","code":null}}"#,
        "invalid_request_error",
        "No such model",
        false,
    ),
    (
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}"#,
        "overloaded_error",
        "Overloaded",
        true,
    ),
    (
        r#"{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}"#,
        "RESOURCE_EXHAUSTED",
        "Resource has been exhausted (e.g. check quota).",
        true,
    ),
    (
        r#"{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}"#,
        "PERMISSION_DENIED",
        "no",
        false,
    ),
    (
        r#"{"error":{"code":502,"message":"Bad gateway","metadata":{}}}"#,
        "502",
        "Bad gateway",
        true,
    ),
    (
        r#"{"error":"model not loaded"}"#,
        "error",
        "model not loaded",
        false,
    ),
    (
        r#"{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","param":null,"code":"1300"}"#,
        "rate_limited",
        "Requests rate limit exceeded",
        true,
    ),
    (
        r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#,
        "BadRequestError",
        "bad",
        false,
    ),
    (r#"{"message":"Not today"}"#, "error", "Not today", false),
    (r#"{"msg":"wait","code":429}"#, "429", "wait", true),
    (
        r#"{"detail":"Not authenticated"}"#,
        "error",
        "Not authenticated",
        false,
    ),
];

/// The error with which a stream ends: its code, its message, and whether it is retryable.
fn decoded_error(format: StreamFormat, bytes: &str) -> (String, String, bool) {
    let mut decoder = Decoder::new(format);
    decoder.push(bytes.as_bytes());
    decoder.end();
    match decoder.transcript().ended() {
        Some(StreamEnd::Failed(error)) => {
            assert_eq!(
                error.source,
                StreamErrorSource::Provider,
                "{format} {bytes}: {error:?}"
            );
            assert!(error.raw.is_some(), "{format} {bytes}");
            let code = error.code.to_string();
            (code, error.message.to_plain(), error.retryable)
        }
        ended => panic!("{format} {bytes}: {ended:?}"),
    }
}

#[test]
fn a_body_has_the_same_meaning_in_every_format() {
    for (body, code, message, retryable) in BODIES {
        for format in StreamFormat::ALL {
            for bytes in [
                (*body).to_owned(),
                format!(" [{body}]\n"),
                format!("data: {body}\n\n"),
                format!("event: error\ndata: {body}\n\n"),
            ] {
                let expected = ((*code).to_owned(), (*message).to_owned(), *retryable);
                assert_eq!(decoded_error(format, &bytes), expected, "{format} {bytes}");
            }
        }
    }
}

/// The events in which a format reports an error.
fn events(format: StreamFormat, error: &Value) -> Vec<Value> {
    // The event's own type replaces the error's.
    let flat = |kind: &str| {
        let mut event = error.as_object()?.clone();
        (event.insert("type".into(), kind.into()).is_none()).then_some(Value::from(event))
    };
    match format {
        StreamFormat::OpenaiChat => vec![
            json!({"choices": [{"index": 0, "delta": {}, "error": error}]}),
            json!({"choices": [], "x_groq": {"error": error}}),
        ],
        StreamFormat::OpenaiResponses => {
            let response = json!({"status": "failed", "error": error});
            let failed = json!({"type": "response.failed", "response": response});
            let complete = json!({"object": "response", "status": "failed", "error": error});
            [failed, complete]
                .into_iter()
                .chain(flat("error"))
                .collect()
        }
        StreamFormat::Anthropic => vec![json!({"type": "error", "error": error})],
        StreamFormat::Gemini => vec![json!({"candidates": [], "error": error})],
        StreamFormat::AgUi => flat("RUN_ERROR").into_iter().collect(),
    }
}

#[test]
fn an_error_event_has_the_same_meaning_as_a_body() {
    for (body, code, message, retryable) in BODIES {
        let body: Value = serde_json::from_str(body).unwrap();
        let error = body.get("error").unwrap_or(&body);
        for format in StreamFormat::ALL {
            for event in events(format, error) {
                let reported = decoded_error(format, &format!("data: {event}\n\n"));
                let expected = ((*code).to_owned(), (*message).to_owned(), *retryable);
                assert_eq!(reported, expected, "{format} {event}");
            }
        }
    }
}
