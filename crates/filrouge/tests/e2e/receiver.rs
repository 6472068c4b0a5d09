//! A receiver of webhooks: records requests, and returns prepared responses.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// One received request.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) timestamp: String,
    pub(crate) signature: String,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

impl Message {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn changes(&self) -> Vec<Value> {
        self.json()["data"].as_array().unwrap().clone()
    }
}

/// The response to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PreparedResponse {
    Status(u16),
    /// A status and more header lines.
    WithHeaders(u16, &'static str),
    /// No response.
    Silence,
    /// 204, after a delay.
    Slow(Duration),
}

#[derive(Default)]
struct State {
    /// The responses to the next requests, in order.
    responses: VecDeque<PreparedResponse>,
    /// The response after these; if absent, 204.
    default_response: Option<PreparedResponse>,
    received: Vec<Message>,
}

/// A server on loopback; its threads run until the test ends.
#[derive(Clone)]
pub(crate) struct Receiver {
    address: SocketAddr,
    /// The state, and the signal that a request has arrived.
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Receiver {
    /// Starts a receiver that answers every request with 204.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        let server = receiver.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (server, stream) = (server.clone(), stream.unwrap());
                std::thread::spawn(move || server.serve(stream));
            }
        });
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/a-secret-path?token=in-the-query", self.address)
    }

    /// Sets the responses to the next requests, in order.
    pub(crate) fn respond_next_with(&self, responses: &[PreparedResponse]) {
        self.state.0.lock().unwrap().responses.extend(responses);
    }

    /// Sets the response to all other requests.
    pub(crate) fn respond_otherwise_with(&self, response: PreparedResponse) {
        self.state.0.lock().unwrap().default_response = Some(response);
    }

    /// All received messages, in order.
    pub(crate) fn received(&self) -> Vec<Message> {
        self.state.0.lock().unwrap().received.clone()
    }

    /// All received changes, in order.
    pub(crate) fn changes(&self) -> Vec<Value> {
        self.received().iter().flat_map(Message::changes).collect()
    }

    /// Waits until the received messages satisfy `condition`; returns them. `what` names the condition in a failure.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, condition: impl Fn(&[Message]) -> bool) -> Vec<Message> {
        let (state, arrival) = &*self.state;
        let end = Instant::now() + Duration::from_secs(60);
        let mut state = state.lock().unwrap();
        while !condition(&state.received) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "not in time: {what}; {} messages arrived",
                state.received.len()
            );
            state = arrival.wait_timeout(state, left).unwrap().0;
        }
        state.received.clone()
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some(message) = read(&mut reader) {
            let response = {
                let (state, arrival) = &*self.state;
                let mut state = state.lock().unwrap();
                state.received.push(message);
                arrival.notify_all();
                let next = state.responses.pop_front().or(state.default_response);
                next.unwrap_or(PreparedResponse::Status(204))
            };
            let (status, headers) = match response {
                PreparedResponse::Status(status) => (status, ""),
                PreparedResponse::WithHeaders(status, headers) => (status, headers),
                PreparedResponse::Slow(delay) => {
                    std::thread::sleep(delay);
                    (204, "")
                }
                PreparedResponse::Silence => {
                    std::thread::sleep(Duration::from_secs(30));
                    return;
                }
            };
            let text = format!("HTTP/1.1 {status} X\r\n{headers}content-length: 0\r\n\r\n");
            if stream.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Reads a request; `None` at the end of the connection.
fn read(reader: &mut impl BufRead) -> Option<Message> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    assert!(
        line.starts_with("POST /a-secret-path?token=in-the-query "),
        "{line}"
    );
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let header = |name: &str| {
        let found = headers.iter().find(|(n, _)| n == name);
        found.map_or_else(String::new, |(_, value)| value.clone())
    };
    let mut body = vec![0; header("content-length").parse().unwrap()];
    reader.read_exact(&mut body).ok()?;
    Some(Message {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
        content_type: header("content-type"),
        body: String::from_utf8(body).unwrap(),
    })
}
