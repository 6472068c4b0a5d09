//! `/api/v1/sessions/{session_id}/stats` and `…/lineage`.

use axum::extract::State;
use filrouge_engine::{Lineage, SessionStatistics};

use crate::app::App;
use crate::openapi::{SessionPath, Shown};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, json};
use filrouge_http::extract::InSession;

/// Returns statistics of a session: its own, with its descendants, and without copied messages.
///
/// The five counts of tokens do not overlap, whatever the shape of the recorded `usage`.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/stats",
    operation_id = "getStats",
    tag = "reading",
    params(SessionPath),
    responses(Shown<SessionStatistics>)
)]
pub(super) async fn show(State(app): State<App>, at: InSession<may::Read>) -> Answer {
    // This may read many sessions completely, so the number of concurrent requests is limited.
    let _permit = app.limits().large_answer().await?;
    let statistics = app.stats.of(&at.caller, &at.session).await?;
    json(&statistics)
}

/// Shows a session's ancestors and the sessions it started.
///
/// Another owner's session looks absent: as a parent it is a gap, otherwise it is not listed.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/lineage",
    operation_id = "getLineage",
    tag = "reading",
    params(SessionPath),
    responses(Shown<Lineage>)
)]
pub(super) async fn lineage(State(app): State<App>, at: InSession<may::Read>) -> Answer {
    // This may read many sessions completely, so the number of concurrent requests is limited.
    let _permit = app.limits().large_answer().await?;
    let lineage = app.stats.lineage(&at.caller, &at.session).await?;
    json(&lineage)
}
