//! Streams of Gemini, as events and as an array, and whole responses.

use filrouge_transcode::StreamFormat;

use crate::streams::{self, Stream};

const FORMAT: StreamFormat = StreamFormat::Gemini;

/// The end is told by the reason that the first candidate finished for.
fn told(stream: &Stream) -> Option<usize> {
    streams::up_to(stream, &["\"finishReason\":"])
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
fn any_events_and_any_bytes_are_survived() {
    streams::check_storms(FORMAT);
}
