//! Creates the HTTP clients for all requests that the server itself sends, and parses their addresses.

use std::time::Duration;

/// A client whose requests time out after `timeout`. It follows no redirects, because only the configuration may choose
/// the target, and it uses no proxy from the environment.
pub fn client(timeout: Duration) -> Result<reqwest::Client, reqwest::Error> {
    // This fails if another provider is installed, which works as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(timeout)
        .build()
}

/// Parses an http or https address; `None` if it is no such address, or contains a user or a password.
pub fn address(text: &str) -> Option<reqwest::Url> {
    let url = reqwest::Url::parse(text).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    let is_bare = url.username().is_empty() && url.password().is_none();
    (is_web && is_bare).then_some(url)
}
