//! `/api/v1/sessions/{session_id}/items` and the items of a turn.

use std::time::Instant;

use axum::http::HeaderMap;
use filrouge_engine::{AppendItems, Appended, Caller};
use filrouge_store::read::ItemPage;
use filrouge_types::{ErrorCode, Failure, Item, ItemId, SessionId};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::{CreatedResponse, LastEventId, PageOrStreamResponse};
use crate::routes::tail;
use filrouge_http::access::may;
use filrouge_http::extract::{Body, Cursor, Limit, SeqList, SessionAccess, TurnAccess};
use filrouge_http::problem::Problem;
use filrouge_http::response::{RouteResult, created, page};
use filrouge_http::tail::open_tail;
use filrouge_http::{HttpLayer, Load, log_load};

/// Appends items to an open turn, or errors and notes to an interrupted or closed one: all or none.
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

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ItemOrder {
    #[default]
    Asc,
    Desc,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemsQuery {
    /// Only items after this seq.
    after: Option<u64>,
    /// Only items before this seq; with `order=desc`.
    before: Option<u64>,
    /// The order by seq: oldest first (`asc`), or newest first (`desc`).
    #[serde(default)]
    #[param(inline)]
    order: ItemOrder,
    /// Only the item with this key; without any other parameter.
    item_id: Option<ItemId>,
    /// Only the items at these seqs, such as `3,9,12-15`, at most 500; without any other parameter except `cursor`.
    #[param(inline)]
    seqs: Option<SeqList>,
    /// The maximum number of items.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the previous page, which had the same order.
    #[param(inline)]
    cursor: Option<Cursor>,
    /// For a stream: whether it includes drafts; it does by default.
    #[param(default = true)]
    drafts: Option<bool>,
}

impl ItemsQuery {
    /// Refuses parameters that exclude each other. `wants_stream`: the caller requests a stream, not a page.
    fn check(&self, wants_stream: bool) -> Result<(), Problem> {
        let is_descending = self.order == ItemOrder::Desc;
        let [after, before] = [self.after, self.before].map(|seq| seq.is_some());
        let (cursor, item_id) = (self.cursor.is_some(), self.item_id.is_some());
        let seqs = self.seqs.is_some();
        let (detail, hint) = if wants_stream && (is_descending || before || item_id || seqs) {
            (
                "order=desc, before, item_id and seqs: only for pages",
                "a stream begins with after; for a page, leave out the header accept",
            )
        } else if cursor && (wants_stream || after || before) {
            (
                "cursor: only for pages, without after and before",
                "a page continues by cursor only, a stream begins with after",
            )
        } else if item_id && (after || before || cursor || is_descending) {
            (
                "item_id: only without after, before, order and cursor",
                "item_id selects one item",
            )
        } else if seqs && (after || before || item_id || is_descending) {
            (
                "seqs: only without after, before, order and item_id",
                "seqs selects the items",
            )
        } else if is_descending && after {
            (
                "after: only with order=asc",
                "newest first, a page begins with before",
            )
        } else if before && !is_descending {
            ("before: only with order=desc", "add order=desc")
        } else {
            return Ok(());
        };
        Err(Problem::new(ErrorCode::Invalid, detail).with_hint(hint))
    }
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
    let wants_stream = tail::is_requested(&headers);
    access.query.check(wants_stream)?;
    if wants_stream {
        let start = (access.query.after, access.query.drafts.unwrap_or(true));
        let http = HttpLayer::clone(&app);
        return open_tail(http, access, &headers, start, tail::JsonEvents).await;
    }
    let (caller, session, started_at) = (&access.caller, &access.session, Instant::now());
    let read = read_page(&app, caller, session, access.query).await?;
    let load = Load {
        items: Some(read.0.len()),
        ..Load::default()
    };
    log_load(caller, session, "items", load, started_at);
    page(async { Ok(read) }).await
}

async fn read_page(
    app: &App,
    caller: &Caller,
    session: &SessionId,
    query: ItemsQuery,
) -> Result<ItemPage, Failure> {
    let (turns, limit) = (&app.turns, query.limit.into());
    if let Some(id) = query.item_id {
        let item = turns.item_with_id(caller, session, id).await?;
        return Ok((item.into_iter().collect(), None));
    }
    let cursor = query.cursor.map(Into::into);
    if let Some(seqs) = query.seqs {
        let after = cursor.unwrap_or(0);
        return turns.items_at(caller, session, seqs.into(), after).await;
    }
    match query.order {
        ItemOrder::Asc => {
            let after = cursor.or(query.after).unwrap_or(0);
            turns.items(caller, session, after, limit).await
        }
        ItemOrder::Desc => {
            let before = cursor.or(query.before).unwrap_or(u64::MAX);
            turns.items_before(caller, session, before, limit).await
        }
    }
}
