//! `/openapi.json`, and `/docs`, the same as a page.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::header;
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::openapi::{STYLE, complete_document, page};
use filrouge_http::extract::{NoParameters, Query};
use filrouge_http::response::{RouteResult, text};

/// The path of the page.
pub(super) const PAGE_PATH: &str = "/docs";

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| complete_document(super::api().into_openapi()));

static JSON: LazyLock<Bytes> = LazyLock::new(|| format!("{:#}\n", *DOCUMENT).into());

static PAGE: LazyLock<Bytes> = LazyLock::new(|| page(&DOCUMENT).into());

/// The policy of the page: it loads nothing, and has only its own style.
static PAGE_POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// Lets clients cache a response for an hour.
fn cached(response: impl IntoResponse) -> RouteResult {
    let cache_policy = [(header::CACHE_CONTROL, "public, max-age=3600")];
    Ok((cache_policy, response).into_response())
}

/// Returns the document as a page.
pub(super) async fn get_page(_: Query<NoParameters>) -> RouteResult {
    let policy = [(header::CONTENT_SECURITY_POLICY, PAGE_POLICY.as_str())];
    let page = text("text/html; charset=utf-8", PAGE.clone());
    cached((policy, page))
}

/// Returns this document.
///
/// It describes this version of the server. `/docs` shows it as a page.
#[utoipa::path(
    get,
    path = "/openapi.json",
    responses(
        (
            status = 200,
            description = "The document.",
            content((crate::openapi::Document = "application/json")),
            headers(("Cache-Control" = String, description = "Clients may cache it for an hour.")),
        )
    )
)]
pub(super) async fn get_open_api(_: Query<NoParameters>) -> RouteResult {
    cached(text("application/json", JSON.clone()))
}
