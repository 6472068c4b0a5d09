//! `/api/v1/sessions` and `…/{session_id}`.

use axum::body::Body as HttpBody;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use filrouge_engine::{
    CloseSession, CreateSession, ErasureReceipt, LinkSession, PatchSession, Written,
};
use filrouge_store::WorkSize;
use filrouge_store::command::{SessionFilter, SessionSort};
use filrouge_store::verify::{Verdict, VerificationReport};
use filrouge_types::{
    ErrorCode, IdentityId, ProjectId, Result, Session, SessionId, SessionStatus, Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::{
    CreatedOrTaggedResponse, IfMatch, PageResponse, StateResponse, TaggedResponse,
    TaggedWriteResponse, WriteResponse,
};
use filrouge_http::access::{add_session_token, may};
use filrouge_http::extract::{Body, Limit, OptionalBody, SessionAccess, TenantAccess};
use filrouge_http::problem::Problem;
use filrouge_http::response::{Page, RouteResult, create_response, json, write_response, written};

/// Creates a session.
///
/// If the caller has it already, it is returned; an id of another owner is a conflict.
#[utoipa::path(
    post,
    path = "/api/v1/sessions",
    request_body(content = Option<CreateSession>),
    responses(CreatedOrTaggedResponse<Session>)
)]
pub(super) async fn create_session(
    app: App,
    mut access: TenantAccess<may::Write>,
    OptionalBody(request): OptionalBody<CreateSession>,
) -> RouteResult {
    let sessions = &app.sessions;
    let new_token = sessions.generate_token(&mut access.caller)?;
    let session = sessions.create(&access.caller, request).await?;
    let is_new = !session.replayed;
    let response = create_response(is_new, &session)?;
    let mut response = with_etag(response, &session)?;
    if let Some(new_token) = new_token.filter(|_| is_new) {
        add_session_token(&mut response, &new_token);
    }
    Ok(response)
}

#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ListOrder {
    Created,
    #[default]
    Updated,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionsQuery {
    /// Only sessions of this project.
    project_id: Option<ProjectId>,
    /// Only sessions of this end user.
    identity_id: Option<IdentityId>,
    /// Only sessions that this session started.
    parent_session_id: Option<SessionId>,
    /// Only sessions with an item of this agent, or of one whose name matches a pattern such as `*desk*`.
    agent: Option<Box<str>>,
    /// Only sessions with this status.
    status: Option<SessionStatus>,
    /// Only sessions created at this moment or later.
    since: Option<Timestamp>,
    /// Only sessions created before this moment.
    until: Option<Timestamp>,
    /// Only sessions whose title contains this text; ASCII letters match in either case.
    q: Option<Box<str>>,
    /// The order, newest first: by last activity (`updated`), or by creation (`created`).
    #[serde(default)]
    #[param(inline)]
    order: ListOrder,
    /// The maximum number of sessions.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the previous page, which had the same order.
    #[param(pattern = r"^[0-9]{1,19}(\.[0-9]{1,19})?$")]
    cursor: Option<String>,
}

/// Lists the caller's sessions, the last active first.
///
/// With `order=created` the newest is first, and pages neither skip nor repeat sessions. By last activity, a session that
/// becomes active meanwhile moves to the front: later pages may lack it or repeat it.
///
/// Sessions that were damaged in the store are left out and named in `findings`.
#[utoipa::path(
    get,
    path = "/api/v1/sessions",
    params(SessionsQuery),
    responses(PageResponse<Session>)
)]
pub(super) async fn list_sessions(
    app: App,
    access: TenantAccess<may::Read, SessionsQuery>,
) -> RouteResult {
    let filter = SessionFilter {
        project_id: access.query.project_id,
        team_id: None,
        identity_id: access.query.identity_id,
        status: access.query.status,
        since: access.query.since,
        until: access.query.until,
        parent_session_id: access.query.parent_session_id,
        agent: access.query.agent,
        title: access.query.q,
        order: match access.query.order {
            ListOrder::Created => SessionSort::Created,
            ListOrder::Updated => SessionSort::Updated,
        },
    };
    let limit = access.query.limit.into();
    let list = app
        .sessions
        .list_with_findings(&access.caller, filter, access.query.cursor, limit);
    let ((data, next_cursor), findings) = list.await?;
    json(&Page {
        data,
        next_cursor,
        findings,
    })
}

/// Returns a session.
///
/// Its turns and items are lists of their own. The `ETag` is for a later patch.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}",
    responses(TaggedResponse<Session>)
)]
pub(super) async fn get_session(app: App, access: SessionAccess<may::Read>) -> RouteResult {
    let sessions = &app.sessions;
    let session = sessions.get(&access.caller, &access.session).await?;
    with_etag(json(&session)?, &session)
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
///
/// Every record is compared with its authentication code and its link, and with the commit log.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/verify",
    responses(StateResponse<Verified<'_>>)
)]
pub(super) async fn verify_session(app: App, access: SessionAccess<may::Read>) -> RouteResult {
    // A verification may read many sessions completely, so the number of concurrent ones is limited.
    let _permit = app.work_permit(&access.caller, WorkSize::Small).await?;
    let report = app.sessions.verify(&access.caller, access.session).await?;
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
    params(IfMatch),
    request_body(content(
        (PatchSession = "application/json"),
        (PatchSession = "application/merge-patch+json"),
    )),
    responses(TaggedWriteResponse<Session>)
)]
pub(super) async fn patch_session(
    app: App,
    access: SessionAccess<may::Write>,
    headers: HeaderMap,
    Body(request): Body<PatchSession>,
) -> RouteResult {
    let versions = if_match(&headers)?;
    let sessions = &app.sessions;
    written_session(sessions.patch(&access.caller, access.session, request, versions)).await
}

