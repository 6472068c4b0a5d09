//! `/api/v1/sessions/{session_id}/stats`.

use axum::extract::State;
use filrouge_engine::SessionStatistics;

use crate::app::App;
use crate::openapi::{Called, OfSession, Problems, SessionPath, Shown, Stored};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, json};
use filrouge_http::extract::{InSession, NoParameters, Query};

/// Counts what a session amounts to: by itself, with all it has started, and without what was copied.
///
/// The five counts of tokens do not overlap, whatever the shape of the recorded `usage`.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/stats",
    operation_id = "getStats",
    tag = "reading",
    params(SessionPath),
    responses(Shown<SessionStatistics>, Problems<(Called, Stored, OfSession)>)
)]
pub(super) async fn show(
    State(app): State<App>,
    at: InSession<may::Read>,
    _: Query<NoParameters>,
) -> Answer {
    // It reads a whole session or many: not too many of them at a time.
    let _leave = app.limits().large_answer().await?;
    let statistics = app.engine().stats.of(&at.caller, &at.session).await?;
    json(&statistics)
}
