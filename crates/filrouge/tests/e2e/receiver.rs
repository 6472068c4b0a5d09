//! A receiver of webhooks: records requests, and returns prepared answers.

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

/// The answer to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Status(u16),
    /// A status and further header lines.
    With(u16, &'static str),
    /// No answer.
    Silence,
    /// 204, after a delay.
    Slow(Duration),
}

#[derive(Default)]
struct Reported {
    answers: VecDeque<Answer>,
    otherwise: Option<Answer>,
    got: Vec<Message>,
}

#[derive(Clone)]
pub(crate) struct Receiver {
    address: SocketAddr,
    reported: Arc<(Mutex<Reported>, Condvar)>,
}

impl Receiver {
    /// A receiver that accepts everything.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Self {
            address: listener.local_addr().unwrap(),
            reported: Arc::default(),
        };
        let own = receiver.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (own, stream) = (own.clone(), stream.unwrap());
                std::thread::spawn(move || own.serve(stream));
            }
        });
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/a-secret-path?token=in-the-query", self.address)
    }

    /// Returns these answers next, in order.
    pub(crate) fn will(&self, answers: &[Answer]) {
        self.reported.0.lock().unwrap().answers.extend(answers);
    }

    /// The default answer.
    pub(crate) fn otherwise(&self, answer: Answer) {
        self.reported.0.lock().unwrap().otherwise = Some(answer);
    }

    pub(crate) fn got(&self) -> Vec<Message> {
        self.reported.0.lock().unwrap().got.clone()
    }

    /// All received changes, in order.
    pub(crate) fn changes(&self) -> Vec<Value> {
        self.got().iter().flat_map(Message::changes).collect()
    }

    /// Waits until the received messages are as wanted; returns them.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&[Message]) -> bool) -> Vec<Message> {
        let (reported, news) = &*self.reported;
        let end = Instant::now() + Duration::from_secs(60);
        let mut reported = reported.lock().unwrap();
        while !wanted(&reported.got) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "not in time: {what}; {} messages arrived",
                reported.got.len()
            );
            reported = news.wait_timeout(reported, left).unwrap().0;
        }
        reported.got.clone()
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some(message) = read(&mut reader) {
            let answer = {
                let (reported, news) = &*self.reported;
                let mut reported = reported.lock().unwrap();
                reported.got.push(message);
                news.notify_all();
                let next = reported.answers.pop_front().or(reported.otherwise);
                next.unwrap_or(Answer::Status(204))
            };
            let (status, more) = match answer {
                Answer::Status(status) => (status, ""),
                Answer::With(status, more) => (status, more),
                Answer::Slow(wait) => {
                    std::thread::sleep(wait);
                    (204, "")
                }
                Answer::Silence => {
                    std::thread::sleep(Duration::from_secs(30));
                    return;
                }
            };
            let text = format!("HTTP/1.1 {status} X\r\n{more}content-length: 0\r\n\r\n");
            if stream.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    }
}

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
