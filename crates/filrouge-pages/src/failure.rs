//! Failures as pages. Without valid credentials, the page is the form to sign in.

use axum::http::HeaderMap;
use filrouge_http::problem::{FailureText, Problem, detail_and_hint};
use filrouge_sources::LibraryError;
use filrouge_types::{ErrorCode, Failure};
use maud::html;

use crate::layout::document;
use crate::sign_in::form;
use crate::visit::language_of;
use crate::words::FrameWords;

/// Formats a failure as a page in the language of the request.
pub(crate) fn format(failure: &Failure, headers: &HeaderMap) -> FailureText {
    let language = language_of(headers);
    let words = FrameWords::of(language);
    let content = if failure.code == ErrorCode::Unauthenticated {
        form(words, false)
    } else {
        let (detail, hint) = detail_and_hint(failure);
        html! {
            section.failure-page {
                h1 { (words.error) }
                p { bdi { (detail) } }
                @if let Some(hint) = hint { p { bdi { (hint) } } }
                p.meta { (failure.code.as_str()) }
                p { a href="/" { (words.to_sessions) } }
            }
        }
    };
    let title = match failure.code {
        ErrorCode::Unauthenticated => words.sign_in,
        _ => words.error,
    };
    let page = document(language, title, &html! {}, &content);
    ("text/html; charset=utf-8", page.into_string().into_bytes())
}

/// The problem of a query about histories.
pub(crate) fn of_library(error: LibraryError) -> Problem {
    match error {
        LibraryError::Invalid(what) => Problem::new(ErrorCode::Invalid, what),
        LibraryError::NoSession(_) => {
            Problem::new(ErrorCode::SessionNotFound, "there is no such session")
        }
        LibraryError::Unavailable(failure) => failure.into(),
        LibraryError::Unreadable(..) | LibraryError::Cancelled => {
            Problem::new(ErrorCode::Internal, error.to_string())
        }
    }
}
