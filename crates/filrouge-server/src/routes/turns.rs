//! `/api/v1/sessions/{sid}/turns`.

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use filrouge_engine::{CancelTurn, FailTurn, FinalizeTurn, RedactTurn, ReplaceTurn, StartTurn};
use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_types::{RequestId, TurnStatus};
use serde::Deserialize;

use crate::answer::{Page, created, json, written};
use crate::extract::{Body, InSession, InTurn, NoParameters, OptionalBody, Query, limit};
use crate::problem::Problem;
use crate::serve::App;

pub(super) async fn start(
    State(app): State<App>,
    at: InSession,
    _: Query<NoParameters>,
    Body(request): Body<StartTurn>,
) -> Result<Response<HttpBody>, Problem> {
    let turn = app
        .engine()
        .start_turn(&at.scope, at.session, request)
        .await?;
    written(&app, created(!turn.replayed), &turn)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    status: Option<TurnStatus>,
    request_id: Option<RequestId>,
    #[serde(default)]
    include_redacted: bool,
    limit: Option<i64>,
    cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    at: InSession,
    Query(query): Query<ListQuery>,
) -> Result<Response<HttpBody>, Problem> {
    let limit = limit(query.limit)?;
    let ledger = app.engine().ledger();
    if let Some(request) = query.request_id {
        let (scope, session) = (at.scope.clone(), at.session.clone());
        let found = ledger
            .ask(move |sight| {
                let loaded = sight.get(&scope, &session)?;
                let row = sight.turn_of_request(&loaded, &scope.viewer, &request)?;
                match row {
                    Some(row) => sight.project(&loaded, &row).map(Some),
                    None => sight.all_turn_rows(&loaded).map(|()| None),
                }
            })
            .await?;
        let data: Vec<_> = found
            .into_iter()
            .filter(|t| query.status.is_none_or(|s| s == t.status))
            .filter(|t| query.include_redacted || t.deleted_at.is_none())
            .collect();
        return json(
            StatusCode::OK,
            &Page {
                data,
                next_cursor: None,
            },
        );
    }
    let order = if query.status == Some(TurnStatus::Finalized) {
        TurnOrder::Newest
    } else {
        TurnOrder::Oldest
    };
    let query = TurnQuery {
        status: query.status,
        include_redacted: query.include_redacted,
        order,
        cursor: query.cursor,
        limit,
    };
    let (data, next_cursor) = ledger.turns(&at.scope, &at.session, query).await?;
    json(StatusCode::OK, &Page { data, next_cursor })
}

pub(super) async fn show(
    State(app): State<App>,
    at: InTurn,
    _: Query<NoParameters>,
) -> Result<Response<HttpBody>, Problem> {
    json(
        StatusCode::OK,
        &app.engine()
            .ledger()
            .turn(&at.scope, &at.session, at.turn)
            .await?,
    )
}

pub(super) async fn finalize(
    State(app): State<App>,
    at: InTurn,
    _: Query<NoParameters>,
    OptionalBody(request): OptionalBody<FinalizeTurn>,
) -> Result<Response<HttpBody>, Problem> {
    let turn = app
        .engine()
        .finalize_turn(&at.scope, at.session, at.turn, request)
        .await?;
    written(&app, StatusCode::OK, &turn)
}

pub(super) async fn fail(
    State(app): State<App>,
    at: InTurn,
    _: Query<NoParameters>,
    Body(request): Body<FailTurn>,
) -> Result<Response<HttpBody>, Problem> {
    let turn = app
        .engine()
        .fail_turn(&at.scope, at.session, at.turn, request)
        .await?;
    written(&app, StatusCode::OK, &turn)
}

pub(super) async fn cancel(
    State(app): State<App>,
    at: InTurn,
    _: Query<NoParameters>,
    OptionalBody(request): OptionalBody<CancelTurn>,
) -> Result<Response<HttpBody>, Problem> {
    let turn = app
        .engine()
        .cancel_turn(&at.scope, at.session, at.turn, request)
        .await?;
    written(&app, StatusCode::OK, &turn)
}

pub(super) async fn redact(
    State(app): State<App>,
    at: InTurn,
    _: Query<NoParameters>,
    Body(request): Body<RedactTurn>,
) -> Result<Response<HttpBody>, Problem> {
    let turn = app
        .engine()
        .redact_turn(&at.scope, at.session, at.turn, request)
        .await?;
    written(&app, StatusCode::OK, &turn)
}

pub(super) async fn replace(
    State(app): State<App>,
    at: InTurn,
    _: Query<NoParameters>,
    Body(request): Body<ReplaceTurn>,
) -> Result<Response<HttpBody>, Problem> {
    let turn = app
        .engine()
        .replace_turn(&at.scope, at.session, at.turn, request)
        .await?;
    written(&app, created(!turn.replayed), &turn)
}
