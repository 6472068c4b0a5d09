//! What holds for recorded streams of every format. A format's streams are the files of `fixtures/streams/FORMAT`:
//! `NAME.sse` or `NAME.json` as it came, and beside it `NAME.items` with what it is recorded as.

use std::fmt::Write as _;
use std::path::PathBuf;

use filrouge_engine::stream::{Ended, ReadyItem, Transcript};
use filrouge_transcode::{Decoder, Format, StreamFormat};
use filrouge_types::RawJson;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::journal::{Journal, query};
use crate::journals::check::accepted;
use crate::journals::items;

mod texts;

use texts::{Texts, blocks, is_beginning_of, recorded_texts};

/// Bytes of streams up to which every cut is tried.
const SMALL: usize = 6000;

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

/// A decoder that has been given these chunks and the end; nothing was taken from it.
pub(crate) fn decoded<'a>(
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

/// What a stream is recorded as when what is ready is taken after every chunk.
pub(crate) fn recorded<'a>(
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
    told(&items, decoder.transcript())
}

fn told(items: &[ReadyItem], transcript: &Transcript) -> String {
    let mut out = match transcript.ended().unwrap() {
        Ended::Failed(error) => format!(
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
        let (role, channel) = block.place();
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
        writeln!(out, "\ntold {:?}", transcript.told()).unwrap();
    }
    out
}

/// Compares each stream's record with its file. What was made is left beside the build, to be read and, when it is
/// right, copied over the file.
pub(crate) fn check_goldens(format: StreamFormat) {
    let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("streams-{format}"));
    std::fs::create_dir_all(&made).unwrap();
    let mut wrong = Vec::new();
    for stream in streams(format) {
        let record = recorded(format, [&stream.bytes[..]]);
        let made = made.join(format!("{}.items", stream.name));
        std::fs::write(&made, &record).unwrap();
        if std::fs::read_to_string(&stream.golden).unwrap_or_default() != record {
            wrong.push(format!("{}\n{record}", made.display()));
        }
    }
    assert!(wrong.is_empty(), "copy when right:\n{}", wrong.join("\n\n"));
}

/// However the bytes are cut, the same is recorded.
pub(crate) fn check_chunks(format: StreamFormat) {
    for stream in streams(format) {
        let whole = recorded(format, [&stream.bytes[..]]);
        for size in [1, 2, 3, 7, 64, 1000] {
            let cut = recorded(format, stream.bytes.chunks(size));
            assert_eq!(cut, whole, "{} in chunks of {size}", stream.name);
        }
    }
}

