//! `/api/v1/sessions` and `…/{session_id}`.

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use filrouge_engine::{CloseSession, CreateSession, ErasureReceipt, LinkSession, PatchSession};
use filrouge_store::command::SessionFilter;
use filrouge_store::verify::{Verdict, VerificationReport};
use filrouge_types::{
    ErrorCode, IdentityId, ProjectId, Session, SessionId, SessionStatus, Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::{IfMatch, Listed, Made, SessionPath, Shown, Tagged, TaggedWrite, Written};
use filrouge_http::access::{add_session_token, may};
use filrouge_http::answer::{Answer, Page, created, json, written};
use filrouge_http::extract::{Body, Cursor, InSession, InTenant, Limit, OptionalBody};
use filrouge_http::problem::Problem;

/// Creates a session.
///
/// If the caller has it already, it is returned; an id of another owner is a conflict.
#[utoipa::path(
    post,
    path = "/api/v1/sessions",
    operation_id = "createSession",
    tag = "sessions",
    request_body(content = Option<CreateSession>),
    responses(Made<Session>)
)]
pub(super) async fn create(
    State(app): State<App>,
    mut at: InTenant<may::Write>,
    OptionalBody(request): OptionalBody<CreateSession>,
) -> Answer {
    let sessions = &app.sessions;
    let fresh = sessions.fresh_token(&mut at.caller)?;
    let session = sessions.create(&at.caller, request).await?;
    let new = !session.replayed;
    let response = created(new, &session)?;
    let mut response = tagged(response, &session)?;
    if let Some(fresh) = fresh.filter(|_| new) {
        add_session_token(&mut response, &fresh);
    }
    Ok(response)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only sessions of this project.
    project_id: Option<ProjectId>,
    /// Only sessions of this end user.
    identity_id: Option<IdentityId>,
    /// Only sessions that this session started.
    parent_session_id: Option<SessionId>,
    /// Only sessions with an item of this agent.
    agent: Option<Box<str>>,
    /// Only sessions with this status.
    status: Option<SessionStatus>,
    /// Only sessions created at this moment or later.
    since: Option<Timestamp>,
    /// Only sessions created before this moment.
    until: Option<Timestamp>,
    /// Only sessions whose title contains this text; ASCII letters match in either case.
    q: Option<Box<str>>,
    /// The maximum number of sessions.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the previous page.
    #[param(inline)]
    cursor: Option<Cursor>,
}

/// Lists the caller's sessions, newest first.
#[utoipa::path(
    get,
    path = "/api/v1/sessions",
    operation_id = "listSessions",
    tag = "sessions",
    params(ListQuery),
    responses(Listed<Session>)
)]
pub(super) async fn list(State(app): State<App>, at: InTenant<may::Read, ListQuery>) -> Answer {
    let filter = SessionFilter {
        project_id: at.query.project_id,
        team_id: None,
        identity_id: at.query.identity_id,
        status: at.query.status,
        since: at.query.since,
        until: at.query.until,
        parent_session_id: at.query.parent_session_id,
        agent: at.query.agent,
        title: at.query.q,
    };
    let limit = at.query.limit.into();
    let (data, next_cursor) = app
        .sessions
        .list(&at.caller, filter, at.query.cursor.map(Into::into), limit)
        .await?;
    json(&Page { data, next_cursor })
}

/// Returns a session.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}",
    operation_id = "getSession",
    tag = "sessions",
    params(SessionPath),
    responses(Tagged<Session>)
)]
pub(super) async fn show(State(app): State<App>, at: InSession<may::Read>) -> Answer {
    let sessions = &app.sessions;
    let session = sessions.get(&at.caller, &at.session).await?;
    tagged(json(&session)?, &session)
}

/// The scope and the findings of a verification.
#[derive(Serialize, ToSchema)]
#[schema(as = VerifyReport)]
struct Verified<'a> {
    /// The outcome.
    status: Verdict,
    #[serde(flatten)]
    report: &'a VerificationReport,
}

/// Verifies that a session is exactly as it was written.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/verify",
    operation_id = "verifySession",
    tag = "reading",
    params(SessionPath),
    responses(Shown<Verified<'_>>)
)]
pub(super) async fn verify(State(app): State<App>, at: InSession<may::Read>) -> Answer {
    // A verification may read many sessions completely, so the number of concurrent ones is limited.
    let _permit = app.limits().large_answer().await?;
    let report = app.sessions.verify(&at.caller, at.session).await?;
    json(&Verified {
        status: report.verdict(),
        report: &report,
    })
}

