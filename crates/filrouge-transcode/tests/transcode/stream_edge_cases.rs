//! Tests of unusual events: the resulting items can always be written. `filrouge-bench fuzz-decoders` found most cases.

use filrouge_engine::stream::{ReadyItem, StreamEnd};
use filrouge_transcode::{Decoder, StreamFormat};
use filrouge_types::RawJson;
use serde::Deserialize;

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
}

/// Decodes these events, and checks that the ledger accepts each item.
fn decode_items(format: StreamFormat, events: &[&str]) -> (Decoder, Vec<ReadyItem>) {
    let mut decoder = Decoder::new(format);
    for event in events {
        decoder.push(format!("data: {event}\n\n").as_bytes());
    }
    decoder.end();
    let items = decoder.transcript_mut().take_ready();
    for ready in &items {
        let parts = RawJson::parse(ready.item.parts.as_str()).unwrap();
        let parts: Vec<Part> = serde_json::from_str(parts.as_str()).unwrap();
        assert!(!parts.is_empty() && parts.iter().all(|part| !part.kind.is_empty()));
        for json in [&ready.item.usage, &ready.item.metadata] {
            let json = json.as_ref().map(|json| RawJson::parse(json.as_str()));
            assert!(json.is_none_or(|json| json.unwrap().is_object()));
        }
    }
    (decoder, items)
}

