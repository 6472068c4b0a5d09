//! An embedding service with prepared answers. It serves one connection at a time.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// The answer to a request.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A vector for each text, of this many dimensions, in reverse order.
    Vectors(usize),
    /// A status, with the request's own key in the body, as some services send it.
    Status(u16),
    /// A status, and the seconds of its `retry-after` header.
    RetryAfter(u16, u64),
    /// This body.
    Body(String),
    /// A body that is shorter than its content length.
    Truncated,
    /// No answer within the timeout of the client.
    Silence,
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) line: String,
    pub(crate) key: Option<String>,
    pub(crate) body: Value,
}

impl ReceivedRequest {
    pub(crate) fn texts(&self) -> Vec<String> {
        serde_json::from_value(self.body["input"].clone()).unwrap()
    }
}

#[derive(Clone)]
pub(crate) struct Service {
    address: SocketAddr,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Service {
    /// Starts a service that sends these answers in order, and afterwards vectors of three dimensions.
    pub(crate) fn start(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = Self {
            address: listener.local_addr().unwrap(),
            answers: Arc::new(Mutex::new(answers.iter().cloned().collect())),
            requests: Arc::default(),
        };
        let server = service.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                server.serve(stream.unwrap());
            }
        });
        service
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut line, mut key, mut length) = (String::new(), None, 0);
        reader.read_line(&mut line).unwrap();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            let Some((name, value)) = header.trim().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "authorization" => key = Some(value.to_owned()),
                "content-length" => length = value.parse().unwrap(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let request = ReceivedRequest {
            line: line.trim().to_owned(),
            key,
            body: serde_json::from_slice(&body).unwrap(),
        };
        self.requests.lock().unwrap().push(request.clone());
        let answer = self.answers.lock().unwrap().pop_front();
        answer
            .unwrap_or(Answer::Vectors(3))
            .send(&request, &mut stream);
    }
}

impl Answer {
    fn send(self, request: &ReceivedRequest, stream: &mut TcpStream) {
        let (status, headers, body, unsent) = match self {
            Self::Vectors(dimensions) => (200, String::new(), vectors(request, dimensions), 0),
            Self::Status(status) => {
                let key = request.key.clone().unwrap_or_default();
                (status, String::new(), format!("wrong: {key}"), 0)
            }
            Self::RetryAfter(status, seconds) => (
                status,
                format!("retry-after: {seconds}\r\n"),
                String::new(),
                0,
            ),
            Self::Body(body) => (200, String::new(), body, 0),
            Self::Truncated => (200, String::new(), vectors(request, 3), 10),
            Self::Silence => return std::thread::sleep(Duration::from_secs(3)),
        };
        let length = body.len() + unsent;
        let head = format!(
            "HTTP/1.1 {status} Status\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n"
        );
        // The client may have disconnected already.
        let _ = stream.write_all((head + &body).as_bytes());
    }
}

/// The body of an answer with a vector for each text. The first number of each vector is the length of the text.
fn vectors(request: &ReceivedRequest, dimensions: usize) -> String {
    let texts = request.texts();
    let data = texts.iter().enumerate().rev().map(|(index, text)| {
        let mut vector = vec![0.0; dimensions];
        vector[0] = f64::from(u32::try_from(text.len()).unwrap());
        vector[1] = 1.0;
        json!({ "object": "embedding", "index": index, "embedding": vector })
    });
    let data: Vec<_> = data.collect();
    json!({ "object": "list", "data": data, "model": "m", "usage": { "total_tokens": 1 } })
        .to_string()
}
