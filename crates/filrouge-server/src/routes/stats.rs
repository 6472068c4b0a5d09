//! `/api/v1/sessions/{session_id}/stats` and `…/lineage`.

use filrouge_engine::{Lineage, SessionStatistics};
use filrouge_store::WorkSize;

use crate::app::App;
use crate::openapi::StateResponse;
use filrouge_http::access::may;
use filrouge_http::extract::SessionAccess;
use filrouge_http::response::{RouteResult, json};

/// Returns statistics of a session: its own, with its descendants, and without copied messages.
///
/// The five counts of tokens do not overlap, whatever the shape of the recorded `usage`.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/stats",
    responses(StateResponse<SessionStatistics>)
)]
pub(super) async fn get_stats(app: App, access: SessionAccess<may::Read>) -> RouteResult {
    // This may read many sessions completely, so the number of concurrent requests is limited.
    let _permit = app.work_permit(&access.caller, WorkSize::Small).await?;
    let statistics = app.stats.of(&access.caller, &access.session).await?;
    json(&statistics)
}

/// Shows a session's ancestors and the sessions it started.
///
/// Another owner's session looks absent: as a parent it is a gap, otherwise it is not listed.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/lineage",
    responses(StateResponse<Lineage>)
)]
pub(super) async fn get_lineage(app: App, access: SessionAccess<may::Read>) -> RouteResult {
    // This may read many sessions completely, so the number of concurrent requests is limited.
    let _permit = app.work_permit(&access.caller, WorkSize::Small).await?;
    let lineage = app.stats.lineage(&access.caller, &access.session).await?;
    json(&lineage)
}