/// Texts only grow, up to what is recorded.
pub(crate) fn check_growth(format: StreamFormat) {
    for stream in streams(format) {
        let mut decoder = Decoder::new(format);
        let mut before = Texts::new();
        let mut taken = Texts::new();
        for chunk in stream.bytes.chunks(16) {
            decoder.push(chunk);
            if decoder.transcript().ended().is_none() {
                taken.extend(recorded_texts(&decoder.transcript_mut().take_ready()));
            }
            let mut now = blocks(decoder.transcript());
            now.extend(taken.clone());
            if decoder.transcript().ended().is_none() {
                assert!(
                    is_beginning_of(&before, &now),
                    "{}: {before:?} {now:?}",
                    stream.name
                );
                before = now;
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
        taken.extend(last);
        taken.extend(ready);
        assert!(
            is_beginning_of(&before, &taken),
            "{}: {before:?} {taken:?}",
            stream.name
        );
    }
}

/// A stream that is cut off has failed, unless it had told its end: `told` gives how many bytes that takes. What is
/// recorded of it is a beginning of what is recorded of the whole stream.
pub(crate) fn check_cuts(format: StreamFormat, told: impl Fn(&Stream) -> Option<usize>) {
    for stream in streams(format) {
        let mut whole = decoded(format, [&stream.bytes[..]]);
        let mut all = recorded_texts(&whole.transcript_mut().take_ready());
        all.extend(blocks(whole.transcript()));
        let enough = match stream.bytes.first() {
            // An array is told whole by its last value.
            Some(b'{' | b'[') => {
                let last = stream.bytes.iter().rposition(|b| *b == b'}');
                last.map_or(0, |at| at + 1)
            }
            _ => told(&stream).unwrap_or(stream.bytes.len()),
        };
        let step = 1 + stream.bytes.len() / SMALL;
        for cut in (0..stream.bytes.len()).step_by(step) {
            let mut decoder = decoded(format, [&stream.bytes[..cut]]);
            let place = format!("{} cut at {cut}", stream.name);
            let ready = decoder.transcript_mut().take_ready();
            check_items(&ready);
            let mut shown = recorded_texts(&ready);
            shown.extend(blocks(decoder.transcript()));
            assert!(is_beginning_of(&shown, &all), "{place}: {shown:?}");
            let ended = decoder.transcript().ended().unwrap();
            if cut < enough {
                assert!(matches!(ended, Ended::Failed(_)), "{place}: {ended:?}");
            } else {
                assert_eq!(Some(ended), whole.transcript().ended(), "{place}");
            }
        }
    }
}

/// How many bytes of a stream it takes up to the last event that has this in it, with its line end.
pub(crate) fn up_to(stream: &Stream, marks: &[&str]) -> Option<usize> {
    let text = std::str::from_utf8(&stream.bytes).unwrap();
    let at = marks.iter().filter_map(|mark| text.rfind(mark)).max()?;
    let line = text[at..].find(['\r', '\n']).unwrap_or(text.len() - at);
    // An event whose line is not ended is shown at the end of the bytes.
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

/// Any bytes end, are held in bounds, and make items that are JSON.
fn survives(format: StreamFormat, bytes: &[u8], chunk: usize) {
    let mut decoder = Decoder::new(format).with_frame_bytes(1 << 16);
    let mut taken = Vec::new();
    for chunk in bytes.chunks(chunk) {
        decoder.push(chunk);
        // Names of members, marks and escapes come on top of what came.
        assert!(
            decoder.held() <= 6 * bytes.len() + (1 << 17),
            "{}",
            decoder.held()
        );
        taken.extend(decoder.transcript_mut().take_ready());
    }
    decoder.end();
    taken.extend(decoder.transcript_mut().take_ready());
    assert!(decoder.transcript().ended().is_some());
    check_items(&taken);
}

/// Events of all streams of a format in any order, and streams with mutated bytes.
pub(crate) fn check_storms(format: StreamFormat) {
    let streams = streams(format);
    let mut events: Vec<Vec<u8>> = Vec::new();
    for stream in &streams {
        let text = std::str::from_utf8(&stream.bytes).unwrap();
        events.extend(
            text.split("\n\n")
                .map(|event| format!("{event}\n\n").into_bytes()),
        );
    }
    // Terminal events would end most storms at once.
    let is_last = |e: &Vec<u8>| {
        let text = String::from_utf8_lossy(e);
        ["[DONE]", "_stop\"", "completed", "FINISHED"]
            .iter()
            .any(|word| text.contains(word))
    };
    let last = events.iter().filter(|e| is_last(e)).count();
    let any = any::<(Vec<Index>, Vec<(Index, u8)>, Index, bool, u8)>();
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&any, |(picks, changes, stream, storm, chunk)| {
            let mut bytes = if storm {
                let picked = picks.iter().map(|pick| pick.get(&events));
                let few = |event: &&Vec<u8>| !is_last(event) || picks.len() % (last + 2) == 0;
                picked.filter(few).flatten().copied().collect()
            } else {
                stream.get(&streams).bytes.clone()
            };
            for (at, byte) in changes.into_iter().take(if storm { 2 } else { 40 }) {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            survives(format, &bytes, 1 + usize::from(chunk) * 8);
            Ok(())
        })
        .unwrap();
}

/// What is recorded of a stream, with answers to the calls that have none, in the words of `to`: checked by the
/// provider's own rules.
pub(crate) fn restored(stream: &Stream, format: StreamFormat, to: Format) -> serde_json::Value {
    let mut decoder = decoded(format, [&stream.bytes[..]]);
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
    let journal = Journal::new();
    journal.start("a", "q");
    let results = calls.iter().map(|id| items::result(id));
    let all: Vec<_> = ready.into_iter().map(|r| r.item).chain(results).collect();
    if !all.is_empty() {
        journal.append("a", all);
    }
    accepted(to, &journal.context(to, query(to)))
}

/// What is recorded can be given to every provider.
pub(crate) fn check_restored(format: StreamFormat) {
    for stream in streams(format) {
        for to in Format::ALL {
            restored(&stream, format, to);
        }
    }
}
