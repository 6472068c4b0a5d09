//! Streams of Chat Completions, of OpenAI and of those that speak like it.

use filrouge_transcode::StreamFormat;

use crate::streams::{self, Stream};

const FORMAT: StreamFormat = StreamFormat::OpenaiChat;

/// The end is told by the reason that the answer stopped for, or by the last event.
fn told(stream: &Stream) -> Option<usize> {
    streams::up_to(stream, &["\"finish_reason\":\""])
        .or_else(|| streams::up_to(stream, &["[DONE]"]))
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
fn the_last_event_ends_only_what_has_begun() {
    let told = record(&["[DONE]"]);
    assert!(
        told.starts_with("failed stream_truncated stream true"),
        "{told}"
    );
    let told = record(&[
        r#"{"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[]}"#,
        "[DONE]",
    ]);
    assert!(told.starts_with("answered\n"), "{told}");
}

#[test]
fn what_comes_after_complete_arguments_is_kept_and_counted() {
    let late =
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"late"}}]}}]}"#;
    let told = record(&[&call(0, "a", "{}"), &call(1, "b", "{}"), late, "[DONE]"]);
    assert!(told.starts_with("continues\nevents (4, 1)\n"), "{told}");
    assert!(
        told.contains(r#"\"late\""#) || told.contains(r#""late""#),
        "{told}"
    );
}

#[test]
fn a_call_that_waits_for_more_is_not_given_away() {
    let more =
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}"#;
    let told = record(&[
        &call(0, "a", r#"{\"k\":"#),
        &call(1, "b", "{}"),
        more,
        "[DONE]",
    ]);
    assert!(told.starts_with("continues\nevents (4, 0)\n"), "{told}");
    assert!(
        told.contains(r#""call_id":"a","name":"n","args":{"k":1}"#),
        "{told}"
    );
}

#[test]
fn a_choice_that_never_finished_leaves_the_response_unfinished() {
    let first = r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    let second = r#"{"choices":[{"index":1,"delta":{"content":"b"}}]}"#;
    assert!(record(&[first]).starts_with("answered\n"));
    let told = record(&[first, second]);
    assert!(told.starts_with("failed stream_truncated"), "{told}");
}

#[test]
fn what_an_abort_and_a_filter_end_is_not_gone_on_with() {
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
        let told = end(reason);
        assert!(told.starts_with(ended), "{reason}: {told}");
    }
}

#[test]
fn what_is_nested_too_deep_is_kept_as_text() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let chunk = format!(
        r#"{{"choices":[{{"delta":{{"content":"t","annotations":[{deep}]}}}}],"usage":{{"x":{deep}}}}}"#
    );
    let told = record(&[&chunk, "[DONE]"]);
    assert!(
        told.contains(&format!(r#""citations":["{deep}"]"#)),
        "{told}"
    );
    assert!(!told.contains("\"x\":"), "{told}");
}
