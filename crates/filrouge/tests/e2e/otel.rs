//! Spans reach a collector as part of the caller's trace, without credentials.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;

use crate::world::World;

/// Receives one export; returns its request line and its body.
fn receive(stream: TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut request_line = String::new();
    reader.read_line(&mut request_line).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    (&stream).write_all(answer.as_bytes()).ok()?;
    Some((request_line, body))
}

#[test]
fn a_collector_gets_spans_without_credentials() {
    const CANARY: &str = "canary-55aa01";
    // The trace id of the request's `traceparent` below.
    const TRACE: [u8; 16] = [
        0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47,
        0x36,
    ];
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in collector.incoming() {
            if let Some(export) = receive(stream.unwrap()) {
                sender.send(export).ok();
            }
        }
    });
    let world = World::new();
    let environment = [
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ("FILROUGE_LOG", "error"),
        ("FILROUGE_OTLP_ENDPOINT", endpoint.as_str()),
    ];
    let server = world.serve_with_env(&environment, &["--store", "memory:"]);
    let client = server.client();
    let body = json!({ "request_id": "r", "question_neutral": CANARY });
    client.post("/the-session/turns", &body).is(201);
    let headers = format!(
        "authorization: Bearer {CANARY}\r\nx-api-key: {CANARY}\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"
    );
    let target = format!("/api/v1/sessions/the-session?token={CANARY}");
    client.send_without_body("GET", &target, &headers);
    server.ask_to_stop();
    server.wait_for_exit();
    let (mut request_lines, mut exported) = (Vec::new(), Vec::new());
    while let Ok((request_line, body)) = receiver.recv_timeout(Duration::from_secs(1)) {
        request_lines.push(request_line);
        exported.extend(body);
    }
    assert!(!request_lines.is_empty(), "no span was exported");
    assert!(
        request_lines
            .iter()
            .all(|line| line.starts_with("POST /v1/traces ")),
        "{request_lines:?}"
    );
    let contains = |bytes: &[u8]| exported.windows(bytes.len()).any(|w| w == bytes);
    assert!(contains(b"/api/v1/sessions/{session_id}/turns"));
    assert!(contains(b"gen_ai.conversation.id") && contains(b"the-session"));
    assert!(contains(b"http.response.status_code"));
    assert!(contains(&TRACE), "no span belongs to the caller's trace");
    assert!(!contains(CANARY.as_bytes()), "a credential was exported");
    assert!(!contains(b"authorization"));
}
