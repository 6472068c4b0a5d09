//! Bytes to events: server-sent events, a JSON array, JSON values one behind the other, or one JSON value. Which of
//! them it is shows in the first byte.

use std::mem;

use memchr::memchr2;

/// Most bytes of a line that is no field of an event and is shown nevertheless.
const FOREIGN_BYTES: usize = 4 << 10;

/// What the bytes hold.
pub(super) enum Frame<'a> {
    /// An event with its name, or an empty one, and its data.
    Event {
        /// The name.
        name: &'a str,
        /// The data.
        data: &'a [u8],
    },
    /// What is no event.
    Foreign(&'a [u8]),
    /// An event is larger than is taken; nothing follows.
    TooLarge,
}

type Show<'s> = &'s mut dyn FnMut(Frame<'_>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// No byte that tells has come.
    Unknown,
    Lines,
    Json,
    /// What comes is no JSON after all: its beginning is gathered.
    Foreign,
    Over,
}

/// Splits what arrives into events.
pub(super) struct Framing {
    mode: Mode,
    /// Whether any byte is done with: a byte order mark stands before all others.
    begun: bool,
    most: usize,
    /// Bytes of a line or a value that is not complete.
    pending: Vec<u8>,
    /// How many of them were looked at.
    looked_at: usize,
    lines: Lines,
    json: Json,
}

/// The event that lines are making.
#[derive(Default)]
struct Lines {
    name: String,
    data: Vec<u8>,
    has_data: bool,
    /// Whether the last line ended with CR: a LF right behind it belongs to it.
    after_cr: bool,
}

/// Where in a JSON value the end of what was looked at is.
#[derive(Default)]
struct Json {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Framing {
    pub(super) fn new(most: usize) -> Self {
        Self {
            mode: Mode::Unknown,
            begun: false,
            most,
            pending: Vec::new(),
            looked_at: 0,
            lines: Lines::default(),
            json: Json::default(),
        }
    }

    pub(super) const fn held(&self) -> usize {
        self.pending.capacity() + self.lines.data.capacity()
    }

    pub(super) fn push(&mut self, bytes: &[u8], show: Show<'_>) {
        match self.mode {
            Mode::Over => return,
            Mode::Foreign => return self.gather(bytes),
            _ => {}
        }
        if self.pending.is_empty() {
            let taken = self.take(bytes, show);
            self.keep(&bytes[taken..]);
        } else {
            let mut pending = mem::take(&mut self.pending);
            pending.extend_from_slice(bytes);
            let taken = self.take(&pending, show);
            if self.mode == Mode::Foreign {
                self.gather(&pending[taken..]);
            } else {
                pending.drain(..taken);
                self.pending = pending;
            }
        }
        if self.held_now() > self.most {
            self.over(show);
        }
    }

    fn held_now(&self) -> usize {
        self.pending.len() + self.lines.data.len()
    }

    fn over(&mut self, show: Show<'_>) {
        self.mode = Mode::Over;
        self.pending = Vec::new();
        self.lines = Lines::default();
        show(Frame::TooLarge);
    }

    fn keep(&mut self, rest: &[u8]) {
        if self.mode == Mode::Foreign {
            return self.gather(rest);
        }
        self.pending.extend_from_slice(rest);
    }

