//! `decode`: streams decoded as they arrive over the network, compared with parsing the JSON of their events and
//! discarding it.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use filrouge_transcode::{Decoder, StreamFormat};
use serde::de::IgnoredAny;

use crate::Setup;
use crate::report::{Line, Section, Target, load_average};
use crate::stats::{Leg, Series, micros};
use crate::streams::Stream;

/// Bytes per chunk: the size of a packet, and of a buffered reader's buffer.
const CHUNKS: [usize; 2] = [1400, 16 << 10];

/// Decodes a complete stream, and takes the ready items after each chunk.
fn decoded(format: StreamFormat, stream: &Stream, chunk: usize) -> Result<()> {
    let mut decoder = Decoder::new(format);
    for bytes in stream.bytes.as_bytes().chunks(chunk) {
        decoder.push(bytes);
        black_box(decoder.transcript_mut().take_ready());
    }
    decoder.end();
    black_box(decoder.transcript_mut().take_ready());
    let (_, unknown) = decoder.transcript().events();
    ensure!(unknown == 0, "{format}: {unknown} events are unknown");
    Ok(())
}

fn parsed(stream: &Stream) -> Result<()> {
    for frame in &stream.frames {
        black_box(serde_json::from_str::<IgnoredAny>(black_box(frame))?);
    }
    Ok(())
}

fn leg(streams: usize, one: impl Fn() -> Result<()>) -> Result<Leg> {
    let begin = Instant::now();
    let mut times = Vec::with_capacity(streams);
    for _ in 0..streams {
        let start = Instant::now();
        one()?;
        times.push(micros(start));
    }
    Ok(Leg::new(times, begin.elapsed()))
}

/// `decode`.
pub(crate) fn decode(setup: &Setup) -> Result<Section> {
    let before = load_average();
    let (mut lines, mut all, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for format in StreamFormat::ALL {
        let stream = Stream::new(format, setup.size(1, 50));
        let bytes = stream.bytes.len() as f64;
        let mut limit = Series::new(format!("{format}, parsed and ignored"));
        let mut product = CHUNKS.map(|chunk| Series::new(format!("{format}, chunks of {chunk}")));
        let streams = setup.size(50, 2);
        for _ in 0..setup.pairs {
            limit.legs.push(leg(streams, || parsed(&stream))?);
            for (series, chunk) in product.iter_mut().zip(CHUNKS) {
                let one = || decoded(format, &stream, chunk);
                series.legs.push(leg(streams, one)?);
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
            let shown = |series: &Series| format!("{:.0} MB/s", bytes / series.median(|l| l.p50));
            let (own, most) = (speeds(series), speeds(&limit));
            let shown = (shown(series), shown(&limit));
            lines.push(Line::pairs(
                &series.name,
                &own,
                &most,
                Target::AtLeast(0.2),
                shown,
            ));
        }
        notes.push(format!(
            "{format}: {} events, {:.0} kB",
            stream.frames.len(),
            bytes / 1e3
        ));
        all.extend(product);
        all.push(limit);
    }
    notes.push(
        "one thread; the medians of whole streams; limit: serde_json reads each event's JSON, found beforehand, into IgnoredAny; both by the stream's bytes".to_owned(),
    );
    Ok(Section {
        name: "decode",
        lines,
        series: all,
        notes,
        load: (before, load_average()),
    })
}
