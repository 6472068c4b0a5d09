//! A caller with credentials: any method, any header, each request on its own connection.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::{Client, Response};
use crate::world::{Server, World};

/// A client that sends the same headers with every request.
#[derive(Clone)]
pub(crate) struct Caller {
    client: Client,
    headers: String,
}

impl Caller {
    pub(crate) fn anonymous(server: &Server) -> Self {
        Self {
            client: server.client(),
            headers: String::new(),
        }
    }

    /// A caller with a key or token.
    pub(crate) fn with_credentials(server: &Server, credentials: &str) -> Self {
        Self::anonymous(server).with("authorization", &format!("Bearer {credentials}"))
    }

    /// The same caller with one more header.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        Self {
            headers: format!("{}{name}: {value}\r\n", self.headers),
            ..self.clone()
        }
    }

    /// The lines of the headers that it sends.
    #[allow(dead_code, reason = "another test binary includes this file")]
    pub(crate) fn headers(&self) -> &str {
        &self.headers
    }

    /// The same caller acting for an end user.
    pub(crate) fn for_identity(&self, identity: &str) -> Self {
        self.with("filrouge-identity", identity)
    }

    /// Sends a request to any path of the server.
    pub(crate) fn send(&self, method: &str, target: &str, body: Option<&str>) -> Response {
        let body = body.map_or_else(String::new, |body| {
            format!(
                "content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        });
        let end = if body.is_empty() { "\r\n" } else { "" };
        let text = format!(
            "{method} {target} HTTP/1.0\r\nhost: localhost\r\nconnection: close\r\n{}{body}{end}",
            self.headers
        );
        self.client.send_bytes(text.as_bytes())
    }

    /// `path` is below `/api/v1/sessions`.
    pub(crate) fn get(&self, path: &str) -> Response {
        self.send("GET", &format!("/api/v1/sessions{path}"), None)
    }

    /// `path` is below `/api/v1/sessions`.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        let target = format!("/api/v1/sessions{path}");
        self.send("POST", &target, Some(&body.to_string()))
    }
}

/// Twice the promised 5 seconds, since tests share the machine with other load.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Polls until `reached`, for at most [`DEADLINE`].
#[track_caller]
pub(crate) fn within_five_seconds(what: &str, mut reached: impl FnMut() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(
            began.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Creates an API key with `arguments` of `keys create`; returns its text.
pub(crate) fn key(world: &World, arguments: &[&str]) -> String {
    let output = world.ok(&[&["keys", "create"], arguments].concat());
    output.trim_end().to_owned()
}

/// The id in a key's text.
pub(crate) fn key_id(key: &str) -> &str {
    key.split('_').nth(1).unwrap()
}
