//! A service that answers what it is told to, one connection after the other.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// What a request is answered.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A vector for each text, of so many dimensions, the last one first.
    Vectors(usize),
    /// A status, with the request's own key in the body, as some services have it.
    Status(u16),
    /// A status and what is asked to be waited, in seconds.
    Later(u16, u64),
    /// This body.
    Body(String),
    /// Less of a body than was announced.
    Cut,
    /// Nothing, for longer than anybody waits.
    Silence,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) key: Option<String>,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn texts(&self) -> Vec<String> {
        serde_json::from_value(self.body["input"].clone()).unwrap()
    }
}

#[derive(Clone)]
pub(crate) struct Service {
    address: SocketAddr,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Service {
    /// Answers these in turn, and afterwards vectors of three dimensions.
    pub(crate) fn start(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = Self {
            address: listener.local_addr().unwrap(),
            answers: Arc::new(Mutex::new(answers.iter().cloned().collect())),
            asked: Arc::default(),
        };
        let own = service.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                own.serve(stream.unwrap());
            }
        });
        service
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
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
        let asked = Asked {
            line: line.trim().to_owned(),
            key,
            body: serde_json::from_slice(&body).unwrap(),
        };
        self.asked.lock().unwrap().push(asked.clone());
        let answer = self.answers.lock().unwrap().pop_front();
        answer
            .unwrap_or(Answer::Vectors(3))
            .send(&asked, &mut stream);
    }
}

impl Answer {
    fn send(self, asked: &Asked, stream: &mut TcpStream) {
        let (status, more, body, announced) = match self {
            Self::Vectors(dimensions) => (200, String::new(), vectors(asked, dimensions), 0),
            Self::Status(status) => {
                let key = asked.key.clone().unwrap_or_default();
                (status, String::new(), format!("wrong: {key}"), 0)
            }
            Self::Later(status, seconds) => (
                status,
                format!("retry-after: {seconds}\r\n"),
                String::new(),
                0,
            ),
            Self::Body(body) => (200, String::new(), body, 0),
            Self::Cut => (200, String::new(), vectors(asked, 3), 10),
            Self::Silence => return std::thread::sleep(Duration::from_secs(3)),
        };
        let length = body.len() + announced;
        let head = format!(
            "HTTP/1.1 {status} Said\r\nconnection: close\r\n{more}content-length: {length}\r\n\r\n"
        );
        // Who has stopped listening is not told.
        let _ = stream.write_all((head + &body).as_bytes());
    }
}

/// The first number of each vector is its text's length.
fn vectors(asked: &Asked, dimensions: usize) -> String {
    let texts = asked.texts();
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
