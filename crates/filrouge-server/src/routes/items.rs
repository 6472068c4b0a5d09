//! `/api/v1/sessions/{session_id}/items` and the items of a turn.

use std::time::Instant;

use axum::http::HeaderMap;
use filrouge_engine::{AppendItems, Appended};
use filrouge_types::{ErrorCode, Item};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::openapi::{CreatedResponse, LastEventId, PageOrStreamResponse};
use crate::routes::tail;
use filrouge_http::access::may;
use filrouge_http::extract::{Body, Cursor, Limit, SessionAccess, TurnAccess};
use filrouge_http::problem::Problem;
use filrouge_http::response::{RouteResult, created, page};
use filrouge_http::tail::open_tail;
use filrouge_http::{HttpLayer, Load, log_load};

/// Appends items to an open turn, or errors and notes to a closed one: all or none.
///
/// An item with an `item_id` that is recorded already is not recorded again. With `expected_seq`, the items are
/// appended only if the session's newest seq is equal.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/items",
    request_body = AppendItems,
    responses(CreatedResponse<Appended>)
)]
pub(super) async fn append_items(
    app: App,
    access: TurnAccess<may::Write>,
    Body(request): Body<AppendItems>,
) -> RouteResult {
    let turns = &app.turns;
    created(turns.append(&access.caller, access.session, access.turn, request)).await
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemsQuery {
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
    params(ItemsQuery, LastEventId),
    responses(PageOrStreamResponse<Item>)
)]
pub(super) async fn list_items(
    app: App,
    access: SessionAccess<may::Read, ItemsQuery>,
    headers: HeaderMap,
) -> RouteResult {
    let limit = access.query.limit.into();
    let wants_stream = tail::is_requested(&headers);
    if access.query.cursor.is_some() && (wants_stream || access.query.after.is_some()) {
        return Err(
            Problem::new(ErrorCode::Invalid, "cursor: only for pages, without after")
                .with_hint("a page continues by cursor only, a stream begins with after"),
        );
    }
    if wants_stream {
        let start = (access.query.after, access.query.drafts.unwrap_or(true));
        let http = HttpLayer::clone(&app);
        return open_tail(http, access, &headers, start, tail::JsonEvents).await;
    }
    let after = access.query.cursor.map(Into::into).or(access.query.after);
    let (turns, after) = (&app.turns, after.unwrap_or(0));
    let (caller, session, started_at) = (&access.caller, &access.session, Instant::now());
    let read = turns.items(caller, session, after, limit).await?;
    let load = Load {
        items: Some(read.0.len()),
        ..Load::default()
    };
    log_load(caller, session, "items", load, started_at);
    page(async { Ok(read) }).await
}