fn parts_text(items: &[ReadyItem]) -> String {
    let parts = items.iter().map(|ready| ready.item.parts.as_str());
    parts.collect::<Vec<_>>().join("\n")
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[test]
fn a_value_without_a_type_is_not_a_part() {
    let deep = format!(r#"{{"type":"new_call","x":{}}}"#, nested(127));
    for invalid in [
        r#"{"type":7}"#,
        r#"{"type":""}"#,
        r#"{"type":"\ud800"}"#,
        r#"{"x":1}"#,
        &deep,
    ] {
        let message = format!(r#"{{"type":"message","content":[{invalid}]}}"#);
        for item in [invalid, &message] {
            let response =
                format!(r#"{{"object":"response","status":"completed","output":[{item}]}}"#);
            let (decoder, items) = decode_items(StreamFormat::OpenaiResponses, &[&response]);
            assert_eq!(decoder.transcript().events(), (1, 1), "{invalid}");
            assert!(parts_text(&items).contains("raw_event"), "{invalid}");
        }
        let chunk = format!(r#"{{"choices":[{{"index":0,"delta":{{"images":[{invalid}]}}}}]}}"#);
        let (decoder, items) = decode_items(StreamFormat::OpenaiChat, &[&chunk, "[DONE]"]);
        assert_eq!(decoder.transcript().events(), (2, 1), "{invalid}");
        assert!(parts_text(&items).contains("raw_event"), "{invalid}");
    }
}

#[test]
fn an_invalid_model_name_is_ignored() {
    for (model, expected) in [
        ("m\\u0000".to_owned(), None),
        ("m".repeat(5000), None),
        ("m".to_owned(), Some("m")),
    ] {
        let chunk = format!(
            r#"{{"model":"{model}","choices":[{{"index":0,"delta":{{"content":"a"}},"finish_reason":"stop"}}]}}"#
        );
        let (_, items) = decode_items(StreamFormat::OpenaiChat, &[&chunk, "[DONE]"]);
        assert_eq!(items[0].item.model.as_deref(), expected);
    }
}

#[test]
fn counts_that_are_not_an_object_are_kept_as_an_event() {
    for usage in ["7".to_owned(), format!("{{\"x\":{}}}", nested(128))] {
        let text = format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":"a"}}]}},"finishReason":"STOP"}}],"usageMetadata":{usage}}}"#
        );
        let (decoder, items) = decode_items(StreamFormat::Gemini, &[&text]);
        assert_eq!(decoder.transcript().events(), (1, 1));
        assert!(parts_text(&items).contains("raw_event"));
    }
}

#[test]
fn an_unknown_event_is_kept_as_text_if_its_part_would_be_nested_too_deep() {
    for (depth, start) in [
        (126, r#""event":[[["#),
        (127, r#""event":"[[["#),
        (400, r#""event":"[[["#),
    ] {
        let deep = nested(depth);
        let (_, items) = decode_items(StreamFormat::AgUi, &[&deep, r#"{"type":"RUN_FINISHED"}"#]);
        assert!(parts_text(&items).contains(start), "{depth}");
    }
}

#[test]
fn a_call_id_is_derived_from_a_response_id_with_escapes() {
    let text = r#"{"responseId":"a\"","candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]},"finishReason":"STOP"}]}"#;
    let (_, items) = decode_items(StreamFormat::Gemini, &[text]);
    assert!(
        parts_text(&items).contains(r#""call_id":"call_a\"_0""#),
        "{}",
        parts_text(&items)
    );
}

/// Each event differs from the previous event after its text, or before it.
#[test]
fn an_event_may_differ_from_the_previous_event_outside_its_text() {
    let delta = |text: &str, members: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"{members}}}}}"#
        )
    };
    let start =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let events = [
        start,
        &delta("a", ""),
        &delta("b", ""),
        &delta("c", r#","x":"c""#),
        &delta("d", r#","x":"e""#),
        &delta("f", r#","text":"g""#),
        &delta("h", ""),
    ];
    let (decoder, items) = decode_items(StreamFormat::Anthropic, &events);
    let block = decoder.transcript().blocks().next().unwrap();
    assert_eq!(block.parts[0].text, "abcdh");
    assert_eq!(decoder.transcript().events(), (7, 1));
    assert!(parts_text(&items).contains("raw_event"));

    let chunk = |id: &str, delta: &str, members: &str| {
        format!(
            r#"{{"id":"{id}","model":"m","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]{members}}}"#
        )
    };
    let events = [
        &chunk("1", r#"{"content":"a"}"#, ""),
        &chunk("1", r#"{"content":"b"}"#, ""),
        &chunk("2", r#"{"content":"c"}"#, r#","usage":null"#),
        &chunk("2", r#"{"content":"d"}"#, r#","id":"3""#),
        &chunk("2", r#"{"content":"e","tool_calls":[]}"#, ""),
        &chunk("2", r#"{"content":"f"}"#, r#","usage":{"total_tokens":7}"#),
    ];
    let (decoder, items) = decode_items(StreamFormat::OpenaiChat, &events.map(String::as_str));
    let block = decoder.transcript().blocks().next().unwrap();
    assert_eq!(block.parts[0].text, "abcef");
    assert_eq!(decoder.transcript().events(), (6, 1));
    assert_eq!(
        decoder.transcript().reported().0.unwrap().as_str(),
        r#"{"total_tokens":7}"#
    );
    assert!(parts_text(&items).contains("raw_event"));
}

#[test]
fn arguments_nested_too_deep_stay_text() {
    for (depth, start) in [(125, r#""args":{"x":[["#), (126, r#""args":"{\"x\":[["#)] {
        let call = format!(
            r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"c","function":{{"name":"f","arguments":"{{\"x\":{}}}"}}}}]}},"finish_reason":"tool_calls"}}]}}"#,
            nested(depth)
        );
        let (_, items) = decode_items(StreamFormat::OpenaiChat, &[&call, "[DONE]"]);
        assert!(parts_text(&items).contains(start), "{}", parts_text(&items));
    }
}

#[test]
fn an_error_without_a_code_is_an_error() {
    let blocked = r#"{"promptFeedback":{"blockReason":""}}"#;
    let (decoder, _) = decode_items(StreamFormat::Gemini, &[blocked]);
    match decoder.transcript().ended() {
        Some(StreamEnd::Failed(error)) => assert_eq!(&*error.code, "error"),
        other => panic!("{other:?}"),
    }
}
