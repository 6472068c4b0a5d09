//! Sign-in with an API key or a token, and sign-out.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use filrouge_http::access::{signed_in_header, signed_out_header};
use filrouge_http::response::{RouteResult, text};
use maud::{Markup, html};
use serde::Deserialize;

use crate::Pages;
use crate::form::Form;
use crate::layout::document;
use crate::visit::{Visit, language_of};
use crate::words::FrameWords;

/// Where the form to sign in is sent.
pub(crate) const IN_PATH: &str = "/ui/sign-in";
/// Where the form to sign out is sent.
pub(crate) const OUT_PATH: &str = "/ui/sign-out";

/// How long a sign-in is valid, unless the key or the token expires earlier.
const VALID_FOR: Duration = Duration::from_secs(12 * 3600);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignIn {
    key: String,
}

/// The form to sign in. `is_wrong`: the key or token that was sent is not valid.
pub(crate) fn form(words: &FrameWords, is_wrong: bool) -> Markup {
    html! {
        section.sign-in {
            h1 { (words.sign_in) }
            p { (words.sign_in_hint) }
            form method="post" action=(IN_PATH) {
                label for="key" { (words.api_key) }
                input #key name="key" type="password" autocomplete="current-password" required autofocus
                    aria-invalid=[is_wrong.then_some("true")] aria-describedby=[is_wrong.then_some("wrong-key")];
                @if is_wrong { p.wrong #wrong-key role="alert" { (words.wrong_key) } }
                button type="submit" { (words.sign_in) }
            }
        }
    }
}

/// Keeps a sign-in in the browser's cookie, and returns to the page that asked for it.
pub(crate) async fn sign_in(
    State(pages): State<Pages>,
    headers: HeaderMap,
    Form(sent): Form<SignIn>,
) -> RouteResult {
    let sign_in = pages.authority().sign_in(sent.key.trim(), VALID_FOR).await;
    let cookie =
        sign_in.and_then(|(sign_in, left)| signed_in_header(&sign_in, left.as_secs(), &headers));
    let Some(cookie) = cookie else {
        let language = language_of(&headers);
        let words = FrameWords::of(language);
        let page = document(language, words.sign_in, &html! {}, &form(words, true));
        let page = text("text/html; charset=utf-8", page.into_string());
        return Ok((StatusCode::UNAUTHORIZED, page).into_response());
    };
    Ok(redirect(&return_path(&headers), cookie))
}

/// Removes the sign-in from the browser.
pub(crate) async fn sign_out(_: Visit) -> RouteResult {
    Ok(redirect("/", signed_out_header()))
}

fn redirect(path: &str, cookie: HeaderValue) -> axum::response::Response {
    let location = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    let headers: [(HeaderName, HeaderValue); 2] =
        [(header::LOCATION, location), (header::SET_COOKIE, cookie)];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// The path and query of the page with the form, by `Referer`; `/` if it is none of this server's pages.
fn return_path(headers: &HeaderMap) -> String {
    let text = |name| {
        let value: Option<&HeaderValue> = headers.get(name);
        value.and_then(|value| value.to_str().ok())
    };
    let page = text(header::REFERER).and_then(|referer| {
        let (_, rest) = referer.split_once("://")?;
        let path = rest.strip_prefix(text(header::HOST)?)?;
        let is_path = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
        (is_path && !path.starts_with(IN_PATH)).then(|| path.to_owned())
    });
    page.unwrap_or_else(|| "/".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_returns_only_to_pages_of_this_server() {
        let path = |referer: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("a:1"));
            headers.insert(header::REFERER, HeaderValue::from_str(referer).unwrap());
            return_path(&headers)
        };
        assert_eq!(path("http://a:1/ui/sessions/x?y=z"), "/ui/sessions/x?y=z");
        for other in [
            "http://b/ui/",
            "http://a:1",
            "http://a:1//b/",
            "http://a:12/",
            "http://a:1/ui/sign-in",
            "http://a:1@b/",
            "/ui/",
        ] {
            assert_eq!(path(other), "/", "{other}");
        }
    }
}
