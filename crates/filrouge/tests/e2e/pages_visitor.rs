//! A visitor of the pages for people: a browser without scripts, which signs in and sends forms.

use std::fmt::Write as _;

use crate::http::{Client, Response};
use crate::world::Server;

/// A browser with its headers, such as the cookie of a sign-in.
#[derive(Clone)]
pub(crate) struct Visitor {
    client: Client,
    headers: String,
}

impl Visitor {
    /// A visitor who has not signed in.
    pub(crate) fn new(server: &Server) -> Self {
        Self {
            client: server.client(),
            headers: String::new(),
        }
    }

    /// A visitor who has signed in with a key.
    pub(crate) fn signed_in(server: &Server, key: &str) -> Self {
        let visitor = Self::new(server);
        let response = visitor.post("/ui/sign-in", &[("key", key)]);
        assert_eq!(response.status, 303, "{response:?}");
        let cookie = response.header("set-cookie").unwrap();
        visitor.with("cookie", cookie.split(';').next().unwrap())
    }

    /// The same visitor with one more header.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        Self {
            headers: format!("{}{name}: {value}\r\n", self.headers),
            ..self.clone()
        }
    }

    pub(crate) fn get(&self, target: &str) -> Response {
        self.send("GET", target, &[])
    }

    /// Opens a page, which must exist; returns its HTML.
    #[track_caller]
    pub(crate) fn page(&self, target: &str) -> String {
        let response = self.get(target);
        assert_eq!(response.status, 200, "{target}: {response:?}");
        assert_eq!(
            response.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        response.text
    }

    /// Sends a form.
    pub(crate) fn post(&self, target: &str, fields: &[(&str, &str)]) -> Response {
        let mut body = String::new();
        for (name, value) in fields {
            let separator = if body.is_empty() { "" } else { "&" };
            write!(body, "{separator}{name}={}", encode(value)).unwrap();
        }
        let form = self.with("content-type", "application/x-www-form-urlencoded");
        form.send("POST", target, body.as_bytes())
    }

    /// Sends a form with a file.
    pub(crate) fn upload(&self, target: &str, name: &str, file: &[u8]) -> Response {
        let head = format!(
            "--b\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"f\"\r\n\r\n"
        );
        let body = [head.as_bytes(), file, b"\r\n--b--\r\n"].concat();
        let form = self.with("content-type", "multipart/form-data; boundary=b");
        form.send("POST", target, &body)
    }

    /// Sends a form, which must be accepted; returns the page that it leads to.
    #[track_caller]
    pub(crate) fn submit(&self, target: &str, fields: &[(&str, &str)]) -> String {
        let response = self.post(target, fields);
        assert_eq!(response.status, 303, "{target}: {response:?}");
        response.header("location").unwrap().to_owned()
    }

    pub(crate) fn send(&self, method: &str, target: &str, body: &[u8]) -> Response {
        let head = format!(
            "{method} {target} HTTP/1.0\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n{}\r\n",
            body.len(),
            self.headers
        );
        self.client.send_bytes(&[head.as_bytes(), body].concat())
    }
}

/// The values of an attribute in a page, unescaped; `before` is the text up to the value.
pub(crate) fn values(page: &str, before: &str) -> Vec<String> {
    let after = page.split(before).skip(1);
    let values = after.filter_map(|text| text.split('"').next());
    values.map(|value| value.replace("&amp;", "&")).collect()
}

fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => encoded.push(byte.into()),
            _ => write!(encoded, "%{byte:02X}").unwrap(),
        }
        encoded
    })
}
