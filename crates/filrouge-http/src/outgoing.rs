//! The one place where HTTP clients and the addresses for them are made.

use std::time::Duration;

/// A client that gives up after `timeout`, follows no redirect (where to ask is for the configuration alone to say)
/// and takes no proxy from the environment.
pub fn client(timeout: Duration) -> Result<reqwest::Client, reqwest::Error> {
    // One that is installed already serves as well.
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
