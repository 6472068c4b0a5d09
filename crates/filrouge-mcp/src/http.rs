//! The protocol's transport "streamable HTTP": each request gets one response, and no state is kept between requests.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Collected, Empty, Full, LengthLimitError, Limited};
use rmcp::model::JsonRpcError;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;

use crate::call::Corpus;
use crate::faults::{Fault, check_form};
use crate::server::McpServer;

mod names;

/// The histories of one request's caller. The layer that authenticates callers adds this value to the request's
/// extensions.
#[derive(Clone)]
pub struct CallerCorpus {
    /// The histories.
    pub corpus: Corpus,
    /// The caller among those that wait for a call: its key, and the end user that the key acts for.
    pub caller: (String, String),
}

/// Names of this machine: always accepted in `Host` and `Origin`.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The maximum size of a request's body in bytes.
const BODY_MAX_BYTES: usize = 1024 * 1024;

/// Answers MCP requests over HTTP. Clones share the service.
#[derive(Clone)]
pub struct HttpService {
    service: StreamableHttpService<McpServer, NeverSessionManager>,
    /// The accepted host names.
    hosts: Arc<[String]>,
}

impl HttpService {
    /// Creates a service in which `server` answers. `hosts` are the names accepted in `Host` and `Origin` besides those
    /// of this machine: `example.org` (any port) or `example.org:8080`. Requests with other names get 403, so that no
    /// page in a browser reaches the server by DNS rebinding, where the page's host name resolves to this machine.
    pub fn new(server: McpServer, hosts: Vec<String>) -> Self {
        let loopback = LOOPBACK.into_iter().map(str::to_owned);
        let hosts = loopback.chain(hosts).collect();
        // No MCP sessions: each request carries its caller's identity.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            // The module `names` checks hosts and origins instead.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(BODY_MAX_BYTES);
        let factory = move || Ok(server.clone());
        let sessions = Arc::new(NeverSessionManager::default());
        Self {
            service: StreamableHttpService::new(factory, sessions, config),
            hosts,
        }
    }

    /// Answers a request. The HTTP server has checked that it names one host.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
        B::Data: Send,
    {
        // The names are checked here because the SDK would log each refused one, which is a stranger's input, as a
        // warning.
        if !names::are_accepted(request.headers(), &self.hosts) {
            tracing::debug!("a request with a foreign Host or Origin was refused");
            let text = "Forbidden: Host or Origin is not one of this server's names";
            return text_reply(StatusCode::FORBIDDEN, text.to_owned());
        }
        let (mut parts, body) = request.into_parts();
        accept_json(&mut parts.headers);
        if parts.method != Method::POST || !is_json(&parts.headers) {
            let request = Request::from_parts(parts, Empty::<Bytes>::new());
            return self.service.handle(request).await;
        }
        let body = match read_body(body).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        if let Err(fault) = check_form(&body) {
            return fault_reply(fault);
        }
        let request = Request::from_parts(parts, Full::new(body));
        self.service.handle(request).await
    }
}

type Reply = Response<BoxBody<Bytes, Infallible>>;

fn text_reply(status: StatusCode, text: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(text)).boxed());
    *reply.status_mut() = status;
    reply
}

/// A response with a fault as a JSON-RPC error. Its status is 400 if the id of the faulty request is unknown, as the
/// protocol requires, else 200.
fn fault_reply(fault: Fault) -> Reply {
    let status = match fault.id {
        None => StatusCode::BAD_REQUEST,
        Some(_) => StatusCode::OK,
    };
    let message = JsonRpcError::new(fault.id, fault.error);
    let text = serde_json::to_string(&message).unwrap_or_default();
    let mut reply = text_reply(status, text);
    let json = HeaderValue::from_static("application/json");
    reply.headers_mut().insert(header::CONTENT_TYPE, json);
    reply
}

/// Reads a body of at most [`BODY_MAX_BYTES`].
///
/// # Errors
/// The response to send: 413 for a larger body, 400 for one that cannot be read.
async fn read_body<B>(body: B) -> Result<Bytes, Reply>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let collected = Limited::new(body, BODY_MAX_BYTES).collect().await;
    collected.map(Collected::to_bytes).map_err(|why| {
        if why.is::<LengthLimitError>() {
            let text = format!("Payload Too Large: request body exceeds {BODY_MAX_BYTES} bytes");
            return text_reply(StatusCode::PAYLOAD_TOO_LARGE, text);
        }
        let text = format!("the request's body cannot be read: {why}");
        text_reply(StatusCode::BAD_REQUEST, text)
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok());
    value.is_some_and(|value| essence(value).eq_ignore_ascii_case("application/json"))
}

/// A media type without its parameters.
fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or(media_type).trim()
}

/// Makes a client that accepts JSON acceptable to the SDK. The protocol requires that a client also accepts an event
/// stream, but this server always responds with JSON.
fn accept_json(headers: &mut HeaderMap) {
    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    let accepts_json = |value: &HeaderValue| {
        let known = ["application/json", "application/*", "*/*"];
        let mut media_types = value.to_str().unwrap_or_default().split(',').map(essence);
        media_types.any(|media_type| known.iter().any(|k| media_type.eq_ignore_ascii_case(k)))
    };
    if values.peek().is_none() || values.any(accepts_json) {
        let both_types = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, both_types);
    }
}
