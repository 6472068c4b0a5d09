//! Tests of streams of Anthropic's Messages.

use filrouge_transcode::{Format, StreamFormat};

use crate::streams::{self, Stream};

const FORMAT: StreamFormat = StreamFormat::Anthropic;

/// The end is the message's stop reason.
fn end_of(stream: &Stream) -> Option<usize> {
    streams::end_of_last_line(stream, &["\"type\":\"message_delta\""])
}

#[test]
fn streams_match_their_golden_items() {
    streams::check_goldens(FORMAT);
}

#[test]
fn chunking_makes_no_difference() {
    streams::check_chunks(FORMAT);
}

#[test]
fn texts_only_grow() {
    streams::check_growth(FORMAT);
}

#[test]
fn a_truncated_stream_fails_and_keeps_its_items() {
    streams::check_cuts(FORMAT, end_of);
}

#[test]
fn recorded_items_can_be_sent_to_every_provider() {
    streams::check_restored(FORMAT);
}

#[test]
fn any_events_and_bytes_are_decoded_safely() {
    streams::check_random_events(FORMAT);
}

const START: &str = r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"claude","usage":{"input_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn record_of(events: &[&str]) -> String {
    let text: String = events.iter().map(|e| format!("data: {e}\n\n")).collect();
    streams::stream_record(FORMAT, [text.as_bytes()])
}

#[test]
fn streamed_input_overrides_the_blocks_initial_input() {
    let recorded = record_of(&[
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"n","input":{"q":"old"}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}"#,
        STOP,
    ]);
    assert!(recorded.starts_with("continues\n"), "{recorded}");
    assert!(recorded.contains(r#""args":{"q":1}"#), "{recorded}");
}

#[test]
fn values_nested_too_deep_are_kept_as_text() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let recorded = record_of(&[
        START,
        &format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"text","text":"t","citations":[{deep}]}}}}"#
        ),
        r#"{"type":"content_block_stop","index":0}"#,
        &format!(
            r#"{{"type":"content_block_start","index":1,"content_block":{{"type":"x_tool_result","tool_use_id":"c","content":{deep}}}}}"#
        ),
        STOP,
    ]);
    assert!(
        recorded.contains(&format!(r#"{{"start":0,"end":1,"citation":"{deep}"}}"#)),
        "{recorded}"
    );
    assert!(
        recorded.contains(&format!(r#""ok":true,"content":"{deep}""#)),
        "{recorded}"
    );
}

#[test]
fn the_last_event_ends_a_message_only_after_its_start() {
    let recorded = record_of(&[STOP]);
    assert!(
        recorded.starts_with("failed stream_truncated stream true"),
        "{recorded}"
    );
    let recorded = record_of(&[START, STOP]);
    assert!(recorded.starts_with("answered\n"), "{recorded}");
}

#[test]
fn a_reused_index_ends_the_earlier_block() {
    let call = |index: u32, text: &str| {
        format!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"tool_use","id":"{text}","name":"n","input":{{"k":"{text}"}}}}}}"#
        )
    };
    let recorded = record_of(&[START, &call(0, "a"), &call(0, "b"), STOP]);
    for args in [r#""args":{"k":"a"}"#, r#""args":{"k":"b"}"#] {
        assert!(recorded.contains(args), "{recorded}");
    }
}

#[test]
fn reasoning_and_calls_are_restored_unchanged() {
    let streams = streams::streams(FORMAT);
    let stream = streams.iter().find(|s| s.name == "thinking_and_calls");
    let messages = streams::restore_stream(stream.unwrap(), FORMAT, Format::Anthropic);
    let content = serde_json::json!([
        {
            "type": "thinking",
            "thinking": "Two calls will do.",
            "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds",
        },
        {"type": "text", "text": "Okay, let's check."},
        {
            "type": "tool_use",
            "id": "toolu_01T1x1fJ34qAmk2tNTrN7Up6",
            "name": "get_weather",
            "input": {"location": "San Francisco, CA"},
        },
        {"type": "tool_use", "id": "toolu_02", "name": "now", "input": {}},
    ]);
    assert_eq!(messages[1]["content"], content, "{messages:#}");
}