    fn gather(&mut self, bytes: &[u8]) {
        let room = FOREIGN_BYTES.saturating_sub(self.pending.len());
        self.pending
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// What is left when no more bytes come: a last event without its end is shown.
    pub(super) fn end(&mut self, show: Show<'_>) {
        let pending = mem::take(&mut self.pending);
        match self.mode {
            Mode::Lines => {
                if !pending.is_empty() {
                    self.lines.line(&pending, show);
                }
                self.lines.dispatch(show);
            }
            Mode::Json | Mode::Foreign if !pending.is_empty() => {
                show(Frame::Foreign(head(&pending)));
            }
            _ => {}
        }
        self.mode = Mode::Over;
    }

    /// Shows the events in `bytes`; gives how many bytes are done with.
    fn take(&mut self, bytes: &[u8], show: Show<'_>) -> usize {
        let mut at = 0;
        if self.mode == Mode::Unknown {
            at = self.begin(bytes);
        }
        match self.mode {
            Mode::Lines => at + self.take_lines(&bytes[at..], show),
            Mode::Json => at + self.take_json(&bytes[at..], show),
            Mode::Unknown | Mode::Foreign | Mode::Over => at,
        }
    }

    /// Finds out what comes; gives how many bytes before it tell nothing.
    fn begin(&mut self, bytes: &[u8]) -> usize {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        let mut at = 0;
        if !self.begun {
            if bytes.len() < MARK.len() && MARK.starts_with(bytes) {
                return 0;
            }
            at = if bytes.starts_with(MARK) {
                MARK.len()
            } else {
                0
            };
        }
        let blank = |b: &&u8| b.is_ascii_whitespace();
        at += bytes[at..].iter().take_while(blank).count();
        match bytes.get(at) {
            None => {}
            Some(b'{' | b'[') => self.mode = Mode::Json,
            Some(_) => self.mode = Mode::Lines,
        }
        self.begun |= at > 0;
        at
    }

    fn take_lines(&mut self, bytes: &[u8], show: Show<'_>) -> usize {
        let mut at = 0;
        let mut look = mem::take(&mut self.looked_at);
        loop {
            if at == 0 && look == 0 && self.lines.after_cr && !bytes.is_empty() {
                self.lines.after_cr = false;
                if bytes[0] == b'\n' {
                    (at, look) = (1, 1);
                }
            }
            let from = look.max(at).min(bytes.len());
            let Some(found) = memchr2(b'\n', b'\r', &bytes[from..]) else {
                self.looked_at = bytes.len() - at;
                return at;
            };
            let end = from + found;
            self.lines.line(&bytes[at..end], show);
            at = end + 1;
            if bytes[end] == b'\r' {
                match bytes.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.lines.after_cr = true,
                }
            }
            if self.lines.data.len() > self.most {
                self.over(show);
                return bytes.len();
            }
        }
    }

    fn take_json(&mut self, bytes: &[u8], show: Show<'_>) -> usize {
        let mut begin = 0;
        let mut at = mem::take(&mut self.looked_at);
        while at < bytes.len() {
            if self.json.depth == 0 {
                // Between values: an array's brackets and commas.
                let between = |b: &&u8| b.is_ascii_whitespace() || matches!(b, b'[' | b',' | b']');
                at += bytes[at..].iter().take_while(between).count();
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
            let Some(length) = self.json.end_in(&bytes[at..]) else {
                at = bytes.len();
                break;
            };
            at += length;
            let data = &bytes[begin..at];
            show(Frame::Event { name: "", data });
            begin = at;
        }
        self.looked_at = at - begin;
        begin
    }
}

fn head(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(FOREIGN_BYTES)]
}

impl Lines {
    fn line(&mut self, line: &[u8], show: Show<'_>) {
        if line.is_empty() {
            return self.dispatch(show);
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
            _ => show(Frame::Foreign(head(line))),
        }
    }

    fn dispatch(&mut self, show: Show<'_>) {
        if self.has_data {
            show(Frame::Event {
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
    /// How many bytes until the value ends that is begun, if it does.
    fn end_in(&mut self, bytes: &[u8]) -> Option<usize> {
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

    fn frames(chunks: &[&[u8]], most: usize) -> Vec<String> {
        let mut framing = Framing::new(most);
        let mut seen = Vec::new();
        let mut show = |frame: Frame<'_>| {
            seen.push(match frame {
                Frame::Event { name, data } => {
                    format!("{name}:{}", String::from_utf8_lossy(data))
                }
                Frame::Foreign(bytes) => format!("?{}", String::from_utf8_lossy(bytes)),
                Frame::TooLarge => "!".to_owned(),
            });
        };
        for chunk in chunks {
            framing.push(chunk, &mut show);
        }
        framing.end(&mut show);
        seen
    }

    #[test]
    fn events_are_found_however_they_are_written() {
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
    fn an_event_that_is_too_large_ends_it() {
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
        fn chunks_make_no_difference(
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
