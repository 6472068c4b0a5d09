//! Limits on request heads, slow readers and connections; and callers that try to exhaust what all callers share.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::caller::Caller;
use crate::http::{Response, parse, text_item};
use crate::limits::{
    MIB, WAIT_LIMIT, connect, metric, read_to_end, serve_with_limits, turn_body, until,
};
use crate::world::{Server, World};

#[test]
fn a_slow_request_head_is_cut_off_and_an_idle_connection_is_not() {
    let world = World::new();
    let server = serve_with_limits(&world, "header_timeout_ms = 300");
    let mut idle = connect(&server);
    let mut slow = connect(&server);
    let begin = Instant::now();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: ").unwrap();
    let dripping = slow.try_clone().unwrap();
    let drip = std::thread::spawn(move || {
        let mut dripping = dripping;
        while dripping.write_all(b"l").is_ok() && begin.elapsed() < WAIT_LIMIT {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    parse(&read_to_end(&mut slow)).fails(408, "request_timeout");
    drip.join().unwrap();
    assert!(
        begin.elapsed() < WAIT_LIMIT,
        "the connection was not cut off"
    );
    let get = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for _ in 0..2 {
        idle.write_all(get).unwrap();
        let mut raw_response = [0; 12];
        idle.read_exact(&mut raw_response).unwrap();
        assert_eq!(&raw_response, b"HTTP/1.1 200");
        // The rest of the response is read before the next request is sent.
        std::thread::sleep(Duration::from_millis(500));
        idle.set_nonblocking(true).unwrap();
        assert!(idle.read(&mut [0; 4096]).unwrap() > 0);
        idle.set_nonblocking(false).unwrap();
    }
    assert_eq!(
        metric(
            &server.client(),
            r#"filrouge_connections_dropped_total{reason="head"}"#
        ),
        1.0
    );
    server.stop();
}

#[test]
fn heads_are_limited_and_refusals_are_readable() {
    let world = World::new();
    let server = serve_with_limits(&world, "");
    let client = server.client();
    let long = format!("x: {}\r\n", "a".repeat(80_000));
    client
        .send_without_body("GET", "/healthz", &long)
        .fails(431, "bad_request");
    let many = "x: a\r\n".repeat(200);
    client
        .send_without_body("GET", "/healthz", &many)
        .fails(431, "bad_request");
    let response = client.send_bytes(b"this is no HTTP\r\n\r\n");
    response.fails(400, "bad_request");
    assert_eq!(response.header("filrouge-request-id").unwrap().len(), 32);
    assert_eq!(
        client
            .send_without_body("GET", "/healthz", "x: a\r\n")
            .status,
        200
    );
    server.stop();
}

#[test]
fn a_reader_that_stalls_is_dropped() {
    let world = World::new();
    let server = serve_with_limits(&world, "write_stall_ms = 300");
    let client = server.client();
    let turn = client.post("/s/turns", &turn_body("r")).is(201);
    let items = format!("/s/turns/{}/items", turn["turn_id"].as_str().unwrap());
    let text = "x".repeat(15 * MIB);
    let body = json!({ "items": [text_item("a", "user", "plan", &text)] });
    client.post(&items, &body).is(201);
    let mut stalled = connect(&server);
    let get = b"GET /api/v1/sessions/s/items HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stalled.write_all(get).unwrap();
    let dropped = r#"filrouge_connections_dropped_total{reason="write"}"#;
    until("the reader is dropped", || metric(&client, dropped) == 1.0);
    let mut received = Vec::new();
    stalled.read_to_end(&mut received).ok();
    assert!(received.starts_with(b"HTTP/1.1 200") && received.len() < 15 * MIB);
    // A slow but steady reader gets the complete response.
    let mut reader = connect(&server);
    reader.write_all(b"GET /api/v1/sessions/s/items HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let (mut total, mut buffer) = (0, vec![0; 2 * MIB]);
    loop {
        std::thread::sleep(Duration::from_millis(20));
        match reader.read(&mut buffer).unwrap() {
            0 => break,
            n => total += n,
        }
    }
    assert!(total > 15 * MIB, "{total} bytes");
    server.stop();
}

#[test]
fn connections_are_bounded() {
    let world = World::new();
    let server = serve_with_limits(&world, "connections = 2");
    let connections = [connect(&server), connect(&server)];
    let get = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let get_health = || {
        let mut stream = connect(&server);
        stream.write_all(get).ok();
        read_to_end(&mut stream)
    };
    until("a third connection is refused", || {
        let raw_response = get_health();
        raw_response.starts_with("HTTP/1.1 503") && {
            parse(&raw_response).fails(503, "overloaded");
            true
        }
    });
    drop(connections);
    until("a connection is accepted again", || {
        get_health().starts_with("HTTP/1.1 200")
    });
    server.stop();
}

#[test]
fn large_answers_that_are_not_read_use_little_memory_and_no_slot() {
    let world = World::new();
    // Without an index, whose updates would use additional memory.
    let settings = "large_answers = 2\nwrite_stall_ms = 120000\n\n[search]\nindex = false";
    let server = serve_with_limits(&world, settings);
    let client = server.client();
    let text = "x".repeat(12 * MIB);
    let turn = json!({ "request_id": "r", "question_neutral": text, "answer_neutral": text });
    client.post("/s/turns", &turn).is(201);
    let get =
        "GET /api/v1/sessions/s/context HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(client.send_bytes(get.as_bytes()).status, 200);
    let before = server.memory_peak();
    let mut slow: Vec<_> = (0..32).map(|_| connect(&server)).collect();
    for mut reader in &slow {
        reader.write_all(get.as_bytes()).unwrap();
        reader.set_nonblocking(true).unwrap();
    }
    until("all requests are answered", || {
        slow.iter().all(|reader| reader.peek(&mut [0]).is_ok())
    });
    let grown = server.memory_peak() - before;
    // All responses together have 768 MiB.
    assert!(grown < 500 * MIB, "{grown} bytes more");
    // The last responses come from files.
    let expected = client.send_bytes(get.as_bytes());
    assert!(expected.text.len() > 24 * MIB);
    for reader in &mut slow {
        reader.set_nonblocking(false).unwrap();
        let response = parse(&read_to_end(reader));
        assert!(response.status == 200 && response.text == expected.text);
    }
    server.stop();
}

/// The head of a request that starts a turn with a body of `bytes`; the caller may add headers and ends it.
fn turn_head(identity: &str, bytes: usize) -> String {
    format!(
        "POST /api/v1/sessions/s/turns HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nfilrouge-identity: {identity}\r\ncontent-length: {bytes}\r\n"
    )
}

#[test]
fn one_caller_cannot_use_the_whole_budget_for_bodies() {
    let world = World::new();
    let server = serve_with_limits(
        &world,
        "bodies_in_flight_bytes = 67108864\nbody_bytes = 4194304",
    );
    let bytes = 3 * MIB;
    let incomplete: Vec<_> = (0..30)
        .map(|_| {
            let mut stream = connect(&server);
            let head = turn_head("ann", bytes + 1) + "\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&vec![b' '; bytes]).ok();
            stream
        })
        .collect();
    let client = server.client();
    let held_bytes = || metric(&client, "filrouge_http_bodies_bytes");
    let refused = r#"filrouge_http_bodies_refused_total{reason="no_room"}"#;
    until("ann's share is used up", || {
        metric(&client, refused) >= 25.0
    });
    assert!(held_bytes() >= bytes as f64 && held_bytes() <= (16 * MIB) as f64);
    let text = "x".repeat(2 * MIB);
    let turn = json!({ "request_id": "r", "question_neutral": text });
    client.for_identity("bob").post("/b/turns", &turn).is(201);
    until("the stalled bodies are cut off", || held_bytes() == 0.0);
    drop(incomplete);
    server.stop();
}

#[test]
fn empty_gzip_members_block_no_other_request() {
    let world = World::new();
    let server = serve_with_limits(&world, "");
    // A gzip member that decompresses to nothing.
    let empty = [
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let body = empty.repeat((32 * MIB) / empty.len());
    let post = |identity: &str| -> Response {
        let head =
            turn_head(identity, body.len()) + "content-encoding: gzip\r\nconnection: close\r\n\r\n";
        server
            .client()
            .send_bytes(&[head.as_bytes(), &body].concat())
    };
    std::thread::scope(|scope| {
        let post = &post;
        let posts = ["a", "b", "c"].map(|identity| scope.spawn(move || post(identity)));
        while !posts.iter().all(|post| post.is_finished()) {
            let begin = Instant::now();
            server.client().get_body("/healthz");
            assert!(begin.elapsed() < Duration::from_secs(2));
        }
        for post in posts {
            post.join().unwrap().fails(400, "bad_request");
        }
    });
    server.stop();
}

#[test]
fn a_strangers_flood_does_not_affect_the_owner() {
    let world = World::new();
    let server = serve_with_limits(
        &world,
        "requests_per_second_per_session = 1\nrequests_burst_per_session = 5",
    );
    let ann = Caller::anonymous(&server).for_identity("ann");
    ann.post("", &json!({ "session_id": "hers" })).is(201);
    let bob = Caller::anonymous(&server).for_identity("bob");
    let flood = |session: &str| -> Vec<u16> { (0..15).map(|_| bob.get(session).status).collect() };
    for statuses in [flood("/hers"), flood("/none")] {
        assert_eq!(statuses[..5], [404; 5]);
        assert!(statuses[5..].contains(&429), "{statuses:?}");
    }
    for _ in 0..5 {
        ann.get("/hers").is(200);
    }
    let bad = flood("/a%00b");
    assert!(bad.contains(&422) && bad.contains(&429), "{bad:?}");
    server.stop();
}

#[test]
fn a_body_with_two_lengths_closes_its_connection() {
    /// Sends a POST with these headers and then a GET on one connection; returns all responses.
    fn send(server: &Server, headers: &str) -> String {
        let mut stream = connect(server);
        let text = format!(
            "POST /api/v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}\r\n2\r\n{{}}\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).unwrap();
        read_to_end(&mut stream)
    }
    let world = World::new();
    let server = serve_with_limits(&world, "");
    let (length, chunked) = ("content-length: 7\r\n", "transfer-encoding: chunked\r\n");
    for headers in [[length, chunked], [chunked, length]] {
        let raw_response = send(&server, &headers.concat());
        assert_eq!(
            raw_response.matches("HTTP/1.1 ").count(),
            1,
            "{raw_response}"
        );
        let response = parse(&raw_response);
        assert_eq!(
            (response.status, response.header("connection")),
            (201, Some("close"))
        );
    }
    server.stop();
}

#[test]
fn a_body_after_a_refusal_does_not_disturb_the_next_request() {
    // The head of a request that is refused for its query, before its body is read.
    let refused_head = |headers: &str| {
        format!(
            "POST /api/v1/sessions?dry_run=true HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}\r\n"
        )
    };
    let next = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let world = World::new();
    let server = serve_with_limits(&world, "");
    let body = format!("{{\"session_id\":\"{}\"}}", "s".repeat(100_000));
    let length = format!("content-length: {}\r\n", body.len());
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for (headers, body) in [
        (length.as_str(), &body),
        ("transfer-encoding: chunked\r\n", &chunked),
    ] {
        let mut stream = connect(&server);
        stream.write_all(refused_head(headers).as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        stream.write_all(body.as_bytes()).unwrap();
        stream.write_all(next.as_bytes()).unwrap();
        let answers = read_to_end(&mut stream);
        let (first, second) = answers.split_at(answers.rfind("HTTP/1.1 ").unwrap());
        let first = parse(first);
        first.fails(422, "invalid");
        assert_eq!(first.header("connection"), None, "{first:?}");
        assert_eq!(parse(second).status, 200);
    }
    // The server does not read such a body if it is large or has not arrived: it closes the connection.
    for headers in [
        "content-length: 9\r\nexpect: 100-continue\r\n",
        "content-length: 9\r\n",
        "content-length: 300000\r\n",
    ] {
        let mut stream = connect(&server);
        stream.write_all(refused_head(headers).as_bytes()).unwrap();
        let response = parse(&read_to_end(&mut stream));
        response.fails(422, "invalid");
        assert_eq!(response.header("connection"), Some("close"), "{response:?}");
    }
    server.stop();
}
