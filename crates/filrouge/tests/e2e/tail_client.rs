//! A client that reads server-sent events.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<u64>,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// An open stream of events.
pub(crate) struct Tail {
    lines: BufReader<TcpStream>,
    /// The status line and the headers of the response.
    pub(crate) head: String,
}

impl Tail {
    /// Opens a stream; `path` is below `/api/v1/sessions`.
    pub(crate) fn open(origin: &str, path: &str, headers: &[(&str, &str)]) -> Self {
        Self::open_at(origin, &format!("/api/v1/sessions{path}"), headers)
    }

    /// Opens a stream at any path. HTTP/1.0 has no chunks, so the body is the stream itself.
    pub(crate) fn open_at(origin: &str, path: &str, headers: &[(&str, &str)]) -> Self {
        let address = origin.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let extra: String = headers
            .iter()
            .map(|(n, v)| format!("{n}: {v}\r\n"))
            .collect();
        let request = format!(
            "GET {path} HTTP/1.0\r\nhost: {address}\r\naccept: text/event-stream\r\n{extra}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).unwrap() > 0, "{head}");
        }
        Self { lines, head }
    }

    pub(crate) fn status(&self) -> u16 {
        self.head[9..12].parse().unwrap()
    }

    /// Reads the next event; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let mut event = Event {
            name: "message".to_owned(),
            id: None,
            data: String::new(),
        };
        let mut data: Vec<String> = Vec::new();
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.strip_suffix('\n').unwrap();
            match line.split_once(": ") {
                None if line.is_empty() && !data.is_empty() => {
                    event.data = data.join("\n");
                    return Some(event);
                }
                Some(("event", name)) => event.name = name.to_owned(),
                Some(("id", id)) => event.id = Some(id.parse().unwrap()),
                Some(("data", text)) => data.push(text.to_owned()),
                None if line == "data:" || line == "data: " => data.push(String::new()),
                _ => {}
            }
        }
    }

    /// Reads the next `n` events.
    pub(crate) fn take(&mut self, n: usize) -> Vec<Event> {
        let events = (0..n).map(|_| self.next());
        events
            .collect::<Option<_>>()
            .expect("the stream ended too early")
    }

    /// Reads the stream to its end, as text.
    pub(crate) fn rest(mut self) -> String {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        rest
    }
}
