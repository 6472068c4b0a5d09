//! Splits bytes into events: server-sent events, a JSON array, a sequence of JSON values, or one JSON value. The first
//! byte decides which.

use std::mem;

use memchr::memchr2;

/// The maximum number of bytes of a foreign line that are passed on.
const FOREIGN_BYTES_MAX: usize = 4 << 10;

/// A piece of the input.
pub(super) enum Frame<'a> {
    /// An event: its name, which may be empty, and its data.
    Event {
        /// The event's name; empty if it has none.
        name: &'a str,
        /// The data.
        data: &'a [u8],
    },
    /// A line or value that is not an event.
    Foreign(&'a [u8]),
    /// An event exceeds the limit. No further frame follows.
    TooLarge,
}

type Emit<'s> = &'s mut dyn FnMut(Frame<'_>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Mode {
    /// No significant byte has arrived.
    #[default]
    Unknown,
    /// Server-sent events.
    Lines,
    /// JSON values.
    Json,
    /// The input is not JSON after all: its first bytes are collected.
    Foreign,
    /// The input has ended.
    Ended,
}

/// Splits the input into events.
#[derive(Default)]
pub(super) struct Framing {
    mode: Mode,
    /// Whether any byte was consumed: only the first bytes can be a byte order mark.
    has_consumed: bool,
    max_bytes: usize,
    /// Bytes of an incomplete line or value.
    pending: Vec<u8>,
    /// The number of pending bytes that were examined without finding an end.
    examined: usize,
    lines: Lines,
    json: Json,
}

/// The server-sent event that is being assembled from lines.
#[derive(Default)]
struct Lines {
    name: String,
    data: Vec<u8>,
    has_data: bool,
    /// Whether the last line ended with CR: a following LF belongs to it.
    after_cr: bool,
}