/// Changes a session.
///
/// An absent member keeps its value, `null` removes it, `metadata` is merged (RFC 7396). With `If-Match` the change
/// applies only if no other caller has patched the session since that `ETag` was returned; items and turns do not
/// change the `ETag`.
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
    responses(TaggedWrite<Session>)
)]
pub(super) async fn patch(
    State(app): State<App>,
    at: InSession<may::Write>,
    headers: HeaderMap,
    Body(request): Body<PatchSession>,
) -> Answer {
    let versions = if_match(&headers)?;
    let session = app
        .sessions
        .patch(&at.caller, at.session, request, versions)
        .await?;
    tagged(written(&session)?, &session)
}

/// Closes a session: no new turn can start, open turns may end.
///
/// Repeating it changes nothing. A patch of `status` to `active` reopens the session.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/close",
    operation_id = "closeSession",
    tag = "sessions",
    params(SessionPath),
    request_body(content = Option<CloseSession>),
    responses(TaggedWrite<Session>)
)]
pub(super) async fn close(
    State(app): State<App>,
    at: InSession<may::Write>,
    OptionalBody(request): OptionalBody<CloseSession>,
) -> Answer {
    let session = app.sessions.close(&at.caller, at.session, request).await?;
    tagged(written(&session)?, &session)
}

/// Links an anonymous session to an owner, permanently.
///
/// Repeating it with the same owner changes nothing; another owner is a conflict. From then on the session looks
/// absent to all other callers.
#[utoipa::path(
    put,
    path = "/api/v1/sessions/{session_id}/link",
    operation_id = "linkSession",
    tag = "sessions",
    params(SessionPath),
    request_body = LinkSession,
    responses(TaggedWrite<Session>)
)]
pub(super) async fn link(
    State(app): State<App>,
    at: InSession<may::Link>,
    Body(request): Body<LinkSession>,
) -> Answer {
    let session = app
        .sessions
        .link(&at.caller, at.session, request.identity_id)
        .await?;
    tagged(written(&session)?, &session)
}

/// Erases a session permanently.
///
/// Only its name stays, and cannot be used again; its owner gets 410. Repeating it returns the first receipt.
#[utoipa::path(
    delete,
    path = "/api/v1/sessions/{session_id}",
    operation_id = "eraseSession",
    tag = "sessions",
    params(SessionPath),
    responses(Written<ErasureReceipt>)
)]
pub(super) async fn erase(State(app): State<App>, at: InSession<may::Erase>) -> Answer {
    let receipt = app.erasure.erase(&at.caller, at.session).await?;
    written(&receipt)
}

/// Adds a session's `ETag` to a response that contains it.
pub(super) fn tagged(mut response: Response<HttpBody>, session: &Session) -> Answer {
    let tag = HeaderValue::from_str(&format!("\"{}\"", hex(&session.version)))
        .map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))?;
    response.headers_mut().insert(header::ETAG, tag);
    Ok(response)
}

fn hex(version: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*version))
}

/// The characters between two entity tags. A tag may itself contain a comma.
const BETWEEN: [char; 3] = [',', ' ', '\t'];

/// Returns the versions that `If-Match` names; `None`, which matches every version, without the header and for `*`. A
/// weak tag matches no version (RFC 9110).
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
        .with_hint("send the ETag of an answer unchanged, with its quotes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_tags_are_parsed_according_to_http() {
        let parsed = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_MATCH, HeaderValue::from_str(value).unwrap());
            }
            if_match(&headers)
        };
        let one = format!("\"{}\"", hex(&[7; 16]));
        assert_eq!(parsed(&[]).unwrap(), None);
        assert_eq!(parsed(&["*"]).unwrap(), None);
        assert_eq!(parsed(&[&one]).unwrap(), Some(vec![[7; 16]]));
        assert_eq!(
            parsed(&[&format!("\"x\" , {one}")]).unwrap(),
            Some(vec![[7; 16]])
        );
        assert_eq!(parsed(&["\"x\"", &one]).unwrap(), Some(vec![[7; 16]]));
        assert_eq!(parsed(&[&format!("W/{one}")]).unwrap(), Some(vec![]));
        assert_eq!(parsed(&[""]).unwrap(), Some(vec![]));
        assert_eq!(
            parsed(&[&format!("\"a,b\",{one}")]).unwrap(),
            Some(vec![[7; 16]])
        );
        for bad in ["x", "\"", "W/", "\"a\"\"b\"", "*, x"] {
            assert_eq!(
                parsed(&[bad]).unwrap_err().0.code,
                ErrorCode::BadRequest,
                "{bad}"
            );
        }
    }
}
