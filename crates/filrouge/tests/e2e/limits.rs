//! Limits on the size, the duration and the number of requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::http::{Client, Response, parse};
use crate::world::{Server, World};

pub(crate) const MIB: usize = 1 << 20;
/// How long tests wait: even on a slow machine, only something that hangs exceeds it.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// Starts a server with these settings in the section `[limits]`, and its store in memory.
pub(crate) fn serve_with_limits(world: &World, limits: &str) -> Server {
    let file = world.path("limits.toml");
    std::fs::write(&file, format!("[limits]\n{limits}\n")).unwrap();
    world.serve_with(&["--store", "memory:", "--config", file.to_str().unwrap()])
}

pub(crate) fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.origin().strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

/// The head of a request that starts a turn, with additional headers.
fn head(headers: &str) -> String {
    format!(
        "POST /api/v1/sessions/s/turns HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}\r\n"
    )
}

/// Reads all bytes from the server until it closes the connection.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> String {
    let mut raw_response = Vec::new();
    // A reset after the response also counts as the end.
    stream.read_to_end(&mut raw_response).ok();
    String::from_utf8(raw_response).unwrap()
}

/// The body that starts a turn.
pub(crate) fn turn_body(request: &str) -> serde_json::Value {
    json!({ "request_id": request, "question_neutral": "?" })
}

fn assert_healthy(server: &Server) {
    assert_eq!(server.client().get_body("/healthz")["status"], "ok");
}

/// A metric's value; 0 when nothing was counted yet.
pub(crate) fn metric(client: &Client, name: &str) -> f64 {
    let text = client.send_without_body("GET", "/metrics", "").text;
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

/// Polls until `done`, for at most [`WAIT_LIMIT`].
#[track_caller]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < WAIT_LIMIT, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_body_announced_too_large_is_refused_before_it_is_sent() {
    let world = World::new();
    let server = serve_with_limits(&world, "");
    assert_healthy(&server);
    let before = server.memory_peak();
    let mut stream = connect(&server);
    let head = head("content-length: 104857600\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut raw_response = [0; 12];
    stream.read_exact(&mut raw_response).unwrap();
    assert_eq!(&raw_response, b"HTTP/1.1 413");
    drop(stream);
    // A client that sends the body anyway can read the refusal.
    let response = server
        .client()
        .send_bytes(&[head.as_bytes(), &vec![b' '; 100 * MIB]].concat());
    response.fails(413, "payload_too_large");
    let grown = server.memory_peak() - before;
    assert!(grown < 16 * MIB, "{grown} bytes more");
    assert_healthy(&server);
    server.stop();
}

#[test]
fn an_endless_body_is_cut_off() {
    let world = World::new();
    let server = serve_with_limits(&world, "body_bytes = 1048576");
    let mut stream = connect(&server);
    stream
        .write_all(head("transfer-encoding: chunked\r\n").as_bytes())
        .unwrap();
    let mut reader = stream.try_clone().unwrap();
    let raw_response = std::thread::spawn(move || read_to_end(&mut reader));
    let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 0x10000], b"\r\n"].concat();
    let begin = Instant::now();
    while stream.write_all(&chunk).is_ok() {
        assert!(
            begin.elapsed() < WAIT_LIMIT,
            "the body was read without end"
        );
    }
    parse(&raw_response.join().unwrap()).fails(413, "payload_too_large");
    assert_healthy(&server);
    server.stop();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Posts a body with a `content-encoding`.
fn post_encoded(client: &Client, encoding: &str, body: &[u8]) -> Response {
    let length = body.len();
    let head = head(&format!(
        "content-encoding: {encoding}\r\ncontent-length: {length}\r\nconnection: close\r\n"
    ));
    client.send_bytes(&[head.as_bytes(), body].concat())
}

#[test]
fn gzip_is_decompressed_within_limits() {
    let world = World::new();
    let server = serve_with_limits(&world, "");
    let client = server.client();
    let body = gzip(turn_body("r").to_string().as_bytes());
    assert_eq!(post_encoded(&client, "gzip", &body).status, 201);
    assert_eq!(post_encoded(&client, "x-gzip", &body).status, 200);
    let before = server.memory_peak();
    let bomb = gzip(&vec![b' '; 64 * MIB]);
    assert!(bomb.len() * 900 < 64 * MIB);
    post_encoded(&client, "gzip", &bomb).fails(413, "payload_too_large");
    let twice = gzip(&bomb);
    post_encoded(&client, "gzip", &twice).fails(400, "bad_request");
    let grown = server.memory_peak() - before;
    assert!(grown < 24 * MIB, "{grown} bytes more");
    post_encoded(&client, "gzip", b"{}").fails(400, "bad_request");
    for other in [
        "br",
        "zstd",
        "deflate",
        "gzip, gzip",
        "gzip\r\ncontent-encoding: gzip",
    ] {
        let problem = post_encoded(&client, other, &body).fails(415, "unsupported_media_type");
        assert!(
            problem["hint"].as_str().unwrap().contains("gzip"),
            "{problem}"
        );
    }
    server.stop();
}

