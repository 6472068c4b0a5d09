//! `/api/v1/sessions`.

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use filrouge_engine::CreateSession;
use filrouge_store::command::SessionFilter;
use filrouge_store::verify::{Report, Verdict};
use filrouge_types::{IdentityId, ProjectId, SessionStatus, Timestamp};
use serde::{Deserialize, Serialize};

use crate::answer::{Page, created, json, written};
use crate::extract::{Caller, InSession, NoParameters, OptionalBody, Query, limit};
use crate::problem::Problem;
use crate::serve::App;

pub(super) async fn create(
    State(app): State<App>,
    Caller(scope): Caller,
    _: Query<NoParameters>,
    OptionalBody(request): OptionalBody<CreateSession>,
) -> Result<Response<HttpBody>, Problem> {
    let (session, new) = app.engine().create_session(&scope, request).await?;
    written(&app, created(new), &session)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    project_id: Option<ProjectId>,
    identity_id: Option<IdentityId>,
    status: Option<SessionStatus>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    limit: Option<i64>,
    cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Caller(scope): Caller,
    Query(query): Query<ListQuery>,
) -> Result<Response<HttpBody>, Problem> {
    let filter = SessionFilter {
        project_id: query.project_id,
        identity_id: query.identity_id,
        status: query.status,
        since: query.since,
        until: query.until,
    };
    let limit = limit(query.limit)?;
    let (data, next_cursor) = app
        .engine()
        .ledger()
        .sessions(&scope, filter, query.cursor, limit)
        .await?;
    json(StatusCode::OK, &Page { data, next_cursor })
}

pub(super) async fn show(
    State(app): State<App>,
    at: InSession,
    _: Query<NoParameters>,
) -> Result<Response<HttpBody>, Problem> {
    json(
        StatusCode::OK,
        &app.engine()
            .ledger()
            .session(&at.scope, &at.session)
            .await?,
    )
}

#[derive(Serialize)]
struct Verified<'a> {
    status: Verdict,
    #[serde(flatten)]
    report: &'a Report,
}

pub(super) async fn verify(
    State(app): State<App>,
    at: InSession,
    _: Query<NoParameters>,
) -> Result<Response<HttpBody>, Problem> {
    let report = app
        .engine()
        .ledger()
        .verify(Some((at.scope, at.session)))
        .await?;
    json(
        StatusCode::OK,
        &Verified {
            status: report.verdict(),
            report: &report,
        },
    )
}
