//! `/api/v1/sessions/{session_id}/stats` and `…/lineage`.

use axum::extract::State;
use filrouge_engine::{Lineage, SessionStatistics};

use crate::app::App;
use crate::openapi::{SessionPath, Shown};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, json};
use filrouge_http::extract::InSession;

/// Counts what a session amounts to: by itself, with all it has started, and without what was copied.
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
    // It reads a whole session or many: not too many of them at a time.
    let _leave = app.limits().large_answer().await?;
    let statistics = app.stats.of(&at.caller, &at.session).await?;
    json(&statistics)
}

/// Shows where a session comes from and what it has started.
///
/// What is not the caller's looks absent: a parent is a gap then, others are not listed.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/lineage",
    operation_id = "getLineage",
    tag = "reading",
    params(SessionPath),
    responses(Shown<Lineage>)
)]
pub(super) async fn lineage(State(app): State<App>, at: InSession<may::Read>) -> Answer {
    // It reads a whole session or many: not too many of them at a time.
    let _leave = app.limits().large_answer().await?;
    let lineage = app.stats.lineage(&at.caller, &at.session).await?;
    json(&lineage)
}
