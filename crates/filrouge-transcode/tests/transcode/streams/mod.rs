//! Checks of the streams of every format. The streams of a format are the files of `fixtures/streams/FORMAT`:
//! `NAME.sse` or `NAME.json` is the input, and `NAME.items` contains the recorded items.

use std::fmt::Write as _;
use std::path::PathBuf;

use filrouge_engine::stream::{ReadyItem, StreamEnd, Transcript};
use filrouge_transcode::{Decoder, Format, StreamFormat};
use filrouge_types::RawJson;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::sessions::check::assert_accepted;
use crate::sessions::items;
use crate::test_session::{TestSession, query};

mod texts;

use texts::{Texts, blocks, is_prefix_of, recorded_texts};

/// The largest stream, in bytes, that is cut at every position.
const MAX_CUT_BYTES: usize = 6000;

/// A stream of the fixtures.
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    golden: PathBuf,
}

/// The streams of a format.
pub(crate) fn streams(format: StreamFormat) -> Vec<Stream> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/transcode/fixtures/streams")
        .join(format.as_str());
    let mut streams = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.extension().and_then(|e| e.to_str());
        if matches!(kind, Some("sse" | "json")) {
            streams.push(Stream {
                name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
                bytes: std::fs::read(&path).unwrap(),
                golden: path.with_extension("items"),
            });
        }
    }
    streams.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!streams.is_empty());
    streams
}

/// A decoder after these chunks and the end. All items are still in its transcript.
pub(crate) fn decode_all<'a>(
    format: StreamFormat,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Decoder {
    let mut decoder = Decoder::new(format);
    for chunk in chunks {
        decoder.push(chunk);
    }
    decoder.end();
    decoder
}

/// The record of a stream as text. Ready items are taken after every chunk.
pub(crate) fn stream_record<'a>(
    format: StreamFormat,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> String {
    let mut decoder = Decoder::new(format);
    let mut items = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        items.extend(decoder.transcript_mut().take_ready());
    }
    decoder.end();
    items.extend(decoder.transcript_mut().take_ready());
    record_text(&items, decoder.transcript())
}

fn record_text(items: &[ReadyItem], transcript: &Transcript) -> String {
    let mut out = match transcript.ended().unwrap() {
        StreamEnd::Failed(error) => format!(
            "failed {} {} {} {}\n",
            error.code,
            error.source.as_str(),
            error.retryable,
            error.message.as_token()
        ),
        ended => format!("{}\n", format!("{ended:?}").to_lowercase()),
    };
    writeln!(out, "events {:?}", transcript.events()).unwrap();
    for ready in items {
        let item = &ready.item;
        let number = ready.number.map_or("-".to_owned(), |n| n.to_string());
        let (role, channel) = (item.role, item.channel.as_str());
        write!(out, "\n{number} {role} {channel}").unwrap();
        if let Some(model) = &item.model {
            write!(out, " {model}").unwrap();
        }
        writeln!(out, "\n{}", item.parts.as_str()).unwrap();
        for json in [&item.usage, &item.metadata].into_iter().flatten() {
            writeln!(out, "{}", json.as_str()).unwrap();
        }
    }
    for block in transcript.blocks() {
        let (role, channel) = block.role_and_channel();
        write!(
            out,
            "\n{} {role} {} unfinished",
            block.number,
            channel.as_str()
        )
        .unwrap();
        for part in &block.parts {
            write!(out, "\n{} {}", part.kind.as_str(), part.text).unwrap();
        }
        out.push('\n');
    }
    if items.iter().all(|ready| ready.number.is_none()) {
        writeln!(out, "\nreported {:?}", transcript.reported()).unwrap();
    }
    out
}

/// Compares the record of each stream with its golden file. Also writes the records to the build folder, so that a
/// developer can inspect them and copy them over the golden files.
pub(crate) fn check_goldens(format: StreamFormat) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("streams-{format}"));
    std::fs::create_dir_all(&folder).unwrap();
    let mut differences = Vec::new();
    for stream in streams(format) {
        let record = stream_record(format, [&stream.bytes[..]]);
        let file = folder.join(format!("{}.items", stream.name));
        std::fs::write(&file, &record).unwrap();
        if std::fs::read_to_string(&stream.golden).unwrap_or_default() != record {
            differences.push(format!("{}\n{record}", file.display()));
        }
    }
    assert!(
        differences.is_empty(),
        "if the changes are correct, copy these files over the golden files:\n{}",
        differences.join("\n\n")
    );
}

