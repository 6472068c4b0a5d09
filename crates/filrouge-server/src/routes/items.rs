//! `/api/v1/sessions/{session_id}/items` and the items of a turn.

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use filrouge_engine::AppendItems;
use filrouge_types::{ErrorCode, Item, placed};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::{
    Appending, Called, Created, LastEventId, OfSession, OfTurn, Problems, SessionPath, Stored,
    Tailed, TurnPath, UnderLease, WithBody, Writing,
};
use crate::routes::tail;
use filrouge_http::access::may;
use filrouge_http::answer::{Page, created, json, written};
use filrouge_http::extract::{Body, Cursor, InSession, InTurn, Limit, NoParameters, Query};
use filrouge_http::problem::Problem;

/// Where appended items stand.
#[derive(Serialize, ToSchema)]
#[schema(as = AppendedItems)]
pub(super) struct Appended {
    /// The first one's seq; absent while they wait for the ledger.
    #[serde(serialize_with = "placed::serialize")]
    #[schema(value_type = Option<u64>)]
    first_seq: u64,
    /// The last one's seq; absent while they wait for the ledger.
    #[serde(serialize_with = "placed::serialize")]
    #[schema(value_type = Option<u64>)]
    last_seq: u64,
    /// How many of them are not recorded, because the tenant records conversations alone; absent when all are. When none
    /// is, `last_seq` is the session's newest seq, and `first_seq` the one behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, minimum = 1)]
    not_recorded: Option<u64>,
}

/// Appends items to an open turn, all or none.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/items",
    operation_id = "appendItems",
    tag = "items",
    params(TurnPath),
    request_body = AppendItems,
    responses(Created<Appended>, Problems<(Called, Stored, WithBody, Writing, OfSession, OfTurn, Appending, UnderLease)>)
)]
pub(super) async fn append(
    State(app): State<App>,
    at: InTurn<may::Write>,
    _: Query<NoParameters>,
    Body(request): Body<AppendItems>,
) -> Result<Response<HttpBody>, Problem> {
    let done = app
        .engine()
        .turns
        .append(&at.caller, at.session, at.turn, request)
        .await?;
    let done = done.map(|done| Appended {
        first_seq: done.first_seq,
        last_seq: done.last_seq,
        not_recorded: Some(done.not_recorded).filter(|n| *n > 0),
    });
    written(created(!done.replayed), &done)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Those behind this seq.
    after: Option<u64>,
    /// At most so many.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the page before.
    #[param(inline)]
    cursor: Option<Cursor>,
    /// For a stream: whether it shows drafts, too. It does unless asked not to.
    #[param(default = true)]
    drafts: Option<bool>,
}

/// Lists a session's items by seq; with `Accept: text/event-stream` streams them as they come.
///
/// The stream has the events `item`, whose id is the seq, `draft` for text that is not an item yet, and `erased`. It begins behind `Last-Event-ID`, else behind
/// `after`, else at the end of the session, and never leaves out or repeats an item, whatever lies between two
/// connections.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/items",
    operation_id = "listItems",
    tag = "items",
    params(SessionPath, ListQuery, LastEventId),
    responses(Tailed<Item>, Problems<(Called, Stored, OfSession)>)
)]
pub(super) async fn list(
    State(app): State<App>,
    at: InSession<may::Read>,
    headers: HeaderMap,
    Query(query): Query<ListQuery>,
) -> Result<Response<HttpBody>, Problem> {
    let limit = query.limit.into();
    let stream = tail::wanted(&headers);
    if query.cursor.is_some() && (stream || query.after.is_some()) {
        let mut problem = Problem::new(ErrorCode::Invalid, "cursor: only for pages, without after");
        problem.0.hint =
            Some("a page goes on by cursor alone, a stream begins by after".to_owned());
        return Err(problem);
    }
    if stream {
        return tail::open(app, at, &headers, query.after, query.drafts.unwrap_or(true)).await;
    }
    let after = query.cursor.map(Into::into).or(query.after).unwrap_or(0);
    let (data, next_cursor) = app
        .engine()
        .turns
        .items(&at.caller, &at.session, after, limit)
        .await?;
    json(StatusCode::OK, &Page { data, next_cursor })
}
