//! Streams of Anthropic's Messages.

use filrouge_transcode::{Format, StreamFormat};

use crate::streams::{self, Stream};

const FORMAT: StreamFormat = StreamFormat::Anthropic;

/// The end is told by the reason that the message stopped for.
fn told(stream: &Stream) -> Option<usize> {
    streams::up_to(stream, &["\"type\":\"message_delta\""])
}

#[test]
fn streams_are_recorded_as_they_were() {
    streams::check_goldens(FORMAT);
}

#[test]
fn chunks_make_no_difference() {
    streams::check_chunks(FORMAT);
}

#[test]
fn texts_only_grow() {
    streams::check_growth(FORMAT);
}

#[test]
fn a_stream_that_breaks_off_has_failed_with_what_it_had() {
    streams::check_cuts(FORMAT, told);
}

#[test]
fn what_is_recorded_can_be_given_to_every_provider() {
    streams::check_restored(FORMAT);
}

#[test]
fn any_events_and_any_bytes_are_survived() {
    streams::check_storms(FORMAT);
}

const START: &str = r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"claude","usage":{"input_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn record(events: &[&str]) -> String {
    let text: String = events.iter().map(|e| format!("data: {e}\n\n")).collect();
    streams::recorded(FORMAT, [text.as_bytes()])
}

#[test]
fn input_that_comes_in_pieces_stands_over_what_the_block_began_with() {
    let told = record(&[
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"n","input":{"q":"old"}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}"#,
        STOP,
    ]);
    assert!(told.starts_with("continues\n"), "{told}");
    assert!(told.contains(r#""args":{"q":1}"#), "{told}");
}

#[test]
fn what_is_nested_too_deep_is_kept_as_text() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let told = record(&[
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
        told.contains(&format!(r#"{{"start":0,"end":1,"citation":"{deep}"}}"#)),
        "{told}"
    );
    assert!(
        told.contains(&format!(r#""ok":true,"content":"{deep}""#)),
        "{told}"
    );
}

#[test]
fn the_last_event_ends_only_what_has_begun() {
    let told = record(&[STOP]);
    assert!(
        told.starts_with("failed stream_truncated stream true"),
        "{told}"
    );
    let told = record(&[START, STOP]);
    assert!(told.starts_with("answered\n"), "{told}");
}

#[test]
fn an_index_that_is_used_again_ends_the_block_before() {
    let text = |index: u32, text: &str| {
        format!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"tool_use","id":"{text}","name":"n","input":{{"k":"{text}"}}}}}}"#
        )
    };
    let told = record(&[START, &text(0, "a"), &text(0, "b"), STOP]);
    for args in [r#""args":{"k":"a"}"#, r#""args":{"k":"b"}"#] {
        assert!(told.contains(args), "{told}");
    }
}

#[test]
fn reasoning_and_calls_are_given_back_as_they_came() {
    let streams = streams::streams(FORMAT);
    let stream = streams.iter().find(|s| s.name == "thinking_and_calls");
    let messages = streams::restored(stream.unwrap(), FORMAT, Format::Anthropic);
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