/// Checks that the record does not depend on how the bytes are split.
pub(crate) fn check_chunks(format: StreamFormat) {
    for stream in streams(format) {
        let undivided = stream_record(format, [&stream.bytes[..]]);
        for size in [1, 2, 3, 7, 64, 1000] {
            let chunked = stream_record(format, stream.bytes.chunks(size));
            assert_eq!(chunked, undivided, "{} in chunks of {size}", stream.name);
        }
    }
}

/// Checks that texts only grow until they are recorded.
pub(crate) fn check_growth(format: StreamFormat) {
    for stream in streams(format) {
        let mut decoder = Decoder::new(format);
        let mut previous = Texts::new();
        let mut collected = Texts::new();
        for chunk in stream.bytes.chunks(16) {
            decoder.push(chunk);
            if decoder.transcript().ended().is_none() {
                collected.extend(recorded_texts(&decoder.transcript_mut().take_ready()));
            }
            let mut current = blocks(decoder.transcript());
            current.extend(collected.clone());
            if decoder.transcript().ended().is_none() {
                assert!(
                    is_prefix_of(&previous, &current),
                    "{}: {previous:?} {current:?}",
                    stream.name
                );
                previous = current;
            }
        }
        decoder.end();
        let last = blocks(decoder.transcript());
        let ready = recorded_texts(&decoder.transcript_mut().take_ready());
        for (number, text) in &ready {
            let grown = last.get(number).map(|t| t.trim_end());
            assert!(
                grown.is_none_or(|t| t == text.trim_end()),
                "{}: {text}",
                stream.name
            );
        }
        collected.extend(last);
        collected.extend(ready);
        assert!(
            is_prefix_of(&previous, &collected),
            "{}: {previous:?} {collected:?}",
            stream.name
        );
    }
}

/// Checks that a truncated stream fails, unless its end has arrived. `end_of` returns the number of bytes up to that
/// end. The record must be a prefix of the record of the complete stream.
pub(crate) fn check_cuts(format: StreamFormat, end_of: impl Fn(&Stream) -> Option<usize>) {
    for stream in streams(format) {
        let mut complete = decode_all(format, [&stream.bytes[..]]);
        let mut complete_texts = recorded_texts(&complete.transcript_mut().take_ready());
        complete_texts.extend(blocks(complete.transcript()));
        let end = match stream.bytes.first() {
            // A JSON body is complete with its last `}`.
            Some(b'{' | b'[') => {
                let last = stream.bytes.iter().rposition(|b| *b == b'}');
                last.map_or(0, |at| at + 1)
            }
            _ => end_of(&stream).unwrap_or(stream.bytes.len()),
        };
        let step = 1 + stream.bytes.len() / MAX_CUT_BYTES;
        for cut in (0..stream.bytes.len()).step_by(step) {
            let mut decoder = decode_all(format, [&stream.bytes[..cut]]);
            let case = format!("{} cut at {cut}", stream.name);
            let ready = decoder.transcript_mut().take_ready();
            check_items(&ready);
            let mut cut_texts = recorded_texts(&ready);
            cut_texts.extend(blocks(decoder.transcript()));
            assert!(
                is_prefix_of(&cut_texts, &complete_texts),
                "{case}: {cut_texts:?}"
            );
            let ended = decoder.transcript().ended().unwrap();
            if cut < end {
                assert!(matches!(ended, StreamEnd::Failed(_)), "{case}: {ended:?}");
            } else {
                assert_eq!(Some(ended), complete.transcript().ended(), "{case}");
            }
        }
    }
}

/// The number of bytes up to the end of the last line that contains one of `marks`, without its line break.
pub(crate) fn end_of_last_line(stream: &Stream, marks: &[&str]) -> Option<usize> {
    let text = std::str::from_utf8(&stream.bytes).unwrap();
    let at = marks.iter().filter_map(|mark| text.rfind(mark)).max()?;
    let line = text[at..].find(['\r', '\n']).unwrap_or(text.len() - at);
    // At the end of the bytes, a line without a line break is decoded as well.
    Some(at + line)
}

