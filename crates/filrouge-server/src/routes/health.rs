//! `/healthz` and `/readyz`: alive, and able to do its work; degraded is said, not hidden (P9).

use axum::Extension;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use filrouge_types::Failure;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::MayObserve;
use crate::answer::json;
use crate::openapi::{Asked, Problems, Shown, Stored};
use crate::problem::Problem;
use crate::serve::App;

/// The server is alive.
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
pub(super) struct Alive {
    /// `ok`.
    status: &'static str,
}

/// Tells that the server is alive.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "getHealth",
    tag = "server",
    responses(Shown<Alive>)
)]
pub(super) async fn alive() -> Result<Response<HttpBody>, Problem> {
    json(StatusCode::OK, &Alive { status: "ok" })
}

/// Whether the server can do its work.
#[derive(Serialize, ToSchema)]
#[schema(as = Readiness)]
pub(super) struct Ready {
    /// `ready`, or `degraded` when one of the others says why.
    status: &'static str,
    /// Why no write is taken.
    read_only: Option<String>,
    /// What was changed in the store.
    integrity: Option<String>,
    /// Why the anchor is not kept.
    anchor: Option<String>,
    /// Why the newest keys of the issuer of tokens are not known.
    issuer: Option<String>,
    /// Why the hot store does not answer, or takes no writes. Sessions in the ledger go on.
    hot: Option<String>,
}

/// Tells whether the server can do its work; degraded is said and still 200.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "getReadiness",
    tag = "server",
    responses(Shown<Ready>, Problems<(Asked, Stored)>)
)]
pub(super) async fn ready(
    State(app): State<App>,
    Extension(MayObserve(observes)): Extension<MayObserve>,
) -> Result<Response<HttpBody>, Problem> {
    let ledger = app.engine().ledger();
    // The store is asked, so that one that does not answer is not called ready.
    ledger
        .ask(|sight| sight.view.newest_log().map(|_| ()))
        .await
        .map_err(|failure| match observes {
            true => failure,
            false => Failure::new(failure.code, failure.code.title()),
        })?;
    let health = ledger.health();
    let anchor = app.anchor_failure();
    let issuer = app.authority().issuer_failure();
    let hot = ledger.hot_health().await.and_then(|hot| {
        let refuses = hot
            .refuses_writes
            .map(|why| format!("refuses writes: {why}"));
        hot.unavailable.or(refuses)
    });
    let degraded = health.read_only.is_some()
        || health.integrity.is_some()
        || anchor.is_some()
        || issuer.is_some()
        || hot.is_some();
    let status = if degraded { "degraded" } else { "ready" };
    json(
        StatusCode::OK,
        &Ready {
            status,
            read_only: health.read_only.filter(|_| observes),
            integrity: health.integrity.filter(|_| observes),
            anchor: anchor.filter(|_| observes),
            issuer: issuer.filter(|_| observes),
            hot: hot.filter(|_| observes),
        },
    )
}
