//! The style sheets, the scripts and the icon: files of this crate, under addresses that change with their content.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::http::{Response, header};
use axum::response::IntoResponse;
use filrouge_http::problem::Problem;
use filrouge_http::response::{RouteResult, text};
use filrouge_types::ErrorCode;
use sha2::{Digest, Sha256};

/// The route of all assets.
pub(crate) const PATH: &str = "/ui/assets/{name}";

/// An asset: its name, media type and content.
type Asset = (&'static str, &'static str, &'static str);

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The style sheets, in the order in which a page links them.
static STYLES: [Asset; 2] = [
    ("document.css", CSS, filrouge_document::STYLE),
    ("pages.css", CSS, include_str!("../assets/pages.css")),
];
/// The scripts, in the order in which a page runs them.
static SCRIPTS: [Asset; 2] = [
    ("htmx.js", SCRIPT, include_str!("../assets/htmx.js")),
    ("pages.js", SCRIPT, include_str!("../assets/pages.js")),
];

/// The icon of all pages.
static ICON: Asset = (
    "icon.svg",
    "image/svg+xml",
    include_str!("../assets/icon.svg"),
);

/// All assets.
fn all() -> impl Iterator<Item = &'static Asset> {
    STYLES.iter().chain(&SCRIPTS).chain([&ICON])
}

/// The digits that make each asset's address change with its content.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (_, _, content) in all() {
        hash.update(content);
    }
    let mut digits = hex::encode(hash.finalize());
    digits.truncate(16);
    digits
});

/// The addresses of the style sheets.
pub(crate) fn styles() -> impl Iterator<Item = String> {
    STYLES.iter().map(address)
}

/// The addresses of the scripts.
pub(crate) fn scripts() -> impl Iterator<Item = String> {
    SCRIPTS.iter().map(address)
}

/// The address of the icon.
pub(crate) fn icon() -> String {
    address(&ICON)
}

fn address((name, ..): &Asset) -> String {
    format!("/ui/assets/{name}?v={}", *VERSION)
}

/// Returns an asset; browsers keep it for a year, because its address changes with its content.
pub(crate) async fn get_asset(Path(name): Path<String>) -> RouteResult {
    let asset = all().find(|asset| asset.0 == name);
    let Some((_, media_type, content)) = asset else {
        let detail = "there is no such file";
        return Err(Problem::new(ErrorCode::RouteNotFound, detail));
    };
    Ok(cached(text(media_type, *content)))
}

fn cached(response: Response<Body>) -> Response<Body> {
    let headers = [(header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
    (headers, response).into_response()
}