fn check_items(items: &[ReadyItem]) {
    for ReadyItem { item, .. } in items {
        let parts = RawJson::parse(item.parts.as_str());
        assert!(parts.is_ok_and(|p| p.is_array()), "{:?}", item.parts);
        for json in [&item.usage, &item.metadata].into_iter().flatten() {
            assert!(
                RawJson::parse(json.as_str()).is_ok_and(|j| j.is_object()),
                "{json:?}"
            );
        }
    }
}

/// Checks that decoding these bytes terminates, uses bounded memory, and yields items that are valid JSON.
fn check_decoding(format: StreamFormat, bytes: &[u8], chunk: usize) {
    let mut decoder = Decoder::new(format).with_frame_bytes(1 << 16);
    let mut items = Vec::new();
    for chunk in bytes.chunks(chunk) {
        decoder.push(chunk);
        // Names of members, marks and escapes add to the input's size.
        assert!(
            decoder.buffered_bytes() <= 6 * bytes.len() + (1 << 17),
            "{}",
            decoder.buffered_bytes()
        );
        items.extend(decoder.transcript_mut().take_ready());
    }
    decoder.end();
    items.extend(decoder.transcript_mut().take_ready());
    assert!(decoder.transcript().ended().is_some());
    check_items(&items);
}

/// Decodes events of all streams of a format in random order, and streams with mutated bytes.
pub(crate) fn check_random_events(format: StreamFormat) {
    let streams = streams(format);
    let mut events: Vec<Vec<u8>> = Vec::new();
    for stream in &streams {
        let text = std::str::from_utf8(&stream.bytes).unwrap();
        events.extend(
            text.split("\n\n")
                .map(|event| format!("{event}\n\n").into_bytes()),
        );
    }
    // Terminal events would end most of these inputs at once.
    let is_terminal = |e: &Vec<u8>| {
        let text = String::from_utf8_lossy(e);
        ["[DONE]", "_stop\"", "completed", "FINISHED"]
            .iter()
            .any(|word| text.contains(word))
    };
    let terminal_count = events.iter().filter(|e| is_terminal(e)).count();
    let inputs = any::<(Vec<Index>, Vec<(Index, u8)>, Index, bool, u8)>();
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&inputs, |(picks, changes, stream, is_random, chunk)| {
            let mut bytes = if is_random {
                let picked = picks.iter().map(|pick| pick.get(&events));
                let is_used = |event: &&Vec<u8>| {
                    !is_terminal(event) || picks.len() % (terminal_count + 2) == 0
                };
                picked.filter(is_used).flatten().copied().collect()
            } else {
                stream.get(&streams).bytes.clone()
            };
            for (at, byte) in changes.into_iter().take(if is_random { 2 } else { 40 }) {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            check_decoding(format, &bytes, 1 + usize::from(chunk) * 8);
            Ok(())
        })
        .unwrap();
}

/// Restores the record of a stream in the format `to`, with answers to its unanswered calls. Checks the messages
/// against the provider's rules, and returns them.
pub(crate) fn restore_stream(
    stream: &Stream,
    format: StreamFormat,
    to: Format,
) -> serde_json::Value {
    let mut decoder = decode_all(format, [&stream.bytes[..]]);
    let ready = decoder.transcript_mut().take_ready();
    let (mut calls, mut answered) = (Vec::new(), Vec::new());
    for ready in &ready {
        let parts: serde_json::Value = serde_json::from_str(ready.item.parts.as_str()).unwrap();
        for part in parts.as_array().unwrap() {
            let id = part["call_id"].as_str().unwrap_or_default().to_owned();
            match part["type"].as_str() {
                Some("tool_call") => calls.push(id),
                Some("tool_result") => answered.push(id),
                _ => {}
            }
        }
    }
    calls.retain(|id| !answered.contains(id));
    let test = TestSession::new();
    test.start("a", "q");
    let results = calls.iter().map(|id| items::result(id));
    let all_items: Vec<_> = ready.into_iter().map(|r| r.item).chain(results).collect();
    if !all_items.is_empty() {
        test.append("a", all_items);
    }
    assert_accepted(to, &test.context(to, query(to)))
}

/// Checks that the record can be sent to every provider.
pub(crate) fn check_restored(format: StreamFormat) {
    for stream in streams(format) {
        for to in Format::ALL {
            restore_stream(&stream, format, to);
        }
    }
}
