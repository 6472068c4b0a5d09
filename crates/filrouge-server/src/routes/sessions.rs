//! `/api/v1/sessions`.

use axum::extract::State;
use filrouge_engine::CreateSession;
use filrouge_store::command::SessionFilter;
use filrouge_store::verify::{Report, Verdict};
use filrouge_types::{IdentityId, ProjectId, Session, SessionId, SessionStatus, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::{
    Called, InLedger, Listed, Made, MakingSession, OfSession, Problems, SessionPath, Shown, Stored,
    Tagged, WithBody, Writing,
};
use crate::routes::session::tagged;
use filrouge_http::access::{may, tell_session_token};
use filrouge_http::answer::{Answer, Page, created, json};
use filrouge_http::extract::{
    Cursor, InSession, InTenant, Limit, NoParameters, OptionalBody, Query,
};

/// Makes a session.
///
/// One that is the caller's already is given back; an id that is somebody else's is a conflict.
#[utoipa::path(
    post,
    path = "/api/v1/sessions",
    operation_id = "createSession",
    tag = "sessions",
    request_body(content = Option<CreateSession>),
    responses(Made<Session>, Problems<(Called, Stored, WithBody, Writing, MakingSession)>)
)]
pub(super) async fn create(
    State(app): State<App>,
    mut at: InTenant<may::Write>,
    _: Query<NoParameters>,
    OptionalBody(request): OptionalBody<CreateSession>,
) -> Answer {
    let sessions = &app.engine().sessions;
    let fresh = sessions.fresh_token(&mut at.caller)?;
    let session = sessions.create(&at.caller, request).await?;
    let new = !session.replayed;
    let response = created(new, &session)?;
    let mut response = tagged(response, &session)?;
    if let Some(fresh) = fresh.filter(|_| new) {
        tell_session_token(&mut response, &fresh);
    }
    Ok(response)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Those of a project.
    project_id: Option<ProjectId>,
    /// Those of an end user.
    identity_id: Option<IdentityId>,
    /// Those that a session has started.
    parent_session_id: Option<SessionId>,
    /// Those with an item by an agent.
    agent: Option<Box<str>>,
    /// Those that stand so.
    status: Option<SessionStatus>,
    /// Those made at this moment or later.
    since: Option<Timestamp>,
    /// Those made before this moment.
    until: Option<Timestamp>,
    /// Those whose title holds this text; ASCII letters match in either case.
    q: Option<Box<str>>,
    /// At most so many.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the page before.
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
    responses(Listed<Session>, Problems<(Called, Stored)>)
)]
pub(super) async fn list(
    State(app): State<App>,
    at: InTenant<may::Read>,
    Query(query): Query<ListQuery>,
) -> Answer {
    let filter = SessionFilter {
        project_id: query.project_id,
        team_id: None,
        identity_id: query.identity_id,
        status: query.status,
        since: query.since,
        until: query.until,
        parent_session_id: query.parent_session_id,
        agent: query.agent,
        title: query.q,
    };
    let limit = query.limit.into();
    let (data, next_cursor) = app
        .engine()
        .sessions
        .list(&at.caller, filter, query.cursor.map(Into::into), limit)
        .await?;
    json(&Page { data, next_cursor })
}

/// Gives a session.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}",
    operation_id = "getSession",
    tag = "sessions",
    params(SessionPath),
    responses(Tagged<Session>, Problems<(Called, Stored, OfSession)>)
)]
pub(super) async fn show(
    State(app): State<App>,
    at: InSession<may::Read>,
    _: Query<NoParameters>,
) -> Answer {
    let sessions = &app.engine().sessions;
    let session = sessions.get(&at.caller, &at.session).await?;
    tagged(json(&session)?, &session)
}

/// What a verification looked at and found.
#[derive(Serialize, ToSchema)]
#[schema(as = VerifyReport)]
struct Verified<'a> {
    /// The outcome.
    status: Verdict,
    #[serde(flatten)]
    report: &'a Report,
}

/// Verifies a session: whether all of it is as it was written.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/verify",
    operation_id = "verifySession",
    tag = "reading",
    params(SessionPath),
    responses(Shown<Verified<'_>>, Problems<(Called, Stored, OfSession, InLedger)>)
)]
pub(super) async fn verify(
    State(app): State<App>,
    at: InSession<may::Read>,
    _: Query<NoParameters>,
) -> Answer {
    // It reads a whole session or many: not too many of them at a time.
    let _leave = app.limits().large_answer().await?;
    let report = app.engine().sessions.verify(&at.caller, at.session).await?;
    json(&Verified {
        status: report.verdict(),
        report: &report,
    })
}
