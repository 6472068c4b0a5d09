//! The one place where HTTP clients are made.

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
