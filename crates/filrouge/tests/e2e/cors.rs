//! CORS: pages of configured origins can read the responses of every wire, pages of others cannot (docs/access.md).

use serde_json::json;

use crate::caller::{Caller, key};
use crate::http::Response;
use crate::world::World;

/// A configured origin.
const PAGE: &str = "https://app.example.org";
/// An origin that is not configured.
const OTHER_PAGE: &str = "https://app.example.net";

const WIRES: [&str; 3] = ["/api/v1/sessions", "/openai/v1/conversations/s", "/mcp"];

/// The origin whose pages may read a response.
fn allowed_origin(response: &Response) -> Option<&str> {
    response.header("access-control-allow-origin")
}

#[test]
fn pages_of_an_allowed_origin_can_call_every_wire() {
    let world = World::new();
    let admin = key(&world, &["--role", "admin"]);
    let server = world.serve_with_env(&[("FILROUGE_ALLOWED_ORIGINS", PAGE)], &[]);
    let client = server.client();
    let caller = Caller::with_credentials(&server, &admin);
    caller.post("", &json!({ "session_id": "s" })).wrote(201);
    for target in WIRES {
        let send_preflight = |origin: &str| {
            let headers = format!(
                "origin: {origin}\r\naccess-control-request-method: POST\r\n\
                 access-control-request-headers: authorization,filrouge-fence\r\n"
            );
            client.send_without_body("OPTIONS", target, &headers)
        };
        let preflight = send_preflight(PAGE);
        assert_eq!(
            preflight.status, 200,
            "{target}: a preflight needs no credentials"
        );
        assert_eq!(allowed_origin(&preflight), Some(PAGE), "{target}");
        assert_eq!(
            preflight.header("access-control-allow-credentials"),
            None,
            "{target}: browsers send no cookies"
        );
        let header = |name: &str| preflight.header(name).map(str::to_owned);
        assert_eq!(
            header("access-control-allow-methods").as_deref(),
            Some("POST")
        );
        assert_eq!(
            header("access-control-allow-headers").as_deref(),
            Some("authorization,filrouge-fence")
        );
        assert_eq!(
            allowed_origin(&send_preflight(OTHER_PAGE)),
            None,
            "{target}"
        );

        let anonymous = client.send_without_body("GET", target, &format!("origin: {PAGE}\r\n"));
        assert_eq!(anonymous.status, 401, "{target}");
        assert_eq!(
            allowed_origin(&anonymous),
            Some(PAGE),
            "{target}: errors are readable too"
        );
        let authorized = format!("origin: {PAGE}\r\nauthorization: Bearer {admin}\r\n");
        let response = client.send_without_body("GET", target, &authorized);
        // MCP supports only POST.
        assert_eq!(response.status == 200, target != "/mcp", "{target}");
        assert_eq!(allowed_origin(&response), Some(PAGE), "{target}");
        let exposed = response.header("access-control-expose-headers");
        assert!(exposed.is_some_and(|names| names.contains("filrouge-durability")));
        let other = format!("origin: {OTHER_PAGE}\r\nauthorization: Bearer {admin}\r\n");
        assert_eq!(
            allowed_origin(&client.send_without_body("GET", target, &other)),
            None
        );
    }
    let call = |origin: &str| {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\norigin: {origin}\r\nauthorization: Bearer {admin}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        client.send_bytes(head.as_bytes()).status
    };
    assert_eq!(call(OTHER_PAGE), 403);
    assert_ne!(call(PAGE), 403);
    server.stop();
}

#[test]
fn without_keys_allowed_pages_are_answered_and_others_refused() {
    let world = World::new();
    let server = world.serve_with_env(&[("FILROUGE_ALLOWED_ORIGINS", PAGE)], &[]);
    let client = server.client();
    let from = |origin: &str| {
        client.send_without_body("GET", "/api/v1/info", &format!("origin: {origin}\r\n"))
    };
    assert_eq!(from(PAGE).status, 200);
    from(OTHER_PAGE).fails(403, "forbidden");
    let foreign_host = format!(
        "GET /api/v1/info HTTP/1.1\r\nhost: app.example.org\r\norigin: {PAGE}\r\nconnection: close\r\n\r\n"
    );
    client
        .send_bytes(foreign_host.as_bytes())
        .fails(403, "forbidden");
    server.stop();
}

#[test]
fn by_default_no_origin_is_allowed() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let headers = format!("origin: {PAGE}\r\naccess-control-request-method: GET\r\n");
    let preflight = client.send_without_body("OPTIONS", "/healthz", &headers);
    assert_eq!((preflight.status, allowed_origin(&preflight)), (403, None));
    let local =
        client.send_without_body("GET", "/api/v1/info", "origin: http://localhost:5173\r\n");
    assert_eq!((local.status, allowed_origin(&local)), (200, None));
    server.stop();
    let wrong = world
        .command(&["serve"])
        .env("FILROUGE_ALLOWED_ORIGINS", "*")
        .output();
    let reported = String::from_utf8(wrong.unwrap().stderr).unwrap();
    assert!(reported.contains("is no origin such as"), "{reported}");
}
