//! `/healthz` and `/readyz`: alive, and able to do its work; degraded is said, not hidden (P9).

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use serde::Serialize;

use crate::answer::json;
use crate::problem::Problem;
use crate::serve::App;

#[derive(Serialize)]
struct Alive {
    status: &'static str,
}

pub(super) async fn alive() -> Result<Response<HttpBody>, Problem> {
    json(StatusCode::OK, &Alive { status: "ok" })
}

#[derive(Serialize)]
struct Ready {
    status: &'static str,
    read_only: Option<String>,
    integrity: Option<String>,
    anchor: Option<String>,
}

pub(super) async fn ready(State(app): State<App>) -> Result<Response<HttpBody>, Problem> {
    let ledger = app.engine().ledger();
    // The store is asked, so that one that does not answer is not called ready.
    ledger
        .ask(|sight| sight.view.newest_log().map(|_| ()))
        .await?;
    let health = ledger.health();
    let anchor = app.anchor_failure();
    let degraded = health.read_only.is_some() || health.integrity.is_some() || anchor.is_some();
    let status = if degraded { "degraded" } else { "ready" };
    json(
        StatusCode::OK,
        &Ready {
            status,
            read_only: health.read_only,
            integrity: health.integrity,
            anchor,
        },
    )
}