/// The scanner's state within a JSON value.
#[derive(Default)]
struct Json {
    /// The number of open objects and arrays; 0 between values.
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Framing {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            ..Self::default()
        }
    }

    /// The number of allocated bytes.
    pub(super) const fn buffered_bytes(&self) -> usize {
        self.pending.capacity() + self.lines.data.capacity()
    }

    pub(super) fn push(&mut self, bytes: &[u8], emit: Emit<'_>) {
        match self.mode {
            Mode::Ended => return,
            Mode::Foreign => return self.collect_foreign(bytes),
            _ => {}
        }
        if self.pending.is_empty() {
            let consumed = self.emit_events(bytes, emit);
            match self.mode {
                Mode::Foreign => self.collect_foreign(&bytes[consumed..]),
                _ => self.pending.extend_from_slice(&bytes[consumed..]),
            }
        } else {
            let mut pending = mem::take(&mut self.pending);
            pending.extend_from_slice(bytes);
            let consumed = self.emit_events(&pending, emit);
            if self.mode == Mode::Foreign {
                self.collect_foreign(&pending[consumed..]);
            } else {
                pending.drain(..consumed);
                self.pending = pending;
            }
        }
        if self.pending.len() + self.lines.data.len() > self.max_bytes {
            self.end_too_large(emit);
        }
    }

    fn end_too_large(&mut self, emit: Emit<'_>) {
        self.mode = Mode::Ended;
        self.pending = Vec::new();
        self.lines = Lines::default();
        emit(Frame::TooLarge);
    }

    fn collect_foreign(&mut self, bytes: &[u8]) {
        let free = FOREIGN_BYTES_MAX.saturating_sub(self.pending.len());
        self.pending
            .extend_from_slice(&bytes[..bytes.len().min(free)]);
    }

    /// Ends the input. Emits an event whose end has not arrived.
    pub(super) fn end(&mut self, emit: Emit<'_>) {
        let pending = mem::take(&mut self.pending);
        match self.mode {
            Mode::Lines => {
                if !pending.is_empty() {
                    self.lines.read_line(&pending, emit);
                }
                self.lines.dispatch(emit);
            }
            Mode::Json | Mode::Foreign if !pending.is_empty() => {
                emit(Frame::Foreign(truncated(&pending)));
            }
            _ => {}
        }
        self.mode = Mode::Ended;
    }

    /// Emits the events in `bytes`; returns how many bytes were consumed.
    fn emit_events(&mut self, bytes: &[u8], emit: Emit<'_>) -> usize {
        let mut at = 0;
        if self.mode == Mode::Unknown {
            at = self.detect_mode(bytes);
        }
        match self.mode {
            Mode::Lines => at + self.emit_lines(&bytes[at..], emit),
            Mode::Json => at + self.emit_json(&bytes[at..], emit),
            Mode::Unknown | Mode::Foreign | Mode::Ended => at,
        }
    }

    /// Detects the kind of input by its first significant byte; returns how many bytes precede it.
    fn detect_mode(&mut self, bytes: &[u8]) -> usize {
        const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
        let mut at = 0;
        if !self.has_consumed {
            if bytes.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(bytes) {
                return 0;
            }
            if bytes.starts_with(BYTE_ORDER_MARK) {
                at = BYTE_ORDER_MARK.len();
            }
        }
        let is_blank = |b: &&u8| b.is_ascii_whitespace();
        at += bytes[at..].iter().take_while(is_blank).count();
        match bytes.get(at) {
            None => {}
            Some(b'{' | b'[') => self.mode = Mode::Json,
            Some(_) => self.mode = Mode::Lines,
        }
        self.has_consumed |= at > 0;
        at
    }

    fn emit_lines(&mut self, bytes: &[u8], emit: Emit<'_>) -> usize {
        let mut at = 0;
        let mut examined = mem::take(&mut self.examined);
        loop {
            if at == 0 && examined == 0 && self.lines.after_cr && !bytes.is_empty() {
                self.lines.after_cr = false;
                if bytes[0] == b'\n' {
                    (at, examined) = (1, 1);
                }
            }
            let from = examined.max(at).min(bytes.len());
            let Some(line_length) = memchr2(b'\n', b'\r', &bytes[from..]) else {
                self.examined = bytes.len() - at;
                return at;
            };
            let end = from + line_length;
            self.lines.read_line(&bytes[at..end], emit);
            at = end + 1;
            if bytes[end] == b'\r' {
                match bytes.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.lines.after_cr = true,
                }
            }
            if self.lines.data.len() > self.max_bytes {
                self.end_too_large(emit);
                return bytes.len();
            }
        }
    }

    fn emit_json(&mut self, bytes: &[u8], emit: Emit<'_>) -> usize {
        let mut begin = 0;
        let mut at = mem::take(&mut self.examined);
        while at < bytes.len() {
            if self.json.depth == 0 {
                // Between values: an array's brackets and commas.
                let is_separator =
                    |b: &&u8| b.is_ascii_whitespace() || matches!(b, b'[' | b',' | b']');
                at += bytes[at..].iter().take_while(is_separator).count();
                begin = at;
                match bytes.get(at) {
                    None => break,
                    Some(b'{') => {}
                    Some(_) => {
                        self.mode = Mode::Foreign;
                        return at;
                    }
                }
            }
            let Some(length) = self.json.value_length(&bytes[at..]) else {
                at = bytes.len();
                break;
            };
            at += length;
            let data = &bytes[begin..at];
            emit(Frame::Event { name: "", data });
            begin = at;
        }
        self.examined = at - begin;
        begin
    }
}

fn truncated(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(FOREIGN_BYTES_MAX)]
}

