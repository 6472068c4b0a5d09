//! Streams of Chat Completions, from OpenAI and from compatible servers.

use filrouge_transcode::StreamFormat;

use crate::streams::{self, Stream};

const FORMAT: StreamFormat = StreamFormat::OpenaiChat;

/// The end is the answer's finish reason, or the last event.
fn end_of(stream: &Stream) -> Option<usize> {
    streams::end_of_last_line(stream, &["\"finish_reason\":\""])
        .or_else(|| streams::end_of_last_line(stream, &["[DONE]"]))
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

fn record(events: &[&str]) -> String {
    let text: String = events.iter().map(|e| format!("data: {e}\n\n")).collect();
    streams::recorded(FORMAT, [text.as_bytes()])
}

fn call(index: u32, id: &str, args: &str) -> String {
    format!(
        r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":{index},"id":"{id}","function":{{"name":"n","arguments":"{args}"}}}}]}}}}]}}"#
    )
}

#[test]
fn the_last_event_ends_only_a_begun_response() {
    let reported = record(&["[DONE]"]);
    assert!(
        reported.starts_with("failed stream_truncated stream true"),
        "{reported}"
    );
    let reported = record(&[
        r#"{"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[]}"#,
        "[DONE]",
    ]);
    assert!(reported.starts_with("answered\n"), "{reported}");
}

#[test]
fn text_after_complete_arguments_is_kept_and_counted() {
    let late =
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"late"}}]}}]}"#;
    let reported = record(&[&call(0, "a", "{}"), &call(1, "b", "{}"), late, "[DONE]"]);
    assert!(
        reported.starts_with("continues\nevents (4, 1)\n"),
        "{reported}"
    );
    assert!(
        reported.contains(r#"\"late\""#) || reported.contains(r#""late""#),
        "{reported}"
    );
}

#[test]
fn an_incomplete_call_is_not_released() {
    let more =
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}"#;
    let reported = record(&[
        &call(0, "a", r#"{\"k\":"#),
        &call(1, "b", "{}"),
        more,
        "[DONE]",
    ]);
    assert!(
        reported.starts_with("continues\nevents (4, 0)\n"),
        "{reported}"
    );
    assert!(
        reported.contains(r#""call_id":"a","name":"n","args":{"k":1}"#),
        "{reported}"
    );
}

#[test]
fn a_choice_that_never_finished_leaves_the_response_unfinished() {
    let first = r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    let second = r#"{"choices":[{"index":1,"delta":{"content":"b"}}]}"#;
    assert!(record(&[first]).starts_with("answered\n"));
    let reported = record(&[first, second]);
    assert!(
        reported.starts_with("failed stream_truncated"),
        "{reported}"
    );
}

#[test]
fn aborted_and_filtered_responses_are_not_continued() {
    let end = |reason: &str| {
        let finish = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
        record(&[&call(0, "a", "{}"), &finish, "[DONE]"])
    };
    for (reason, ended) in [
        ("abort", "cancelled"),
        ("content_filter", "answered"),
        ("stop", "continues"),
        ("length", "continues"),
        ("error", "failed error provider true"),
    ] {
        let reported = end(reason);
        assert!(reported.starts_with(ended), "{reason}: {reported}");
    }
}

#[test]
fn values_nested_too_deep_are_kept_as_text() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let chunk = format!(
        r#"{{"choices":[{{"delta":{{"content":"t","annotations":[{deep}]}}}}],"usage":{{"x":{deep}}}}}"#
    );
    let reported = record(&[&chunk, "[DONE]"]);
    assert!(
        reported.contains(&format!(r#""citations":["{deep}"]"#)),
        "{reported}"
    );
    assert!(!reported.contains("\"x\":"), "{reported}");
}
