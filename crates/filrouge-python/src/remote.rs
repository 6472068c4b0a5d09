//! A client for one server, over HTTP/1.1 with kept connections.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::uri::{Authority, Scheme};
use axum::http::{Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

use crate::origin::CallFailure;

/// How long an unused connection is kept. A server closes it after 75 s.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The minimum of the time for which a response may be silent. A tail sends a heartbeat every 15 s.
const SILENCE_MIN: Duration = Duration::from_secs(60);

/// A server.
pub(crate) struct Remote {
    scheme: Scheme,
    authority: Authority,
    client: Client<HttpsConnector<HttpConnector>, Body>,
    timeout: Duration,
}

impl Remote {
    /// Prepares a client; connects with the first request.
    ///
    /// # Errors
    /// What is wrong with the address, or with the system's certificates.
    pub(crate) fn new(url: &str, timeout: Duration) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|e| format!("{url:?} is no URL: {e}"))?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(format!("{url:?} is no URL such as http://localhost:7717"));
        };
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(format!(
                "{scheme}: the URL begins with neither http:// nor https://"
            ));
        }
        if authority.as_str().contains('@') {
            return Err("the URL has a user or a password: use a key or a token".to_owned());
        }
        if parts.path_and_query.is_some_and(|path| path != "/") {
            return Err(format!("{url:?} has a path; leave it out"));
        }
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(scheme == Scheme::HTTPS)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .build(connector);
        Ok(Self {
            scheme,
            authority,
            client,
            timeout,
        })
    }

    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The longest time for which a response may be silent.
    pub(crate) fn idle_timeout(&self) -> Duration {
        self.timeout.max(SILENCE_MIN)
    }

    /// Sends a request, and returns when the head of the response is there.
    pub(crate) async fn call(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, CallFailure> {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        let failed = |error: &dyn Error| CallFailure::Transport(with_causes(error));
        *request.uri_mut() = Uri::from_parts(parts).map_err(|e| failed(&e))?;
        let response = self.client.request(request).await.map_err(|e| failed(&e))?;
        Ok(response.map(Body::new))
    }
}

/// The settings of TLS, with the certificates that the system trusts. They are not read for a server without TLS.
fn tls(reads_certificates: bool) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    if reads_certificates {
        let found = rustls_native_certs::load_native_certs();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let why = found.errors.first().map(ToString::to_string);
            let why = why.unwrap_or_else(|| "none was found".to_owned());
            return Err(format!("the system's certificates cannot be read: {why}"));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// The text of an error and of its causes, which say what the system reported.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