/// Closes a session: no new turn can start, open turns may end.
///
/// Repeating it changes nothing. A patch of `status` to `active` reopens the session.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/close",
    request_body(content = Option<CloseSession>),
    responses(TaggedWriteResponse<Session>)
)]
pub(super) async fn close_session(
    app: App,
    access: SessionAccess<may::Write>,
    OptionalBody(request): OptionalBody<CloseSession>,
) -> RouteResult {
    written_session(app.sessions.close(&access.caller, access.session, request)).await
}

/// Links an anonymous session to an owner, permanently.
///
/// Repeating it with the same owner changes nothing; another owner is a conflict. From then on the session looks
/// absent to all other callers.
#[utoipa::path(
    put,
    path = "/api/v1/sessions/{session_id}/link",
    request_body = LinkSession,
    responses(TaggedWriteResponse<Session>)
)]
pub(super) async fn link_session(
    app: App,
    access: SessionAccess<may::Link>,
    Body(request): Body<LinkSession>,
) -> RouteResult {
    let (sessions, owner) = (&app.sessions, request.identity_id);
    written_session(sessions.link(&access.caller, access.session, owner)).await
}

/// Erases a session permanently.
///
/// Only its name stays, and cannot be used again; its owner gets 410. Repeating it returns the first receipt.
#[utoipa::path(
    delete,
    path = "/api/v1/sessions/{session_id}",
    responses(WriteResponse<ErasureReceipt>)
)]
pub(super) async fn erase_session(app: App, access: SessionAccess<may::Erase>) -> RouteResult {
    written(app.erasure.erase(&access.caller, access.session)).await
}

/// Waits for a write to a session, and returns the response to it with the session's `ETag`.
async fn written_session(write: impl Future<Output = Result<Written<Session>>>) -> RouteResult {
    let session = write.await?;
    with_etag(write_response(&session)?, &session)
}

/// Adds a session's `ETag` to a response that contains it.
pub(super) fn with_etag(mut response: Response<HttpBody>, session: &Session) -> RouteResult {
    let tag = format!("\"{:032x}\"", u128::from_be_bytes(session.version));
    let tag = HeaderValue::try_from(tag);
    let tag = tag.map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))?;
    response.headers_mut().insert(header::ETAG, tag);
    Ok(response)
}

/// The characters between two entity tags. A tag may itself contain a comma.
const TAG_SEPARATORS: [char; 3] = [',', ' ', '\t'];

/// Returns the versions that `If-Match` names. `None`, which matches every version, is the result without the header
/// and for `*`. A weak tag matches no version (RFC 9110).
fn if_match(headers: &HeaderMap) -> Result<Option<Vec<[u8; 16]>>, Problem> {
    let mut values = headers.get_all(header::IF_MATCH).iter().peekable();
    if values.peek().is_none() {
        return Ok(None);
    }
    let mut versions = Vec::new();
    for value in values {
        let text = value.to_str().map_err(|_| invalid_if_match())?;
        if text.trim() == "*" {
            return Ok(None);
        }
        let mut remaining = text.trim_start_matches(TAG_SEPARATORS);
        while !remaining.is_empty() {
            let unprefixed = remaining.strip_prefix("W/").unwrap_or(remaining);
            let is_strong = unprefixed.len() == remaining.len();
            let quoted = unprefixed.strip_prefix('"').and_then(|t| t.split_once('"'));
            let (tag, after) = quoted.ok_or_else(invalid_if_match)?;
            if !(after.is_empty() || after.starts_with(TAG_SEPARATORS)) {
                return Err(invalid_if_match());
            }
            let version = u128::from_str_radix(tag, 16).ok();
            let version = version.filter(|_| is_strong && tag.len() == 32);
            versions.extend(version.map(u128::to_be_bytes));
            remaining = after.trim_start_matches(TAG_SEPARATORS);
        }
    }
    Ok(Some(versions))
}

fn invalid_if_match() -> Problem {
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
        let tag_text = format!("\"{}\"", "07".repeat(16));
        assert_eq!(parsed(&[]).unwrap(), None);
        assert_eq!(parsed(&["*"]).unwrap(), None);
        assert_eq!(parsed(&[&tag_text]).unwrap(), Some(vec![[7; 16]]));
        assert_eq!(
            parsed(&[&format!("\"x\" , {tag_text}")]).unwrap(),
            Some(vec![[7; 16]])
        );
        assert_eq!(parsed(&["\"x\"", &tag_text]).unwrap(), Some(vec![[7; 16]]));
        assert_eq!(parsed(&[&format!("W/{tag_text}")]).unwrap(), Some(vec![]));
        assert_eq!(parsed(&[""]).unwrap(), Some(vec![]));
        assert_eq!(
            parsed(&[&format!("\"a,b\",{tag_text}")]).unwrap(),
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
