//! `/api/v1/sessions/{session_id}`: changed, linked, ended, erased.

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use filrouge_engine::{CloseSession, ErasureReceipt, LinkSession, PatchSession};
use filrouge_types::{ErrorCode, Session};

use crate::app::App;
use crate::openapi::{
    Called, Conditional, IfMatch, LinkingSession, OfSession, Problems, SessionPath, Stored,
    TaggedWrite, UnderLease, WithBody, Writing, Written,
};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, written};
use filrouge_http::extract::{Body, InSession, NoParameters, OptionalBody, Query};
use filrouge_http::problem::Problem;

/// Changes a session.
///
/// What is absent stays, `null` takes a value away, `metadata` is merged (RFC 7396). With `If-Match` only if nobody
/// has patched it since that `ETag` was given; what is said in the session does not change its `ETag`.
#[utoipa::path(
    patch,
    path = "/api/v1/sessions/{session_id}",
    operation_id = "patchSession",
    tag = "sessions",
    params(SessionPath, IfMatch),
    request_body(content(
        (PatchSession = "application/json"),
        (PatchSession = "application/merge-patch+json"),
    )),
    responses(TaggedWrite<Session>, Problems<(Called, Stored, WithBody, Writing, OfSession, Conditional, UnderLease)>)
)]
pub(super) async fn patch(
    State(app): State<App>,
    at: InSession<may::Write>,
    headers: HeaderMap,
    _: Query<NoParameters>,
    Body(request): Body<PatchSession>,
) -> Answer {
    let versions = if_match(&headers)?;
    let session = app
        .engine()
        .sessions
        .patch(&at.caller, at.session, request, versions)
        .await?;
    tagged(written(&session)?, &session)
}

/// Ends a session: no turn begins in it any more, open ones may end.
///
/// Doing it again changes nothing. A patch of `status` to `active` opens it again.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/close",
    operation_id = "closeSession",
    tag = "sessions",
    params(SessionPath),
    request_body(content = Option<CloseSession>),
    responses(TaggedWrite<Session>, Problems<(Called, Stored, WithBody, Writing, OfSession, UnderLease)>)
)]
pub(super) async fn close(
    State(app): State<App>,
    at: InSession<may::Write>,
    _: Query<NoParameters>,
    OptionalBody(request): OptionalBody<CloseSession>,
) -> Answer {
    let session = app
        .engine()
        .sessions
        .close(&at.caller, at.session, request)
        .await?;
    tagged(written(&session)?, &session)
}

/// Gives an anonymous session its owner, once and for all.
///
/// The same owner again changes nothing; another one is a conflict. From then on the session is absent to everybody
/// else.
#[utoipa::path(
    put,
    path = "/api/v1/sessions/{session_id}/link",
    operation_id = "linkSession",
    tag = "sessions",
    params(SessionPath),
    request_body = LinkSession,
    responses(TaggedWrite<Session>, Problems<(Called, Stored, WithBody, Writing, OfSession, LinkingSession)>)
)]
pub(super) async fn link(
    State(app): State<App>,
    at: InSession<may::Link>,
    _: Query<NoParameters>,
    Body(request): Body<LinkSession>,
) -> Answer {
    let session = app
        .engine()
        .sessions
        .link(&at.caller, at.session, request.identity_id)
        .await?;
    tagged(written(&session)?, &session)
}

/// Erases a session for good.
///
/// Nothing of it stays but its name, which is not given again; its owner finds it gone (410). Doing it again gives
/// the first receipt.
#[utoipa::path(
    delete,
    path = "/api/v1/sessions/{session_id}",
    operation_id = "eraseSession",
    tag = "sessions",
    params(SessionPath),
    responses(Written<ErasureReceipt>, Problems<(Called, Stored, Writing, OfSession)>)
)]
pub(super) async fn erase(
    State(app): State<App>,
    at: InSession<may::Erase>,
    _: Query<NoParameters>,
) -> Answer {
    let receipt = app.engine().erasure.erase(&at.caller, at.session).await?;
    written(&receipt)
}

/// An answer that shows a session, with its `ETag`.
pub(super) fn tagged(mut response: Response<HttpBody>, session: &Session) -> Answer {
    let tag = HeaderValue::from_str(&format!("\"{}\"", hex(&session.version)))
        .map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))?;
    response.headers_mut().insert(header::ETAG, tag);
    Ok(response)
}

fn hex(version: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*version))
}

/// What stands between entity tags, which may hold commas themselves.
const BETWEEN: [char; 3] = [',', ' ', '\t'];

/// The versions that `If-Match` names; `None` without it, and for `*`. A weak tag matches nothing (RFC 9110).
fn if_match(headers: &HeaderMap) -> Result<Option<Vec<[u8; 16]>>, Problem> {
    let mut given = headers.get_all(header::IF_MATCH).iter().peekable();
    if given.peek().is_none() {
        return Ok(None);
    }
    let mut versions = Vec::new();
    for value in given {
        let text = value.to_str().map_err(|_| no_tags())?;
        if text.trim() == "*" {
            return Ok(None);
        }
        let mut rest = text.trim_start_matches(BETWEEN);
        while !rest.is_empty() {
            let opaque = rest.strip_prefix("W/").unwrap_or(rest);
            let strong = opaque.len() == rest.len();
            let inner = opaque.strip_prefix('"').and_then(|t| t.split_once('"'));
            let (tag, after) = inner.ok_or_else(no_tags)?;
            if !(after.is_empty() || after.starts_with(BETWEEN)) {
                return Err(no_tags());
            }
            let version = u128::from_str_radix(tag, 16).ok();
            let version = version.filter(|_| strong && tag.len() == 32);
            versions.extend(version.map(u128::to_be_bytes));
            rest = after.trim_start_matches(BETWEEN);
        }
    }
    Ok(Some(versions))
}

fn no_tags() -> Problem {
    Problem::new(ErrorCode::BadRequest, "If-Match holds no entity tags")
        .with_hint("send the ETag of an answer as it came, with its quotes")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn entity_tags_are_read_as_http_says() {
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_MATCH, HeaderValue::from_str(value).unwrap());
            }
            if_match(&headers)
        };
        let one = format!("\"{}\"", hex(&[7; 16]));
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&["*"]).unwrap(), None);
        assert_eq!(of(&[&one]).unwrap(), Some(vec![[7; 16]]));
        assert_eq!(
            of(&[&format!("\"x\" , {one}")]).unwrap(),
            Some(vec![[7; 16]])
        );
        assert_eq!(of(&["\"x\"", &one]).unwrap(), Some(vec![[7; 16]]));
        assert_eq!(of(&[&format!("W/{one}")]).unwrap(), Some(vec![]));
        assert_eq!(of(&[""]).unwrap(), Some(vec![]));
        assert_eq!(
            of(&[&format!("\"a,b\",{one}")]).unwrap(),
            Some(vec![[7; 16]])
        );
        for bad in ["x", "\"", "W/", "\"a\"\"b\"", "*, x"] {
            assert_eq!(
                of(&[bad]).unwrap_err().0.code,
                ErrorCode::BadRequest,
                "{bad}"
            );
        }
    }
}
