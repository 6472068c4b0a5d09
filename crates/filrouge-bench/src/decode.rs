//! `decode`: decodes streams as they arrive over the network, compared with parsing the JSON of their events and
//! discarding it.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use filrouge_transcode::{Decoder, StreamFormat};
use serde::de::IgnoredAny;

use crate::Setup;
use crate::report::{Line, Section, Target};
use crate::stats::{Leg, Series, micros};
use crate::streams::Stream;

/// Bytes per chunk: the size of a packet, and of a buffered reader's buffer.
const CHUNKS: [usize; 2] = [1400, 16 << 10];

/// Decodes a complete stream, and takes the ready items after each chunk.
fn decode_stream(format: StreamFormat, stream: &Stream, chunk: usize) -> Result<()> {
    let mut decoder = Decoder::new(format);
    for bytes in stream.bytes.as_bytes().chunks(chunk) {
        decoder.push(bytes);
        black_box(decoder.transcript_mut().take_ready());
    }
    decoder.end();
    black_box(decoder.transcript_mut().take_ready());
    let (_, unknown) = decoder.transcript().events();
    ensure!(
        unknown == 0,
        "{format}: the decoder does not know {unknown} events"
    );
    Ok(())
}

/// Parses the JSON of every event, and discards it.
fn parse_events(stream: &Stream) -> Result<()> {
    for frame in &stream.frames {
        black_box(serde_json::from_str::<IgnoredAny>(black_box(frame))?);
    }
    Ok(())
}

/// Runs `process_stream` for each of `streams` equal streams.
fn run_leg(streams: usize, process_stream: impl Fn() -> Result<()>) -> Result<Leg> {
    let start = Instant::now();
    let mut times = Vec::with_capacity(streams);
    for _ in 0..streams {
        let call_start = Instant::now();
        process_stream()?;
        times.push(micros(call_start));
    }
    Ok(Leg::new(times, start.elapsed()))
}

/// `decode`.
pub(crate) fn decode(setup: &Setup) -> Result<Section> {
    let (mut lines, mut all_series, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for format in StreamFormat::ALL {
        let stream = Stream::new(format, setup.size(1, 50));
        let bytes = stream.bytes.len() as f64;
        let mut limit = Series::new(format!("{format}, parsed and ignored"));
        let mut product = CHUNKS.map(|chunk| Series::new(format!("{format}, chunks of {chunk}")));
        let streams = setup.size(50, 2);
        for _ in 0..setup.pairs {
            limit.legs.push(run_leg(streams, || parse_events(&stream))?);
            for (series, chunk) in product.iter_mut().zip(CHUNKS) {
                let decode = || decode_stream(format, &stream, chunk);
                series.legs.push(run_leg(streams, decode)?);
            }
        }
        let speeds = |series: &Series| -> Vec<f64> {
            series
                .values(|l| l.p50)
                .iter()
                .map(|p50| bytes / p50)
                .collect()
        };
        for series in &product {
            let median = |series: &Series| format!("{:.0} MB/s", bytes / series.median(|l| l.p50));
            let (product_speeds, limit_speeds) = (speeds(series), speeds(&limit));
            let shown = (median(series), median(&limit));
            lines.push(Line::pairs(
                &series.name,
                &product_speeds,
                &limit_speeds,
                Target::AtLeast(0.2),
                shown,
            ));
        }
        notes.push(format!(
            "{format}: {} events, {:.0} kB",
            stream.frames.len(),
            bytes / 1e3
        ));
        all_series.extend(product);
        all_series.push(limit);
    }
    notes.push(
        "one thread; medians over complete streams; limit: serde_json parses the JSON of each event, found beforehand, to IgnoredAny; both speeds count all bytes of the stream".to_owned(),
    );
    Ok(Section {
        name: "decode",
        lines,
        series: all_series,
        notes,
        ..Section::default()
    })
}
