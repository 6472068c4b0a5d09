//! A request body that its handler reads as a stream, without a time limit.

use axum::body::Body;
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::{HeaderMap, header};
use filrouge_types::ErrorCode;

use super::receive::{Refusal, budget_caller, is_gzip};
use crate::layer::HttpLayer;
use crate::limits::Reservation;
use crate::problem::Problem;

/// A body that was not read yet, and a reservation in the budget of all bodies for the part that its handler keeps in
/// memory.
pub struct RawBody {
    /// The body, not yet read.
    pub body: Body,
    /// The reservation: empty at first; the handler adjusts it as it reads.
    pub reservation: Reservation,
}

impl<S> FromRequest<S> for RawBody
where
    S: Send + Sync,
    HttpLayer: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        check_content_type(request.headers())?;
        let http = HttpLayer::from_ref(state);
        if is_gzip(request.headers()) != Ok(false) {
            http.metrics()
                .count_refused_body(Refusal::UnknownEncoding.reason());
            let what = "a stream is accepted only without content-encoding";
            return Err(Problem::new(ErrorCode::UnsupportedMediaType, what)
                .with_hint("send the decoded bytes: iter_bytes(), not iter_raw()"));
        }
        let reservation = http.limits().body_reservation();
        let (key, end_user) = budget_caller(&request);
        reservation.set_caller(&key, &end_user, false);
        Ok(Self {
            body: request.into_body(),
            reservation,
        })
    }
}

/// Refuses content types that a browser page can send to another site without a preflight request (DESIGN §8): the
/// types of forms, and a missing type if the request comes from a page.
fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE);
    let text = given.map_or(Some(""), |v| v.to_str().ok()).unwrap_or("?");
    let essence = text.split(';').next().unwrap_or("").trim();
    let essence = essence.to_ascii_lowercase();
    let accepted = match essence.as_str() {
        "" => !is_from_page(headers),
        "text/event-stream" => true,
        "application/x-www-form-urlencoded" => false,
        other => other.starts_with("application/"),
    };
    if accepted {
        return Ok(());
    }
    let detail = format!("content-type is {text:?}");
    let hint = "send the provider's content-type, such as -H 'content-type: text/event-stream' --data-binary @-";
    Err(Problem::new(ErrorCode::UnsupportedMediaType, detail).with_hint(hint))
}

fn is_from_page(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let is_own_site = |site: &[u8]| site == b"same-origin" || site == b"none";
    headers.contains_key(header::ORIGIN) || sites.any(|site| !is_own_site(site.as_bytes()))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn is_accepted(headers: &[(&'static str, &'static str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        check_content_type(&map).is_ok()
    }

    #[test]
    fn a_form_is_not_accepted_as_a_stream() {
        for accepted in [
            "text/event-stream; charset=utf-8",
            "Text/Event-Stream",
            "application/json",
            "application/x-ndjson",
            "application/octet-stream",
            "application/vnd.some+json",
        ] {
            assert!(is_accepted(&[("content-type", accepted)]), "{accepted}");
        }
        for refused in [
            "text/plain",
            "text/plain; application/json",
            "application/x-www-form-urlencoded",
            "Application/X-WWW-Form-Urlencoded; charset=utf-8",
            "multipart/form-data; boundary=x",
            "; application/json",
            "text/html",
            "image/png",
        ] {
            let page = ("origin", "http://localhost:7717");
            assert!(
                !is_accepted(&[("content-type", refused), page]),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_page_without_a_content_type_is_refused() {
        assert!(is_accepted(&[]));
        assert!(is_accepted(&[("sec-fetch-site", "none")]));
        assert!(is_accepted(&[("sec-fetch-site", "same-origin")]));
        assert!(!is_accepted(&[("sec-fetch-site", "cross-site")]));
        assert!(!is_accepted(&[("sec-fetch-site", "same-site")]));
        assert!(!is_accepted(&[("origin", "null")]));
    }
}