impl Lines {
    /// Reads a line; an empty one ends the event.
    fn read_line(&mut self, line: &[u8], emit: Emit<'_>) {
        if line.is_empty() {
            return self.dispatch(emit);
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(at) => {
                let value = &line[at + 1..];
                (&line[..at], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                match std::str::from_utf8(value) {
                    Ok(name) => self.name.push_str(name),
                    Err(_) => self.name.push_str(&String::from_utf8_lossy(value)),
                }
            }
            b"" | b"id" | b"retry" => {}
            _ => emit(Frame::Foreign(truncated(line))),
        }
    }

    /// Emits the event, if it has data, and begins the next one.
    fn dispatch(&mut self, emit: Emit<'_>) {
        if self.has_data {
            emit(Frame::Event {
                name: &self.name,
                data: &self.data,
            });
        }
        self.has_data = false;
        self.data.clear();
        self.name.clear();
    }
}

impl Json {
    /// The number of bytes to the end of the current value, if it ends in `bytes`.
    fn value_length(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.escaped {
                self.escaped = false;
                at += 1;
                continue;
            }
            if self.in_string {
                at += memchr2(b'"', b'\\', &bytes[at..])?;
                self.escaped = bytes[at] == b'\\';
                self.in_string = self.escaped;
                at += 1;
                continue;
            }
            match bytes[at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(chunks: &[&[u8]], max_bytes: usize) -> Vec<String> {
        let mut framing = Framing::new(max_bytes);
        let mut frames = Vec::new();
        let mut emit = |frame: Frame<'_>| {
            frames.push(match frame {
                Frame::Event { name, data } => {
                    format!("{name}:{}", String::from_utf8_lossy(data))
                }
                Frame::Foreign(bytes) => format!("?{}", String::from_utf8_lossy(bytes)),
                Frame::TooLarge => "!".to_owned(),
            });
        };
        for chunk in chunks {
            framing.push(chunk, &mut emit);
        }
        framing.end(&mut emit);
        frames
    }

    #[test]
    fn events_are_found_in_every_notation() {
        for (text, expected) in [
            ("data: {}\n\ndata: 1\r\n\r\n", vec![":{}", ":1"]),
            ("event: a\rdata: x\rdata: y\r\r", vec!["a:x\ny"]),
            ("\u{feff}: hi\nid: 7\nretry: 1\ndata:x\n\n", vec![":x"]),
            ("data\n\n", vec![":"]),
            ("event: a\n\ndata: b", vec![":b"]),
            ("nonsense\n\n", vec!["?nonsense"]),
            (
                " [{\"a\":\"}\\\"\"},\r\n{}\n]\n",
                vec![":{\"a\":\"}\\\"\"}", ":{}"],
            ),
            (
                "{\"a\":[1,{}]}\n{\"b\":1}",
                vec![":{\"a\":[1,{}]}", ":{\"b\":1}"],
            ),
            ("{\"a\":", vec!["?{\"a\":"]),
            ("[1,2]", vec!["?1,2]"]),
        ] {
            assert_eq!(frames(&[text.as_bytes()], 1 << 20), expected, "{text:?}");
        }
    }

    #[test]
    fn an_oversized_event_ends_the_input() {
        let long = format!("data: {}\n\ndata: x\n\n", "y".repeat(100));
        assert_eq!(frames(&[long.as_bytes()], 50), ["!"]);
        let (a, b) = long.as_bytes().split_at(70);
        assert_eq!(frames(&[a, b], 50), ["!"]);
        let many = format!("{}\n\n", "data: yyyyyyyyyy\n".repeat(10));
        assert_eq!(frames(&[many.as_bytes()], 50), ["!"]);
        assert_eq!(frames(&[b"{\"a\":\"", &[b'x'; 60], b"\"}"], 50), ["!"]);
    }

    proptest! {
        #[test]
        fn chunking_makes_no_difference(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("data: "), Just("event: a"), Just("\n"), Just("\r\n"), Just("\r"), Just("{"), Just("}"),
                    Just("[\""), Just("\"]"), Just("\\"), Just("x:y"), Just(","), Just(" "), Just("\u{feff}"),
                ],
                0..40,
            ),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let text = pieces.concat();
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            prop_assert_eq!(frames(&chunks, 1 << 20), frames(&[bytes], 1 << 20));
        }
    }
}
