//! `/healthz` and `/readyz`: alive, and able to do its work; degraded is said, not hidden (P9).

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use filrouge_engine::spool::{SpoolView, Spooling};
use filrouge_types::{ErrorCode, Failure};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::openapi::{Asked, Problems, Shown, Stored};
use filrouge_http::answer::json;
use filrouge_http::problem::Problem;

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
    /// Why the store does not answer. Live calls go on in the spool, everything else is 503.
    store: Option<String>,
    /// Why the search index is not kept in step: searches look through everything meanwhile.
    search: Option<String>,
    /// What waits for the store; absent without a spool.
    spool: Option<SpoolStanding>,
}

/// Writes of live calls that wait for the store.
#[derive(Serialize, ToSchema)]
struct SpoolStanding {
    /// How many.
    entries: u64,
    /// Of how many sessions.
    sessions: u64,
    /// Their bytes.
    bytes: u64,
    /// How many bytes may wait.
    bytes_max: u64,
    /// For how many seconds the oldest one has waited.
    oldest_s: Option<u64>,
    /// Writes that the store has refused afterwards, and that nobody has looked after yet.
    dead_letters: u64,
}

impl From<SpoolView> for SpoolStanding {
    fn from(view: SpoolView) -> Self {
        Self {
            entries: view.entries,
            sessions: view.sessions,
            bytes: view.bytes,
            bytes_max: view.bytes_max,
            oldest_s: view.oldest.map(|age| age.as_secs()),
            dead_letters: view.dead_letters,
        }
    }
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
    headers: HeaderMap,
) -> Result<Response<HttpBody>, Problem> {
    let observes = app.authority().may_observe(&headers).await;
    let upkeep = &app.engine().upkeep;
    // The store is asked, so that one that does not answer is not called ready.
    let spool = app.engine().spool().map(Spooling::view);
    let store = match upkeep.ask().await {
        Ok(()) => None,
        // Live calls go on without it.
        Err(failure) if spool.is_some() && failure.code == ErrorCode::StoreUnavailable => {
            Some(failure.detail)
        }
        Err(failure) if observes => return Err(failure.into()),
        Err(failure) => return Err(Failure::new(failure.code, failure.code.title()).into()),
    };
    let health = upkeep.health();
    let anchor = app.anchor_failure();
    let issuer = app.authority().issuer_failure();
    let hot = match app.engine().tiers() {
        Some(tiers) => Some(tiers.hot_health().await),
        None => None,
    };
    let hot = hot.and_then(|hot| {
        let refuses = hot
            .refuses_writes
            .map(|why| format!("refuses writes: {why}"));
        hot.unavailable.or(refuses)
    });
    let search = app.search_failure();
    let degraded = health.read_only.is_some()
        || health.integrity.is_some()
        || anchor.is_some()
        || issuer.is_some()
        || hot.is_some()
        || store.is_some()
        || search.is_some()
        || spool
            .as_ref()
            .is_some_and(|s| s.entries > 0 || s.dead_letters > 0 || s.down.is_some());
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
            store: store.filter(|_| observes),
            search: search.filter(|_| observes),
            spool: spool.filter(|_| observes).map(Into::into),
        },
    )
}
