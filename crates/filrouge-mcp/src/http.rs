//! Streamable HTTP: one request, one answer, nothing kept in between.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use filrouge_sources::Library;
use http::{Request, Response};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;

use crate::server::McpServer;

/// A request's own library, which the layer that knows its caller puts into the request's extensions.
#[derive(Clone)]
pub struct OfCaller(pub Library);

/// Names of this machine, always answered to.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What requests must look like.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Names in `Host` and `Origin` that are answered to besides those of this machine: `example.org` for any port, or
    /// `example.org:8080`. Others get 403, so that no page in a browser reaches the server by a rebound name.
    pub hosts: Vec<String>,
    /// At most so many bytes of a request's body.
    pub body_bytes: usize,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            body_bytes: 1024 * 1024,
        }
    }
}

/// A tower service for one path. Clones are the same service.
#[derive(Clone)]
pub struct HttpService(StreamableHttpService<McpServer, NeverSessionManager>);

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpService")
    }
}

impl HttpService {
    /// Answers requests from `server`.
    #[must_use]
    pub fn new(server: McpServer, settings: &HttpSettings) -> Self {
        let named = settings.hosts.iter().map(String::as_str);
        let hosts: Vec<&str> = LOOPBACK.into_iter().chain(named).collect();
        let origins = hosts.iter().flat_map(|host| origins(host));
        // No sessions: whoever sends a request is known from that request alone.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_allowed_origins(origins)
            .enforce_origin_validation()
            .with_allowed_hosts(hosts)
            .with_max_request_body_bytes(settings.body_bytes);
        let factory = move || Ok(server.clone());
        let sessions = Arc::new(NeverSessionManager::default());
        Self(StreamableHttpService::new(factory, sessions, config))
    }

    /// Answers a request.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body + Send + 'static,
        B::Error: fmt::Display,
        B::Data: Send,
    {
        self.0.handle(request).await
    }
}

/// The origins of pages that a host serves.
fn origins(host: &str) -> [String; 2] {
    // A bare IPv6 address has several colons, a name with a port one.
    let bare_ipv6 = host.matches(':').count() > 1 && !host.starts_with('[');
    let (host, any_port) = match host.rsplit_once(':') {
        _ if bare_ipv6 => (format!("[{host}]"), true),
        Some((_, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host.to_owned(), false),
        _ => (host.to_owned(), true),
    };
    let port = if any_port { ":*" } else { "" };
    ["http", "https"].map(|scheme| format!("{scheme}://{host}{port}"))
}

impl<B> tower_service::Service<Request<B>> for HttpService
where
    B: Body + Send + 'static,
    B::Error: fmt::Display,
    B::Data: Send,
{
    type Response = Response<BoxBody<Bytes, Infallible>>;
    type Error = Infallible;
    type Future =
        std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.handle(request).await) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_of_hosts() {
        assert_eq!(
            origins("example.org"),
            ["http://example.org:*", "https://example.org:*"]
        );
        assert_eq!(
            origins("example.org:8080"),
            ["http://example.org:8080", "https://example.org:8080"]
        );
        assert_eq!(origins("::1"), ["http://[::1]:*", "https://[::1]:*"]);
        assert_eq!(origins("[::2]:7"), ["http://[::2]:7", "https://[::2]:7"]);
    }
}
