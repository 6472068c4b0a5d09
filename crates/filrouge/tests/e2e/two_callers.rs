//! One caller takes as much as it can of what all callers share, and another caller is served nevertheless. The table in
//! `docs/limits.md` lists what is shared; unit tests enforce its other rows.

use std::io::Write;
use std::net::TcpStream;

use serde_json::json;
use tokio::net::TcpSocket;

use crate::caller::within_five_seconds;
use crate::http::{Client, parse};
use crate::limits::{MIB, WAIT_LIMIT, connect, read_to_end, serve_with_limits, until};
use crate::receiver::{PreparedResponse, Receiver};
use crate::webhooks::{create_session, sessions, with_secret, write_config};
use crate::world::{Server, World};

/// A request of an end user.
fn get(identity: &str, target: &str) -> Vec<u8> {
    let head = format!(
        "GET {target} HTTP/1.1\r\nhost: localhost\r\nfilrouge-identity: {identity}\r\nconnection: close\r\n\r\n"
    );
    head.into_bytes()
}

/// Sends requests of an end user, and does not read the responses.
fn send_without_reading(server: &Server, requests: &[Vec<u8>]) -> Vec<TcpStream> {
    let send = |request: &Vec<u8>| {
        let mut stream = connect(server);
        stream.write_all(request).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    requests.iter().map(send).collect()
}

fn answered(streams: &[TcpStream]) -> usize {
    let is_answered = |stream: &&TcpStream| stream.peek(&mut [0]).is_ok();
    streams.iter().filter(is_answered).count()
}

fn record(client: &Client, session: &str, text: &str) {
    let turn = json!({ "request_id": "r", "question_neutral": text, "answer_neutral": text });
    client.post(&format!("/{session}/turns"), &turn).is(201);
}

#[test]
fn callers_that_do_not_read_deny_nobody_large_answers() {
    let world = World::new();
    // Each of these responses is larger than a caller's share of memory.
    let settings =
        "bodies_in_flight_bytes = 33554432\nwrite_stall_ms = 120000\n\n[search]\nindex = false";
    let server = serve_with_limits(&world, settings);
    let client = server.client();
    record(&client.for_identity("bob"), "his", "a lantern");
    let callers = ["ann", "cyd", "dan", "eve", "fay", "gus"];
    let paths = ["context", "export"];
    let requests = callers.map(|caller| {
        record(&client.for_identity(caller), caller, &"x".repeat(8 * MIB));
        paths.map(|path| get(caller, &format!("/api/v1/sessions/{caller}/{path}")))
    });
    let unread = send_without_reading(&server, requests.as_flattened());
    until("all requests are answered", || {
        answered(&unread) == unread.len()
    });
    for _ in 0..3 {
        for target in [
            "/api/v1/sessions/his/context",
            "/api/v1/sessions/his/export",
            "/api/v1/sessions/his/stats",
            "/api/v1/sessions/his/verify",
            "/api/v1/search?q=lantern",
        ] {
            let response = client.send_bytes(&get("bob", target));
            assert_eq!(response.status, 200, "{target}: {response:?}");
        }
    }
    for mut stream in unread {
        stream.set_nonblocking(false).unwrap();
        let response = parse(&read_to_end(&mut stream));
        assert_eq!(response.status, 200);
        assert!(response.text.len() > 16 * MIB);
    }
    server.stop();
}

#[test]
fn a_caller_with_too_many_unread_answers_is_refused_alone() {
    let world = World::new();
    // Her share has room for one of her responses.
    let settings = "bodies_in_flight_bytes = 33554432\nunread_bytes = 117440512\nwrite_stall_ms = 120000\n\n[search]\nindex = false";
    let server = serve_with_limits(&world, settings);
    let client = server.client();
    record(&client.for_identity("ann"), "hers", &"x".repeat(10 * MIB));
    record(&client.for_identity("bob"), "his", "a lantern");
    let [hers, his] = ["hers", "his"].map(|id| format!("/api/v1/sessions/{id}/context"));
    let unread = send_without_reading(&server, &[get("ann", &hers)]);
    until("her first request is answered", || answered(&unread) == 1);
    let refused = client.send_bytes(&get("ann", &hers));
    let problem = refused.fails(503, "overloaded");
    assert!(problem["hint"].as_str().unwrap().contains("first read"));
    assert_eq!(client.send_bytes(&get("bob", &his)).status, 200);
    drop(unread);
    until("her next request is answered", || {
        client.send_bytes(&get("ann", &hers)).status == 200
    });
    server.stop();
}

/// Connects from another address of this machine.
fn connect_from(address: &str, server: &Server) -> TcpStream {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind(format!("{address}:0").parse().unwrap())
            .unwrap();
        let target = server.origin().strip_prefix("http://").unwrap();
        let stream = socket.connect(target.parse().unwrap()).await.unwrap();
        stream.into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

#[test]
fn one_address_cannot_use_all_connections() {
    let world = World::new();
    let server = serve_with_limits(&world, "connections = 16");
    let get_health = |mut stream: TcpStream| {
        let get = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(get).ok();
        read_to_end(&mut stream)
    };
    let open: Vec<_> = (0..15).map(|_| connect(&server)).collect();
    until("a further connection from this address is refused", || {
        let response = get_health(connect(&server));
        response.starts_with("HTTP/1.1 503") && {
            parse(&response).fails(503, "overloaded");
            true
        }
    });
    let response = get_health(connect_from("127.0.0.2", &server));
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    drop(open);
    until("this address is served again", || {
        get_health(connect(&server)).starts_with("HTTP/1.1 200")
    });
    server.stop();
}

#[test]
fn a_webhook_that_does_not_answer_delays_no_other() {
    let world = World::new();
    let (silent, other) = (Receiver::start(), Receiver::start());
    silent.respond_otherwise_with(PreparedResponse::Silence);
    let configured = [("a-silent", &silent), ("other", &other)].map(|(name, receiver)| {
        let (url, more) = (receiver.url(), with_secret("timeout_ms = 60000"));
        format!("[[webhooks]]\nname = \"{name}\"\nurl = \"{url}\"\n{more}\n")
    });
    write_config(&world, &configured.concat());
    let server = world.serve();
    within_five_seconds("both webhooks run", || {
        let report = world.run(&["doctor", "webhooks", "--json"]).stdout;
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let webhooks = report["webhooks"].as_array().unwrap();
        webhooks.len() == 2 && webhooks.iter().all(|webhook| webhook["cursor"].is_string())
    });
    create_session(&server.client(), "first");
    silent.until("the silent receiver has a message", |m| !m.is_empty());
    create_session(&server.client(), "second");
    other.until("the other receiver has both changes", |messages| {
        let changes: Vec<_> = messages.iter().flat_map(|m| m.changes()).collect();
        sessions(&changes) == ["first", "second"]
    });
    assert_eq!(silent.received().len(), 1);
}
