//! Slow and large heads, readers that stall, and too many connections.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http::{parse, text_item};
use crate::limits::{MIB, PATIENCE, connect, limited, metric, rest, start, until};
use crate::world::World;

#[test]
fn a_slow_head_is_cut_and_a_silent_connection_is_not() {
    let world = World::new();
    let server = limited(&world, "header_timeout_ms = 300");
    let mut idle = connect(&server);
    let mut slow = connect(&server);
    let begin = Instant::now();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: ").unwrap();
    let dripping = slow.try_clone().unwrap();
    let drip = std::thread::spawn(move || {
        let mut dripping = dripping;
        while dripping.write_all(b"l").is_ok() && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    parse(&rest(&mut slow)).fails(408, "request_timeout");
    drip.join().unwrap();
    assert!(begin.elapsed() < PATIENCE, "it was not cut");
    let get = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for _ in 0..2 {
        idle.write_all(get).unwrap();
        let mut answer = [0; 12];
        idle.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        // What is left of the answer is read before the next one comes.
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
fn heads_are_bounded_and_refusals_readable() {
    let world = World::new();
    let server = limited(&world, "");
    let client = server.client();
    let long = format!("x: {}\r\n", "a".repeat(80_000));
    client
        .bare("GET", "/healthz", &long)
        .fails(431, "bad_request");
    let many = "x: a\r\n".repeat(200);
    client
        .bare("GET", "/healthz", &many)
        .fails(431, "bad_request");
    let reply = client.raw(b"this is no HTTP\r\n\r\n");
    reply.fails(400, "bad_request");
    assert_eq!(reply.header("filrouge-request-id").unwrap().len(), 32);
    assert_eq!(client.bare("GET", "/healthz", "x: a\r\n").status, 200);
    server.stop();
}

#[test]
fn a_reader_that_stalls_is_dropped() {
    let world = World::new();
    let server = limited(&world, "write_stall_ms = 300");
    let client = server.client();
    let turn = client.post("/s/turns", &start("r")).is(201);
    let items = format!("/s/turns/{}/items", turn["turn_id"].as_str().unwrap());
    let text = "x".repeat(15 * MIB);
    let body = json!({ "items": [text_item("a", "user", "plan", &text)] });
    client.post(&items, &body).is(201);
    let mut stalled = connect(&server);
    let get = b"GET /api/v1/sessions/s/items HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stalled.write_all(get).unwrap();
    let dropped = r#"filrouge_connections_dropped_total{reason="write"}"#;
    until("it is dropped", || metric(&client, dropped) == 1.0);
    let mut got = Vec::new();
    stalled.read_to_end(&mut got).ok();
    assert!(got.starts_with(b"HTTP/1.1 200") && got.len() < 15 * MIB);
    // Who reads slowly but reads gets all.
    let mut reader = connect(&server);
    reader.write_all(b"GET /api/v1/sessions/s/items HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let (mut all, mut piece) = (0, vec![0; 2 * MIB]);
    loop {
        std::thread::sleep(Duration::from_millis(20));
        match reader.read(&mut piece).unwrap() {
            0 => break,
            n => all += n,
        }
    }
    assert!(all > 15 * MIB, "{all}");
    server.stop();
}

#[test]
fn connections_are_bounded() {
    let world = World::new();
    let server = limited(&world, "connections = 2");
    let held = [connect(&server), connect(&server)];
    let get = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let ask = || {
        let mut stream = connect(&server);
        stream.write_all(get).ok();
        rest(&mut stream)
    };
    until("a third is refused", || {
        let answer = ask();
        answer.starts_with("HTTP/1.1 503") && {
            parse(&answer).fails(503, "overloaded");
            true
        }
    });
    drop(held);
    until("there is room again", || ask().starts_with("HTTP/1.1 200"));
    server.stop();
}
