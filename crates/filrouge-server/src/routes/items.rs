//! `/api/v1/sessions/{session_id}/items` and the items of a turn.

use axum::extract::State;
use axum::http::HeaderMap;
use filrouge_engine::{AppendItems, Appended};
use filrouge_types::{ErrorCode, Item};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::openapi::{Created, LastEventId, SessionPath, Tailed, TurnPath};
use crate::routes::tail;
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, Page, created, json};
use filrouge_http::extract::{Body, Cursor, InSession, InTurn, Limit};
use filrouge_http::problem::Problem;

/// Appends items to an open turn, all or none.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/items",
    operation_id = "appendItems",
    tag = "items",
    params(TurnPath),
    request_body = AppendItems,
    responses(Created<Appended>)
)]
pub(super) async fn append(
    State(app): State<App>,
    at: InTurn<may::Write>,
    Body(request): Body<AppendItems>,
) -> Answer {
    let appended = app
        .turns
        .append(&at.caller, at.session, at.turn, request)
        .await?;
    created(!appended.replayed, &appended)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only items after this seq.
    after: Option<u64>,
    /// The maximum number of items.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the previous page.
    #[param(inline)]
    cursor: Option<Cursor>,
    /// For a stream: whether it includes drafts; it does by default.
    #[param(default = true)]
    drafts: Option<bool>,
}

/// Lists a session's items by seq; with `Accept: text/event-stream` streams them as they are committed.
///
/// The stream has the events `item`, whose id is the seq, `draft` for text that is not an item yet, and `erased`. It
/// begins after `Last-Event-ID`, otherwise after `after`, otherwise at the end of the session, and never skips or
/// repeats an item, whatever happens between two connections.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/items",
    operation_id = "listItems",
    tag = "items",
    params(SessionPath, ListQuery, LastEventId),
    responses(Tailed<Item>)
)]
pub(super) async fn list(
    State(app): State<App>,
    at: InSession<may::Read, ListQuery>,
    headers: HeaderMap,
) -> Answer {
    let limit = at.query.limit.into();
    let stream = tail::wanted(&headers);
    if at.query.cursor.is_some() && (stream || at.query.after.is_some()) {
        return Err(
            Problem::new(ErrorCode::Invalid, "cursor: only for pages, without after")
                .with_hint("a page continues by cursor only, a stream begins with after"),
        );
    }
    if stream {
        let (after, drafts) = (at.query.after, at.query.drafts.unwrap_or(true));
        return tail::open(app, at, &headers, after, drafts).await;
    }
    let after = at
        .query
        .cursor
        .map(Into::into)
        .or(at.query.after)
        .unwrap_or(0);
    let (data, next_cursor) = app
        .turns
        .items(&at.caller, &at.session, after, limit)
        .await?;
    json(&Page { data, next_cursor })
}
