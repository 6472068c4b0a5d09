//! The frame of every page: head, navigation, and the place of the content.

use axum::body::Body;
use axum::http::Response;
use filrouge_http::access::Permission;
use filrouge_http::response::text;
use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::links::{AUDIT, INTEGRITY};
use crate::sign_in;
use crate::visit::Visit;
use crate::words::{FrameWords, Language};

/// What htmx must not do: run strings as code, add styles, keep pages in the browser's storage, or call other hosts.
const HTMX: &str = r#"{"allowEval":false,"includeIndicatorStyles":false,"historyCacheSize":0,"selfRequestsOnly":true}"#;

/// Returns a page with this title and content.
pub(crate) fn page(visit: &Visit, title: &str, content: &Markup) -> Response<Body> {
    let words = FrameWords::of(visit.language);
    let navigation = html! {
        nav aria-label=(words.pages) {
            a href="/" { (words.sessions) }
            a href="/ui/statistics" { (words.statistics) }
            @if visit.may(Permission::Audit) { a href=(AUDIT) { (words.audit) } }
            a href=(INTEGRITY) { (words.integrity) }
            @if visit.may(Permission::Observe) { a href="/ui/operations" { (words.operations) } }
        }
        @if let Some(key_id) = &visit.signed_in {
            form.sign-out method="post" action=(sign_in::OUT_PATH) {
                span.meta { (key_id) }
                button type="submit" { (words.sign_out) }
            }
        }
    };
    html_response(&document(visit.language, title, &navigation, content))
}

/// Returns a part of a page, for scripts.
pub(crate) fn fragment(content: &Markup) -> Response<Body> {
    html_response(content)
}

fn html_response(content: &Markup) -> Response<Body> {
    text("text/html; charset=utf-8", content.0.clone())
}

/// The entire document.
pub(crate) fn document(
    language: Language,
    title: &str,
    navigation: &Markup,
    content: &Markup,
) -> Markup {
    let words = FrameWords::of(language);
    html! {
        (DOCTYPE)
        html lang=(language.tag()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config" content=(HTMX);
                title { (title) " – filrouge" }
                link rel="icon" href=(assets::icon());
                @for style in assets::styles() { link rel="stylesheet" href=(style); }
                @for script in assets::scripts() { script src=(script) defer {} }
            }
            body.pages {
                a.skip href="#content" { (words.skip_to_content) }
                header.bar {
                    a.home href="/" { "filrouge" }
                    (navigation)
                }
                main #content { (content) }
            }
        }
    }
}
