//! `/api/v1/sessions/{sid}/items` and the items of a turn.

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use filrouge_engine::AppendItems;
use serde::{Deserialize, Serialize};

use crate::answer::{Page, created, json, written};
use crate::extract::{Body, InSession, InTurn, NoParameters, Query, limit};
use crate::problem::Problem;
use crate::serve::App;

#[derive(Serialize)]
struct Appended {
    first_seq: u64,
    last_seq: u64,
}

pub(super) async fn append(
    State(app): State<App>,
    at: InTurn,
    _: Query<NoParameters>,
    Body(request): Body<AppendItems>,
) -> Result<Response<HttpBody>, Problem> {
    let done = app
        .engine()
        .append_items(&at.scope, at.session, at.turn, request)
        .await?;
    written(
        &app,
        created(!done.replayed),
        &Appended {
            first_seq: done.first_seq,
            last_seq: done.last_seq,
        },
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    after: Option<u64>,
    limit: Option<i64>,
    cursor: Option<u64>,
}

pub(super) async fn list(
    State(app): State<App>,
    at: InSession,
    Query(query): Query<ListQuery>,
) -> Result<Response<HttpBody>, Problem> {
    let limit = limit(query.limit)?;
    let after = query.cursor.or(query.after).unwrap_or(0);
    let (data, next_cursor) = app
        .engine()
        .ledger()
        .items(&at.scope, &at.session, after, limit)
        .await?;
    json(StatusCode::OK, &Page { data, next_cursor })
}
