//! A client that sends a stream, and records when it sent each piece.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::script::{Format, Script};
use crate::http::{CrashClient, CrashResponse};

/// How a stream ends if the server keeps running; the number is that of the words before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The stream does not end.
    Never,
    /// The provider sends nothing more, and the connection stays open.
    Silent(usize),
    /// The stream ends normally.
    Finish(usize),
    /// The client disconnects.
    Disconnect(usize),
    /// The user cancels the answer.
    Cancel(usize),
}

/// One stream to send.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) session: String,
    pub(super) request: String,
    pub(super) turn: String,
    pub(super) format: Format,
    /// Whether the stream contains calls.
    pub(super) calls: bool,
    pub(super) ending: Ending,
    /// The delay before the stream starts.
    pub(super) delay: Duration,
    /// The longest time between two pieces.
    pub(super) pace: Duration,
}

impl Plan {
    /// Returns the path of the turn.
    pub(super) fn path(&self) -> String {
        format!("/api/v1/sessions/{}/turns/{}", self.session, self.turn)
    }
}

/// How much text was sent at a moment.
pub(super) struct Mark {
    pub(super) at: Instant,
    /// The length of [`Sent::text`] at that moment, in bytes.
    pub(super) end: usize,
    /// Whether the server must show or record the text at once, as in [`super::script::Piece::shown`].
    pub(super) shown: bool,
}

/// What one client sent and received.
#[derive(Default)]
pub(super) struct Sent {
    /// The content of the stream, in the notation of [`super::script::Piece::content`].
    pub(super) text: String,
    pub(super) marks: Vec<Mark>,
    /// Whether the normal end of the stream was sent.
    pub(super) finished: bool,
    /// The response to the stream.
    pub(super) response: Option<CrashResponse>,
    /// Whether the cancellation was acknowledged.
    pub(super) cancelled: bool,
}

/// A chunked body that is being sent.
pub(super) struct StreamUpload(TcpStream);

impl StreamUpload {
    pub(super) fn begin(origin: &str, plan: &Plan) -> std::io::Result<Self> {
        let address = origin.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let (path, format) = (plan.path(), plan.format.name());
        write!(
            stream,
            "POST {path}/stream?format={format} HTTP/1.1\r\nhost: {address}\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )?;
        Ok(Self(stream))
    }

    pub(super) fn send(&mut self, bytes: &str) -> std::io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let chunk = format!("{:x}\r\n{bytes}\r\n", bytes.len());
        self.0.write_all(chunk.as_bytes())
    }

    /// Returns whether the server has answered or closed the connection.
    fn is_answered(&self) -> bool {
        self.0.set_nonblocking(true).expect("a socket");
        let peeked = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).expect("a socket");
        !matches!(peeked, Err(e) if e.kind() == ErrorKind::WouldBlock)
    }

    pub(super) fn end(&mut self) -> std::io::Result<()> {
        self.0.write_all(b"0\r\n\r\n")
    }

    /// Waits for the response; `None` if the connection ends first.
    pub(super) fn response(&self) -> Option<CrashResponse> {
        let mut lines = BufReader::new(&self.0);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_ascii_lowercase()),
            }
        }
        let header = |name: &str| {
            let mut values = head.iter().filter_map(|line| line.split_once(": "));
            values.find(|(n, _)| *n == name).map(|(_, v)| v.to_owned())
        };
        let mut text = vec![0; header("content-length")?.parse().ok()?];
        lines.read_exact(&mut text).ok()?;
        Some(CrashResponse {
            status: head.first()?.get(9..12)?.parse().ok()?,
            durability: header("filrouge-durability"),
            content_type: header("content-type").unwrap_or_default(),
            body: serde_json::from_slice(&text).expect("a response is JSON"),
        })
    }
}

impl Sent {
    /// Sends a stream until it ends, the server is gone, or `stop` is set.
    pub(super) fn run(origin: &str, plan: &Plan, stop: &AtomicBool, rng: &mut StdRng) -> Self {
        let mut sent = Self::default();
        std::thread::sleep(plan.delay);
        // These tests expect broken connections.
        let _ = sent.stream(origin, plan, stop, rng);
        sent
    }

    fn stream(
        &mut self,
        origin: &str,
        plan: &Plan,
        stop: &AtomicBool,
        rng: &mut StdRng,
    ) -> std::io::Result<()> {
        let mut upload = StreamUpload::begin(origin, plan)?;
        let mut script = Script::new(plan.format, plan.request.clone());
        upload.send(&script.begin())?;
        for n in 0.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            if upload.is_answered() {
                self.response = upload.response();
                break;
            }
            match plan.ending {
                Ending::Silent(after) if n >= after => {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
                Ending::Finish(after) if n == after => {
                    upload.send(&script.finish())?;
                    upload.end()?;
                    self.finished = true;
                    self.response = upload.response();
                    break;
                }
                Ending::Disconnect(after) if n == after => {
                    return upload.0.shutdown(Shutdown::Both);
                }
                Ending::Cancel(after) if n == after => {
                    let path = format!("{}/cancel", plan.path());
                    let result = CrashClient::new(origin).post(&path, &json!({}));
                    self.cancelled = result.is_ok_and(|response| {
                        assert_eq!(response.status, 200, "{plan:?}: {response:?}");
                        true
                    });
                    self.response = upload.response();
                    break;
                }
                _ => {}
            }
            for piece in script.next(n, plan.calls, rng) {
                upload.send(&piece.bytes)?;
                self.text.push_str(&piece.content);
                self.marks.push(Mark {
                    at: Instant::now(),
                    end: self.text.len(),
                    shown: piece.shown,
                });
                let max = u64::try_from(plan.pace.as_millis()).expect("the time fits into u64");
                std::thread::sleep(Duration::from_millis(rng.random_range(0..=max)));
            }
        }
        Ok(())
    }

    /// Returns the turn's status in the response, if one arrived.
    pub(super) fn answered_status(&self) -> Option<&str> {
        let response = self.response.as_ref()?;
        assert_eq!(response.status, 200, "{response:?}");
        response.body["status"].as_str()
    }
}

/// Returns the content of an item's parts, in the notation of [`Sent::text`].
pub(super) fn content_of(parts: &Value) -> String {
    let mut out = String::new();
    for part in parts.as_array().expect("parts") {
        match part["type"].as_str().expect("a type") {
            "text" => out.push_str(part["text"].as_str().expect("a text")),
            kind @ ("tool_call" | "tool_call_partial") => {
                out += &super::script::call_start(part["call_id"].as_str().expect("an id"));
                out += &match &part["args"] {
                    Value::String(text) => text.clone(),
                    args => args.to_string(),
                };
                if kind == "tool_call" {
                    out += super::script::CALL_END;
                }
            }
            other => panic!("a part of type {other}: {parts}"),
        }
    }
    out
}
