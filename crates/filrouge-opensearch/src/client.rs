//! JSON over HTTP, which search engines speak.

use std::fmt;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;

/// The maximum number of bytes of a response, unless the caller of [`Client::send_within`] names another one.
pub const MAX_RESPONSE_BYTES: usize = 256 << 20;

/// The maximum time until a connection is open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A search engine's address, and how requests to it are authenticated.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The address, `http://…` or `https://…`, without a user, a query or a fragment.
    pub url: String,
    /// What each request shows.
    pub credentials: Credentials,
    /// The time limit of a request.
    pub timeout: Duration,
}

/// What a request shows to a search engine. Never displayed.
#[derive(Clone)]
pub enum Credentials {
    /// Nothing.
    Anonymous,
    /// A user and a password (`Authorization: Basic`).
    Password {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token (`Authorization: Bearer`), such as an API key of Weaviate.
    Bearer(String),
    /// An API key of Elasticsearch (`Authorization: ApiKey`), in its encoded form.
    ApiKey(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server does not answer, or asks to try again. Repeating the request can help.
    #[error("{0}")]
    Unavailable(String),
    /// The server or the client refuses the request: a wrong address, wrong credentials, no permission.
    #[error("{0}")]
    Refused(String),
    /// The response has more than this number of bytes.
    #[error("a response of more than {0} bytes")]
    TooLarge(usize),
}

/// A client of one search engine.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    /// Without a slash at its end.
    base: String,
    credentials: Credentials,
}

/// The body of a request.
pub enum Body {
    /// No body.
    None,
    /// One JSON value.
    Json(Value),
    /// JSON values, each with a line feed after it.
    Lines(String),
}

/// A response that does not mean that the engine is away, or refuses the caller.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// `Null` if the response has no JSON.
    pub body: Value,
}

impl Client {
    /// Creates a client; sends nothing yet.
    ///
    /// # Errors
    /// [`ClientError::Refused`] for an invalid address.
    pub fn new(endpoint: &Endpoint) -> Result<Self, ClientError> {
        Self::with_authorities(endpoint, None)
    }

    /// As [`Self::new`]. `authorities` are certificates in PEM form: besides those that the system trusts, a server whose
    /// certificate one of them signed is trusted.
    ///
    /// # Errors
    /// [`ClientError::Refused`] for an invalid address, and for texts that are no certificates.
    pub fn with_authorities(
        endpoint: &Endpoint,
        authorities: Option<&[u8]>,
    ) -> Result<Self, ClientError> {
        let invalid = |what: &str| ClientError::Refused(format!("the address {what}"));
        let base = endpoint.url.trim_end_matches('/').to_owned();
        let url = Url::parse(&base).map_err(|_| invalid("is no URL"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(invalid("begins with neither http:// nor https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("has a user or a password: use the settings"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("has a query or a fragment"));
        }
        // Fails if the process already has a default TLS provider; that one is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(endpoint.timeout.min(CONNECT_TIMEOUT))
            .timeout(endpoint.timeout);
        if let Some(pem) = authorities {
            let certificates = reqwest::Certificate::from_pem_bundle(pem).ok();
            let certificates = certificates.filter(|all| !all.is_empty()).ok_or_else(|| {
                ClientError::Refused("the file of authorities has no certificates".to_owned())
            })?;
            http = http.tls_certs_merge(certificates);
        }
        let http = http.build().map_err(unavailable)?;
        Ok(Self {
            http,
            base,
            credentials: endpoint.credentials.clone(),
        })
    }

    /// Sends a request. `path` begins without a slash, and is encoded.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] without a response, and for the statuses 408, 429 and 5xx; [`ClientError::Refused`]
    /// for 401 and 403; [`ClientError::TooLarge`] for a response of more than 256 MiB.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Body,
    ) -> Result<Answer, ClientError> {
        self.send_within(method, path, body, MAX_RESPONSE_BYTES)
            .await
    }

    /// As [`Self::send`]; the response has at most `max_bytes`.
    ///
    /// # Errors
    /// Those of [`Self::send`].
    pub async fn send_within(
        &self,
        method: Method,
        path: &str,
        body: Body,
        max_bytes: usize,
    ) -> Result<Answer, ClientError> {
        let request = self.http.request(method, format!("{}/{path}", self.base));
        let request = self.authenticated(request);
        let request = match body {
            Body::None => request,
            Body::Json(json) => request
                .header(CONTENT_TYPE, "application/json")
                .body(json.to_string()),
            Body::Lines(lines) => request
                .header(CONTENT_TYPE, "application/x-ndjson")
                .body(lines),
        };
        let response = request.send().await.map_err(unavailable)?;
        let status = response.status();
        if let Some(error) = general_error(&response) {
            return Err(error);
        }
        let bytes = read(response, max_bytes).await?;
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Ok(Answer { status, body })
    }

    fn authenticated(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.credentials {
            Credentials::Anonymous => request,
            Credentials::Password { user, password } => request.basic_auth(user, Some(password)),
            Credentials::Bearer(token) => request.bearer_auth(token),
            Credentials::ApiKey(key) => request.header("authorization", format!("ApiKey {key}")),
        }
    }
}

/// The error of a status that has the same meaning for every request. Its text does not quote the response, because
/// responses repeat what was sent.
fn general_error(response: &Response) -> Option<ClientError> {
    let status = response.status();
    let number = status.as_u16();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Some(ClientError::Refused(format!(
            "status {number}: the credentials are wrong, or lack a permission"
        )));
    }
    let is_busy = matches!(
        status,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
    );
    (is_busy || status.is_server_error()).then(|| {
        let header = response.headers().get(RETRY_AFTER);
        let wait = header.and_then(|value| value.to_str().ok()?.trim().parse::<u32>().ok());
        let wait = wait.map_or_else(String::new, |s| format!(", which asks to wait for {s} s"));
        ClientError::Unavailable(format!("status {number}{wait}"))
    })
}

async fn read(mut response: Response, max_bytes: usize) -> Result<Vec<u8>, ClientError> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(unavailable)? {
        if bytes.len() + piece.len() > max_bytes {
            return Err(ClientError::TooLarge(max_bytes));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// The error of a request without a complete response, with its causes and without the address.
fn unavailable(error: reqwest::Error) -> ClientError {
    let error = error.without_url();
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    ClientError::Unavailable(message)
}
