//! CORS: lets browser pages of configured origins call every wire.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use axum::http::{HeaderValue, header};
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer};

use crate::access::SESSION_TOKEN;
use crate::request_id::FILROUGE_REQUEST_ID;
use crate::response::{AS_OF_SEQ, DURABILITY, MASKED, SOURCE};

/// How long a browser may cache the response to a preflight request.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(600);

/// An origin whose browser pages may call the server, such as `https://app.example.org`. It has a port unless that is
/// the scheme's default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedOrigin(pub(crate) HeaderValue);

/// The error for a text that is not an origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no origin such as https://app.example.org or http://localhost:5173")]
pub struct InvalidOrigin(String);

impl FromStr for AllowedOrigin {
    type Err = InvalidOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let invalid_origin = || InvalidOrigin(text.to_owned());
        let url = reqwest::Url::parse(text).map_err(|_| invalid_origin())?;
        let is_web = matches!(url.scheme(), "http" | "https");
        // The text must have the form in which browsers send origins, because origins are compared by bytes.
        if !is_web || url.origin().ascii_serialization() != text {
            return Err(invalid_origin());
        }
        HeaderValue::from_str(text)
            .map(Self)
            .map_err(|_| invalid_origin())
    }
}

impl fmt::Display for AllowedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or_default())
    }
}

/// A layer that answers preflight requests, and lets pages of `origins` read responses. It does not allow credentials
/// that browsers add, such as cookies: callers authenticate with `Authorization`.
pub(crate) fn layer(origins: &[AllowedOrigin]) -> CorsLayer {
    let origins = origins.iter().map(|origin| origin.0.clone());
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods(AllowMethods::mirror_request())
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([
            header::ETAG,
            header::RETRY_AFTER,
            header::CONTENT_DISPOSITION,
            DURABILITY,
            MASKED,
            SOURCE,
            AS_OF_SEQ,
            SESSION_TOKEN,
            FILROUGE_REQUEST_ID,
        ])
        .max_age(PREFLIGHT_MAX_AGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_written_as_browsers_send_it() {
        for good in [
            "https://app.example.org",
            "http://localhost:5173",
            "http://[::1]:8080",
        ] {
            let origin = good.parse::<AllowedOrigin>().map(|o| o.to_string());
            assert_eq!(origin.as_deref(), Ok(good));
        }
        for bad in [
            "",
            "*",
            "null",
            "app.example.org",
            "https://app.example.org/",
            "https://App.example.org",
            "https://app.example.org:443",
            "https://u@app.example.org",
            "ftp://app.example.org",
        ] {
            assert!(bad.parse::<AllowedOrigin>().is_err(), "{bad}");
        }
    }
}
