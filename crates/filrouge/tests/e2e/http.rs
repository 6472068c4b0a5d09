//! An HTTP client that returns responses byte for byte, and can send malformed requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::world::durability;

/// A response of the server.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Lower-case names with values, in the order of arrival.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
    /// The durability that [`Response::wrote`] expects.
    pub(crate) durability: &'static str,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Checks the status; returns the body.
    #[track_caller]
    pub(crate) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.body()
    }

    /// Checks a refusal: its status, its code, and the members that every problem+json has; returns the body.
    #[track_caller]
    pub(crate) fn fails(&self, status: u16, code: &str) -> Value {
        let content_type = self.header("content-type");
        assert_eq!(content_type, Some("application/problem+json"), "{self:?}");
        let body = self.body();
        assert_eq!(body["code"], code, "{self:?}");
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(body["status"], status);
        assert_eq!(body["type"], format!("urn:filrouge:error:{code}"));
        assert!(body["title"].as_str().is_some_and(|t| !t.is_empty()));
        assert!(body["detail"].as_str().is_some_and(|t| !t.is_empty()));
        assert!(body.get("hint").is_some(), "{self:?}");
        assert_eq!(self.header("filrouge-durability"), None, "{self:?}");
        body
    }

    /// Checks an acknowledged write, which must name its durability; returns the body.
    #[track_caller]
    pub(crate) fn wrote(&self, status: u16) -> Value {
        let body = self.is(status);
        assert_eq!(self.header("filrouge-durability"), Some(self.durability));
        body
    }
}

/// A keep-alive client of the native API, on behalf of one identity or anonymous.
#[derive(Clone)]
pub(crate) struct Client {
    agent: ureq::Agent,
    origin: String,
    identity: Option<String>,
    durability: &'static str,
}

impl Client {
    /// `origin` is `http://HOST:PORT`.
    pub(crate) fn new(origin: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(Duration::from_secs(120)))
            .build();
        Self {
            agent: config.into(),
            origin: origin.to_owned(),
            identity: None,
            durability: durability(),
        }
    }

    /// The same client for a server whose store has this durability.
    pub(crate) fn expecting_durability(self, durability: &'static str) -> Self {
        Self { durability, ..self }
    }

    /// The same client on behalf of `identity`.
    pub(crate) fn for_identity(&self, identity: &str) -> Self {
        Self {
            identity: Some(identity.to_owned()),
            ..self.clone()
        }
    }

    /// `path` is below `/api/v1/sessions`.
    pub(crate) fn get(&self, path: &str) -> Response {
        let mut request = self.agent.get(self.url(path));
        if let Some(identity) = &self.identity {
            request = request.header("filrouge-identity", identity);
        }
        self.read(request.call().unwrap_or_else(|e| panic!("GET {path}: {e}")))
    }

    /// Reads a path, which must succeed; returns the body.
    #[track_caller]
    pub(crate) fn get_body(&self, path: &str) -> Value {
        self.get(path).is(200)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        self.post_text(path, &body.to_string())
    }

    pub(crate) fn post_text(&self, path: &str, body: &str) -> Response {
        self.try_post(path, body)
            .unwrap_or_else(|e| panic!("POST {path}: {e}"))
    }

    /// Sends a write to a server that may not respond.
    pub(crate) fn try_post(&self, path: &str, body: &str) -> Result<Response, ureq::Error> {
        let mut request = self.agent.post(self.url(path));
        if let Some(identity) = &self.identity {
            request = request.header("filrouge-identity", identity);
        }
        let request = request.header("content-type", "application/json");
        self.try_read(request.send(body.as_bytes())?)
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Response {
        self.send("PUT", path, Some(body), &[])
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> Response {
        self.send("PATCH", path, Some(body), &[])
    }

    pub(crate) fn delete(&self, path: &str) -> Response {
        self.send("DELETE", path, None, &[])
    }

    /// Sends a request with any method and additional headers.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Response {
        self.try_send(method, path, body, headers)
            .unwrap_or_else(|e| panic!("{method} {path}: {e}"))
    }

    /// Like [`Self::send`], to a server that may not respond.
    pub(crate) fn try_send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Result<Response, ureq::Error> {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(self.url(path));
        if let Some(identity) = &self.identity {
            request = request.header("filrouge-identity", identity);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json");
                self.agent.run(request.body(body.to_string()).unwrap())
            }
            None => self.agent.run(request.body(()).unwrap()),
        };
        self.try_read(response?)
    }

    /// Sends the bytes of a complete request on its own connection.
    pub(crate) fn send_bytes(&self, request: &[u8]) -> Response {
        let host = self.origin.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let limit = Some(Duration::from_secs(60));
        stream.set_read_timeout(limit).unwrap();
        // A server may respond, and close, before it has read everything.
        stream.write_all(request).ok();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).ok();
        parse(&String::from_utf8(response).unwrap())
    }

    /// Sends a request without a body, with the given header lines.
    pub(crate) fn send_without_body(&self, method: &str, target: &str, headers: &str) -> Response {
        let headers_lower = headers.to_ascii_lowercase();
        let host = match headers_lower.lines().any(|line| line.starts_with("host:")) {
            true => "",
            false => "host: localhost\r\n",
        };
        let text =
            format!("{method} {target} HTTP/1.1\r\n{host}{headers}connection: close\r\n\r\n");
        self.send_bytes(text.as_bytes())
    }

    /// Reads all rows of a list, page by page.
    #[track_caller]
    pub(crate) fn all(&self, path: &str, limit: usize) -> Vec<Value> {
        let (mut rows, mut cursor) = (Vec::new(), String::new());
        loop {
            let join = if path.contains('?') { '&' } else { '?' };
            let mut page = self.get_body(&format!("{path}{join}limit={limit}{cursor}"));
            rows.append(page["data"].as_array_mut().unwrap());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return rows,
            }
        }
    }

    /// The URL of a path below `/api/v1/sessions`, or of another route of the server.
    fn url(&self, path: &str) -> String {
        if ["/healthz", "/readyz", "/metrics", "/openapi.json", "/api/"]
            .iter()
            .any(|other| path.starts_with(other))
        {
            return format!("{}{path}", self.origin);
        }
        format!("{}/api/v1/sessions{path}", self.origin)
    }

    fn read(&self, response: ureq::http::Response<ureq::Body>) -> Response {
        self.try_read(response).unwrap()
    }

    /// Reads a response; fails if the server ends before it has sent everything.
    fn try_read(
        &self,
        mut response: ureq::http::Response<ureq::Body>,
    ) -> Result<Response, ureq::Error> {
        let headers = response.headers().iter();
        let headers = headers.map(|(n, v)| (n.to_string(), v.to_str().unwrap().to_owned()));
        let headers = headers.collect();
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(1 << 30);
        Ok(Response {
            status,
            headers,
            text: body.read_to_string()?,
            durability: self.durability,
        })
    }
}

/// Parses the bytes of a response.
pub(crate) fn parse(response: &str) -> Response {
    let (head, text) = response
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no response: {response:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|l| l.split(' ').nth(1)).unwrap();
    let headers = lines.filter_map(|l| l.split_once(": "));
    Response {
        status: status.parse().unwrap(),
        headers: headers
            .map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()))
            .collect(),
        text: text.to_owned(),
        durability: durability(),
    }
}

/// An item with one text part.
pub(crate) fn text_item(id: &str, role: &str, channel: &str, text: &str) -> Value {
    serde_json::json!({
        "item_id": id, "role": role, "channel": channel, "parts": [{ "type": "text", "text": text }],
    })
}