#[test]
fn a_body_that_arrives_too_slowly_is_cut_off() {
    let world = World::new();
    let server = serve_with_limits(&world, "body_timeout_ms = 300");
    let mut stream = connect(&server);
    stream
        .write_all(head("content-length: 1000\r\n").as_bytes())
        .unwrap();
    let mut writer = stream.try_clone().unwrap();
    let begin = Instant::now();
    let drip = std::thread::spawn(move || {
        while writer.write_all(b" ").is_ok() && begin.elapsed() < WAIT_LIMIT {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    parse(&read_to_end(&mut stream)).fails(408, "request_timeout");
    drip.join().unwrap();
    assert!(begin.elapsed() < WAIT_LIMIT, "the body was not cut off");
    assert_eq!(
        metric(
            &server.client(),
            r#"filrouge_http_bodies_refused_total{reason="too_slow"}"#
        ),
        1.0
    );
    server.stop();
}

#[test]
fn many_concurrent_bodies_stay_within_the_budget() {
    const BODIES: usize = 200;
    let world = World::new();
    let budget = 64 * MIB;
    let server = serve_with_limits(&world, &format!("bodies_in_flight_bytes = {budget}"));
    assert_healthy(&server);
    let before = server.memory_peak();
    let text = "x".repeat(30 * MIB);
    let body = json!({ "request_id": "r", "question_neutral": text }).to_string();
    let head = head(&format!(
        "content-length: {}\r\nconnection: close\r\n",
        body.len()
    ));
    let (first, second) = body.as_bytes().split_at(MIB);
    let (barrier, overloaded, read) = (
        Barrier::new(BODIES),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    std::thread::scope(|scope| {
        for _ in 0..BODIES {
            scope.spawn(|| {
                let mut stream = connect(&server);
                stream.write_all(head.as_bytes()).ok();
                stream.write_all(first).ok();
                barrier.wait();
                stream.write_all(second).ok();
                let raw_response = read_to_end(&mut stream);
                if raw_response.starts_with("HTTP/1.1 503") {
                    let response = parse(&raw_response);
                    response.fails(503, "overloaded");
                    assert!(response.header("retry-after").is_some());
                    overloaded.fetch_add(1, Ordering::Relaxed);
                } else {
                    parse(&raw_response).fails(422, "limit_exceeded");
                    read.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (overloaded, read) = (overloaded.into_inner(), read.into_inner());
    assert!(
        overloaded > 0 && overloaded + read == BODIES,
        "{overloaded} refused, {read} read"
    );
    // A body that is being read is in memory twice, as bytes and parsed; the rest is for socket buffers.
    let grown = server.memory_peak() - before;
    assert!(grown < 2 * budget + 256 * MIB, "{grown} bytes more");
    let client = server.client();
    until("the bytes are released", || {
        metric(&client, "filrouge_http_bodies_bytes") == 0.0
    });
    let refused = metric(
        &client,
        r#"filrouge_http_bodies_refused_total{reason="no_room"}"#,
    );
    assert!(refused >= overloaded as f64);
    client.post("/s/turns", &turn_body("after")).is(201);
    server.stop();
}

#[test]
fn every_request_has_an_id() {
    let world = World::new();
    let server = serve_with_limits(&world, "");
    let client = server.client();
    for target in ["/healthz", "/nowhere", "/api/v1/sessions/none"] {
        let response = client.send_without_body("GET", target, "x-request-id: trace-1:2\r\n");
        assert_eq!(
            response.header("filrouge-request-id"),
            Some("trace-1:2"),
            "{response:?}"
        );
        assert_eq!(response.header("x-request-id"), Some("trace-1:2"));
    }
    let long = "x".repeat(129);
    let mut seen = std::collections::BTreeSet::new();
    for bad in ["", "a b", "\u{e9}", &long] {
        let response =
            client.send_without_body("GET", "/healthz", &format!("x-request-id: {bad}\r\n"));
        let generated = response.header("filrouge-request-id").unwrap().to_owned();
        assert!(
            generated.len() == 32 && generated.bytes().all(|b| b.is_ascii_hexdigit()),
            "{generated}"
        );
        assert_eq!(response.header("x-request-id"), Some(generated.as_str()));
        assert!(seen.insert(generated));
    }
    server.stop();
}

#[test]
fn rates_are_bounded_and_the_wait_is_reported() {
    let world = World::new();
    let server = serve_with_limits(
        &world,
        "requests_per_second_per_identity = 1\nrequests_burst_per_identity = 3",
    );
    let ann = server.client().for_identity("ann");
    let refused = (0..20)
        .map(|_| ann.get(""))
        .find(|response| response.status != 200)
        .unwrap();
    refused.fails(429, "rate_limited");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3).contains(&wait), "{wait}");
    server.client().for_identity("bob").get_body("");
    std::thread::sleep(Duration::from_secs(wait));
    ann.get_body("");
    assert!(
        metric(
            &server.client(),
            r#"filrouge_rate_limited_total{subject="identity"}"#
        ) >= 1.0
    );
    server.stop();
}

#[test]
fn limits_are_configured_and_shown() {
    let world = World::new();
    let server = serve_with_limits(&world, "item_bytes = 1000\nbody_bytes = 5000");
    let client = server.client();
    let question =
        |bytes: usize| json!({ "request_id": "r", "question_neutral": "x".repeat(bytes) });
    client
        .post("/s/turns", &question(1100))
        .fails(422, "limit_exceeded");
    client
        .post("/s/turns", &question(5100))
        .fails(413, "payload_too_large");
    client.post("/s/turns", &question(500)).is(201);
    server.stop();

    let file = world.path("limits.toml");
    let shown = world.json(&["--config", file.to_str().unwrap(), "config", "show"]);
    let settings = &shown["settings"];
    assert_eq!(
        settings["limits.item_bytes"],
        json!({ "value": "1000", "origin": file })
    );
    assert_eq!(
        settings["limits.connections"],
        json!({ "value": "20480", "origin": "default" })
    );
    assert_eq!(
        settings["limits.requests_per_second_per_key"]["value"],
        "none"
    );
    let mut command = world.command(&["config", "show", "--json"]);
    command.env("FILROUGE_LIMITS_CONNECTIONS", "7");
    let text = crate::world::finish(command, "config show").stdout;
    let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        shown["settings"]["limits.connections"],
        json!({ "value": "7", "origin": "FILROUGE_LIMITS_CONNECTIONS" })
    );
    for bad in [
        "bodybytes = 1",
        "body_bytes = 0",
        "body_bytes = -1",
        "connections = \"many\"",
    ] {
        std::fs::write(&file, format!("[limits]\n{bad}\n")).unwrap();
        let done = world.run(&["--config", file.to_str().unwrap(), "config", "show"]);
        assert_eq!(done.code, Some(2), "{bad}: {done:?}");
    }
}

#[test]
fn logs_contain_nothing_that_was_sent() {
    const CANARY: &str = "canary-7f3a91";
    let world = World::new();
    let environment = [
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
        (
            "FILROUGE_LOG",
            "trace,hyper=trace,hyper_util=trace,tokio=trace",
        ),
    ];
    let server = world.serve_with_env(&environment, &[]);
    let client = server.client();
    let headers =
        format!("authorization: Bearer {CANARY}\r\ncookie: {CANARY}\r\nx-api-key: {CANARY}\r\n");
    for target in ["/healthz", "/api/v1/sessions", "/nowhere"] {
        client.send_without_body("GET", &format!("{target}?token={CANARY}"), &headers);
        client.send_without_body("GET", &format!("{target}/{CANARY}"), &headers);
    }
    let body = json!({ "request_id": "r", "question_neutral": CANARY, "runtime_context": { "token": CANARY } });
    client.post("/s/turns", &body).wrote(201);
    client
        .post_text("/s/turns", &format!("{{\"{CANARY}\": "))
        .fails(400, "bad_request");
    client
        .post("/s/turns", &json!({ CANARY: CANARY }))
        .fails(422, "invalid");
    let metrics = client.send_without_body("GET", "/metrics", "").text;
    server.ask_to_stop();
    let log = server.wait_for_exit();
    assert!(log.contains("request answered"), "{log}");
    assert!(!log.contains(CANARY), "{log}");
    assert!(!metrics.contains(CANARY), "{metrics}");
}
