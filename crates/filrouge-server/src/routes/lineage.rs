//! `/api/v1/sessions/{session_id}/lineage`.

use axum::extract::State;
use filrouge_engine::Lineage;

use crate::app::App;
use crate::openapi::{Called, OfSession, Problems, SessionPath, Shown, Stored};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, json};
use filrouge_http::extract::{InSession, NoParameters, Query};

/// Shows where a session comes from and what it has started.
///
/// What is not the caller's looks absent: a parent is a gap then, others are not listed.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/lineage",
    operation_id = "getLineage",
    tag = "reading",
    params(SessionPath),
    responses(Shown<Lineage>, Problems<(Called, Stored, OfSession)>)
)]
pub(super) async fn show(
    State(app): State<App>,
    at: InSession<may::Read>,
    _: Query<NoParameters>,
) -> Answer {
    // It reads a whole session or many: not too many of them at a time.
    let _leave = app.limits().large_answer().await?;
    let lineage = app.engine().stats.lineage(&at.caller, &at.session).await?;
    json(&lineage)
}
