//! The streams that inputs are derived from: those of the decoders' tests.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use filrouge_transcode::StreamFormat;

use super::input::tokens;

/// The streams of one format.
pub(super) struct FormatStreams {
    pub(super) format: StreamFormat,
    pub(super) complete: Vec<Vec<u8>>,
    /// The events of all streams, each with its trailing empty line.
    pub(super) events: Vec<Vec<u8>>,
    /// The strings, numbers and words of all streams.
    pub(super) tokens: Vec<Vec<u8>>,
}

/// The streams of all formats.
pub(super) struct Corpus {
    pub(super) formats: Vec<FormatStreams>,
}

impl Corpus {
    /// Reads the streams from the source tree that this program was built from.
    pub(super) fn read() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../filrouge-transcode/tests/transcode/fixtures/streams");
        let read = |format| FormatStreams::read(&root, format);
        let formats: Result<Vec<_>> = StreamFormat::ALL.into_iter().map(read).collect();
        Ok(Self { formats: formats? })
    }
}

impl FormatStreams {
    fn read(root: &Path, format: StreamFormat) -> Result<Self> {
        let folder = root.join(format.as_str());
        let context = || folder.display().to_string();
        let mut paths = Vec::new();
        for entry in fs::read_dir(&folder).with_context(context)? {
            paths.push(entry?.path());
        }
        paths.sort();
        let mut streams = Self {
            format,
            complete: Vec::new(),
            events: Vec::new(),
            tokens: Vec::new(),
        };
        for path in paths {
            match path.extension().and_then(|e| e.to_str()) {
                Some("sse") => streams.add(fs::read(&path)?, false),
                Some("json") => streams.add(fs::read(&path)?, true),
                _ => {}
            }
        }
        ensure!(
            streams.events.len() > streams.complete.len(),
            "{}: streams without events",
            context()
        );
        Ok(streams)
    }

    fn add(&mut self, bytes: Vec<u8>, is_json: bool) {
        let text = String::from_utf8_lossy(&bytes).replace('\r', "");
        if is_json {
            let line = text.replace('\n', " ");
            self.events.push(format!("data: {line}\n\n").into_bytes());
        } else {
            let events = text
                .split_inclusive("\n\n")
                .map(|event| event.as_bytes().to_vec());
            self.events.extend(events);
        }
        let found = tokens(&bytes).into_iter().filter_map(|at| bytes.get(at));
        self.tokens.extend(found.map(<[u8]>::to_vec));
        self.complete.push(bytes);
        self.tokens.sort();
        self.tokens.dedup();
    }
}
