//! An HTTP client that distinguishes an error response from a missing response.

use std::time::Duration;

use serde_json::Value;

/// A response of the server.
#[derive(Debug)]
pub(crate) struct CrashResponse {
    pub(crate) status: u16,
    /// The header `Filrouge-Durability`.
    pub(crate) durability: Option<String>,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

impl CrashResponse {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The `code` of a problem document.
    pub(crate) fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("")
    }
}

/// The connection ended before the response arrived: whether the write happened is unknown.
#[derive(Debug)]
pub(crate) struct NoResponse(pub(crate) ureq::Error);

/// A client of the native API with keep-alive connections.
pub(crate) struct CrashClient {
    agent: ureq::Agent,
    origin: String,
}

impl CrashClient {
    /// Creates a client of the server at `origin`, which is `http://HOST:PORT`.
    pub(crate) fn new(origin: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(Duration::from_secs(20)))
            .build();
        Self {
            agent: config.into(),
            origin: origin.to_owned(),
        }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<CrashResponse, NoResponse> {
        let result = self.agent.post(self.url(path)).send_json(body);
        result.map_err(NoResponse).and_then(read)
    }

    pub(crate) fn try_get(&self, path: &str) -> Result<CrashResponse, NoResponse> {
        let result = self.agent.get(self.url(path)).call();
        result.map_err(NoResponse).and_then(read)
    }

    /// Reads a path, which must succeed.
    pub(crate) fn get(&self, path: &str) -> Value {
        let response = self
            .try_get(path)
            .unwrap_or_else(|e| panic!("GET {path}: {}", e.0));
        assert_eq!(response.status, 200, "GET {path}: {}", response.body);
        response.body
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }
}

fn read(mut response: ureq::http::Response<ureq::Body>) -> Result<CrashResponse, NoResponse> {
    let header = |name: &str| {
        response
            .headers()
            .get(name)
            .and_then(|v| v.to_str().ok())
            .map(str::to_owned)
    };
    let (status, durability) = (response.status().as_u16(), header("filrouge-durability"));
    let content_type = header("content-type").unwrap_or_default();
    let text = response
        .body_mut()
        .with_config()
        .limit(1 << 30)
        .read_to_string()
        .map_err(NoResponse)?;
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Ok(CrashResponse {
        status,
        durability,
        content_type,
        body,
    })
}
