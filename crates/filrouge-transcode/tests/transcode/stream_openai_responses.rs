//! Tests of streams of OpenAI's Responses, and of complete responses.

use filrouge_transcode::StreamFormat;

use crate::streams::{self, Stream};

const FORMAT: StreamFormat = StreamFormat::OpenaiResponses;

/// A separate event ends the stream.
fn end_of(stream: &Stream) -> Option<usize> {
    let marks = [
        "\"type\":\"response.completed\"",
        "\"type\":\"response.incomplete\"",
        "\"type\":\"response.cancelled\"",
    ];
    streams::end_of_last_line(stream, &marks)
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
fn any_events_and_bytes_are_decoded_safely() {
    streams::check_random_events(FORMAT);
}
