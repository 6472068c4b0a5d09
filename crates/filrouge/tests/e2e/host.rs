//! Every wire refuses a request that does not name exactly one host, or names several origins, whoever sends it
//! (RFC 9112 §3.2).

use crate::caller::key;
use crate::http::Client;
use crate::mcp_stdio::with_history;
use crate::world::World;

/// What precedes the path in the target, and the headers that name the host and the origin.
const MALFORMED: [(&str, &str); 13] = [
    ("", ""),
    ("", "host: \r\n"),
    ("", "host: 127.0.0.1:80@evil.example\r\n"),
    ("", "host: evil.example@127.0.0.1\r\n"),
    ("", "host: localhost, evil.example\r\n"),
    ("", "host: localhost/evil.example\r\n"),
    ("", "host: localhost\r\nhost: evil.example\r\n"),
    ("", "host: localhost\r\nhost: localhost\r\n"),
    (
        "",
        "host: localhost\r\norigin: http://localhost\r\norigin: https://evil.example\r\n",
    ),
    (
        "",
        "host: localhost\r\norigin: http://localhost\r\norigin: http://localhost\r\n",
    ),
    ("http://localhost", "host: localhost\r\n"),
    ("http://evil.example", "host: localhost\r\n"),
    ("http://localhost", "host: evil.example\r\n"),
];

/// Checks that each path refuses each malformed request, and reads one with a host.
#[track_caller]
fn assert_refused(client: &Client, paths: &[&str], credentials: &str) {
    for path in paths {
        for (prefix, host) in MALFORMED {
            for version in ["1.1", "1.0"] {
                let head = format!(
                    "GET {prefix}{path} HTTP/{version}\r\n{host}{credentials}connection: close\r\n\r\n"
                );
                let refused = client.send_bytes(head.as_bytes());
                assert_eq!(refused.status, 400, "{head:?}: {refused:?}");
            }
        }
        let read = client.send_without_body("GET", path, credentials);
        assert_ne!(read.status, 400, "{path}: {read:?}");
    }
}

#[test]
fn a_request_names_exactly_one_host() {
    let paths = [
        "/api/v1/sessions",
        "/openai/v1/conversations/x",
        "/mcp",
        "/metrics",
        "/healthz",
        "/openapi.json",
        "/nowhere",
    ];
    let world = World::new();
    let server = world.serve();
    assert_refused(&server.client(), &paths, "");
    let refused = server
        .client()
        .send_bytes(b"GET /api/v1/sessions HTTP/1.1\r\nconnection: close\r\n\r\n");
    refused.fails(400, "bad_request");
    server.stop();
    let admin = key(&world, &["--role", "admin"]);
    let server = world.serve();
    let credentials = format!("authorization: Bearer {admin}\r\n");
    assert_refused(&server.client(), &paths, &credentials);
    server.stop();
}

#[test]
fn a_request_to_mcp_alone_names_exactly_one_host() {
    let (world, source) = with_history();
    let server = world.start_mcp(&["--source", &source]);
    let client = Client::new(server.origin().trim_end_matches("/mcp"));
    assert_refused(&client, &["/mcp", "/nowhere"], "");
    server.stop();
}
