//! Creates all HTTP clients and parses their addresses.

use std::time::Duration;

/// A client with a timeout that follows no redirects (only the configuration may choose the target) and uses no proxy
/// from the environment.
pub fn client(timeout: Duration) -> Result<reqwest::Client, reqwest::Error> {
    // A provider that is already installed works as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(timeout)
        .build()
}

/// An http or https address without user and password.
pub fn address(text: &str) -> Option<reqwest::Url> {
    let url = reqwest::Url::parse(text).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    let is_bare = url.username().is_empty() && url.password().is_none();
    (is_web && is_bare).then_some(url)
}
