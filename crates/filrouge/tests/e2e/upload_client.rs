//! A client that uploads a request body piece by piece, when the test requests it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{Client, Response};
use crate::limits::{metric, until};
use crate::world::{Server, durability};

/// A request whose chunked body has not ended.
pub(crate) struct Upload {
    stream: TcpStream,
}

impl Upload {
    /// Sends the head of a POST; `path` is below `/api/v1/sessions`.
    pub(crate) fn begin(origin: &str, path: &str, headers: &[(&str, &str)]) -> Self {
        let address = origin.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        let extra: String = headers
            .iter()
            .map(|(n, v)| format!("{n}: {v}\r\n"))
            .collect();
        let head = format!(
            "POST /api/v1/sessions{path} HTTP/1.1\r\nhost: {address}\r\ntransfer-encoding: chunked\r\n{extra}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        Self { stream }
    }

    /// Begins to record a stream in OpenAI's chat format; `turn` is a path, `more` further query parameters.
    pub(crate) fn chat(server: &Server, turn: &str, more: &str) -> Self {
        let path = format!("{turn}/stream?format=openai-chat{more}");
        Self::begin(
            server.origin(),
            &path,
            &[("content-type", "text/event-stream")],
        )
    }

    /// Sends a piece of the body.
    pub(crate) fn send(&mut self, text: &str) {
        self.try_send(text).unwrap();
    }

    /// Sends a piece of the body that the server may no longer read.
    pub(crate) fn try_send(&mut self, text: &str) -> std::io::Result<()> {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.stream.write_all(chunk.as_bytes())
    }

    /// Sends a chunk of the chat format with this text of the model.
    pub(crate) fn send_text(&mut self, text: &str) {
        self.send(&text_chunk(text));
    }

    /// Disconnects without ending the body.
    pub(crate) fn disconnect(self) {
        self.stream.shutdown(Shutdown::Both).unwrap();
    }

    /// Ends the body, and reads the response.
    pub(crate) fn end(mut self) -> Response {
        self.stream.write_all(b"0\r\n\r\n").unwrap();
        self.response()
    }

    /// Reads the response, whether or not the body has ended.
    pub(crate) fn response(&mut self) -> Response {
        let mut lines = BufReader::new(&self.stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "{head:?}");
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let headers: Vec<(String, String)> = head[1..]
            .iter()
            .filter_map(|line| line.split_once(": "))
            .map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()))
            .collect();
        let length = headers.iter().find(|(n, _)| n == "content-length");
        let mut text = vec![0; length.unwrap().1.parse().unwrap()];
        lines.read_exact(&mut text).unwrap();
        Response {
            status: head[0][9..12].parse().unwrap(),
            headers,
            text: String::from_utf8(text).unwrap(),
            durability: durability(),
        }
    }
}

/// The last event of a stream in the chat format.
pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// A chunk of the chat format with this delta.
pub(crate) fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    let chunk =
        json!({"id": "c", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

pub(crate) fn text_chunk(text: &str) -> String {
    chunk(&json!({"role": "assistant", "content": text}), None)
}

/// The end of an answer: its last chunk, and [`DONE`].
pub(crate) fn answer_end() -> String {
    chunk(&json!({}), Some("stop")) + DONE
}

/// Tool calls with these ids and names, and the end of an answer that waits for their results.
pub(crate) fn calls(calls: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (index, (id, name)) in calls.iter().enumerate() {
        let begin = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
        text += &chunk(&json!({"tool_calls": [begin]}), None);
        for piece in ["{\"where\":", "\"left\"}"] {
            let more = json!({"index": index, "function": {"arguments": piece}});
            text += &chunk(&json!({"tool_calls": [more]}), None);
        }
    }
    text + &chunk(&json!({}), Some("tool_calls")) + DONE
}

/// Starts a turn of the session `s`; returns its path.
pub(crate) fn turn(client: &Client, request: &str) -> String {
    let start = json!({"request_id": request, "question_neutral": "Which way?"});
    let turn = client.post("/s/turns", &start).wrote(201);
    format!("/s/turns/{}", turn["turn_id"].as_str().unwrap())
}

/// The channel and the parts of each item of the session `s`.
pub(crate) fn journal(client: &Client) -> Vec<(String, Value)> {
    let items = client.all("/s/items", 100);
    let channel_and_parts = |item: &Value| {
        (
            item["channel"].as_str().unwrap().to_owned(),
            item["parts"].clone(),
        )
    };
    items.iter().map(channel_and_parts).collect()
}

/// The parts of an item with one text.
pub(crate) fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

/// Waits until this server has written a draft.
pub(crate) fn wait_for_draft(server: &Server) {
    let client = server.client();
    until("a draft is written", || {
        metric(&client, "filrouge_stream_drafts_total") >= 1.0
    });
}

/// Waits until the server records this number of streams.
pub(crate) fn wait_for_streams(server: &Server, streams: f64) {
    let client = server.client();
    until("the server records the streams", || {
        metric(&client, "filrouge_streams_under_way") >= streams
    });
}
