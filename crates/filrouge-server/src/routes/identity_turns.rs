//! `/api/v1/turns`.

use axum::extract::State;
use filrouge_engine::IdentityTurns;
use filrouge_types::{IdentityId, Turn, TurnStatus};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::openapi::{Called, Listed, Problems, Stored};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, Page, json};
use filrouge_http::extract::{Cursor, InTenant, Limit, Query};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Whose sessions.
    identity_id: IdentityId,
    /// Those that stand so.
    status: Option<TurnStatus>,
    /// At most so many.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the page before.
    #[param(inline)]
    cursor: Option<Cursor>,
}

/// Lists the turns of all sessions of an end user: sessions newest first, in each the newest turn first.
///
/// Replaced and redacted turns are left out. The work for a page is bounded: it may hold fewer turns than asked for,
/// even none, and still have a `next_cursor`. Somebody else's identity looks like one that never was.
#[utoipa::path(
    get,
    path = "/api/v1/turns",
    operation_id = "listTurnsOfIdentity",
    tag = "turns",
    params(ListQuery),
    responses(Listed<Turn>, Problems<(Called, Stored)>)
)]
pub(super) async fn list(
    State(app): State<App>,
    at: InTenant<may::Read>,
    Query(query): Query<ListQuery>,
) -> Answer {
    let query = IdentityTurns {
        identity_id: query.identity_id,
        status: query.status,
        cursor: query.cursor.map(Into::into),
        limit: query.limit.into(),
    };
    let (data, next_cursor) = app.engine().turns.of_identity(&at.caller, query).await?;
    json(&Page { data, next_cursor })
}
