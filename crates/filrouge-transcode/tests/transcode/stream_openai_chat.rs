//! Tests of streams of Chat Completions, from OpenAI and from compatible servers.

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

fn record_of(events: &[&str]) -> String {
    let text: String = events.iter().map(|e| format!("data: {e}\n\n")).collect();
    streams::stream_record(FORMAT, [text.as_bytes()])
}

fn call(index: u32, id: &str, args: &str) -> String {
    format!(
        r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":{index},"id":"{id}","function":{{"name":"n","arguments":"{args}"}}}}]}}}}]}}"#
    )
}

#[test]
fn the_last_event_ends_a_response_only_after_its_start() {
    let recorded = record_of(&["[DONE]"]);
    assert!(
        recorded.starts_with("failed stream_truncated stream true"),
        "{recorded}"
    );
    let recorded = record_of(&[
        r#"{"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[]}"#,
        "[DONE]",
    ]);
    assert!(recorded.starts_with("answered\n"), "{recorded}");
}

#[test]
fn text_after_complete_arguments_is_kept_and_counted() {
    let late_arguments =
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"late"}}]}}]}"#;
    let recorded = record_of(&[
        &call(0, "a", "{}"),
        &call(1, "b", "{}"),
        late_arguments,
        "[DONE]",
    ]);
    assert!(
        recorded.starts_with("continues\nevents (4, 1)\n"),
        "{recorded}"
    );
    assert!(
        recorded.contains(r#"\"late\""#) || recorded.contains(r#""late""#),
        "{recorded}"
    );
}

#[test]
fn an_incomplete_call_is_not_released() {
    let rest =
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}"#;
    let recorded = record_of(&[
        &call(0, "a", r#"{\"k\":"#),
        &call(1, "b", "{}"),
        rest,
        "[DONE]",
    ]);
    assert!(
        recorded.starts_with("continues\nevents (4, 0)\n"),
        "{recorded}"
    );
    assert!(
        recorded.contains(r#""call_id":"a","name":"n","args":{"k":1}"#),
        "{recorded}"
    );
}

#[test]
fn a_choice_that_never_finished_leaves_the_response_unfinished() {
    let first = r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    let second = r#"{"choices":[{"index":1,"delta":{"content":"b"}}]}"#;
    assert!(record_of(&[first]).starts_with("answered\n"));
    let recorded = record_of(&[first, second]);
    assert!(
        recorded.starts_with("failed stream_truncated"),
        "{recorded}"
    );
}

#[test]
fn aborted_and_filtered_responses_are_not_continued() {
    let end = |reason: &str| {
        let finish = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
        record_of(&[&call(0, "a", "{}"), &finish, "[DONE]"])
    };
    for (reason, expected) in [
        ("abort", "cancelled"),
        ("content_filter", "answered"),
        ("stop", "continues"),
        ("length", "continues"),
        ("error", "failed error provider true"),
    ] {
        let recorded = end(reason);
        assert!(recorded.starts_with(expected), "{reason}: {recorded}");
    }
}

#[test]
fn values_nested_too_deep_are_kept_as_text() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let chunk = format!(
        r#"{{"choices":[{{"delta":{{"content":"t","annotations":[{deep}]}}}}],"usage":{{"x":{deep}}}}}"#
    );
    let recorded = record_of(&[&chunk, "[DONE]"]);
    assert!(
        recorded.contains(&format!(r#""citations":["{deep}"]"#)),
        "{recorded}"
    );
    assert!(!recorded.contains("\"x\":"), "{recorded}");
}
