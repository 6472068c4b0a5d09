//! `/metrics`: OpenMetrics text for Prometheus (DESIGN §12).

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{HeaderValue, Response, header};
use filrouge_engine::scopes::TwoScopes;
use filrouge_engine::spool::Spooling;
use filrouge_types::ErrorCode;

use crate::app::App;
use crate::metrics::{HotState, SearchState, StoreState};
use crate::openapi::{Called, Problems};
use filrouge_http::access::may;
use filrouge_http::extract::InTenant;
use filrouge_http::problem::Problem;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Asks the hot store, so that one that nobody has missed yet is not called up.
async fn hot(app: &App) -> HotState {
    let tiers = app.engine().tiers();
    let upkeep = &app.engine().upkeep;
    let up = match tiers {
        Some(tiers) => tiers.hot_health().await.unavailable.is_none(),
        None => false,
    };
    HotState {
        there: tiers.is_some(),
        up,
        counts: tiers.map(TwoScopes::counts).unwrap_or_default(),
        links_refused: upkeep.links_refused(),
        metadata_dropped: upkeep.metadata_dropped(),
        items_not_recorded: upkeep.items_not_recorded(),
    }
}

fn search(app: &App) -> SearchState {
    let feed = app.search().feed.as_ref();
    feed.map_or_else(SearchState::default, |feed| {
        let failing = feed.failure().is_some();
        SearchState {
            up: !failing,
            failing,
            counts: feed.counts(),
        }
    })
}

/// Gives counters and gauges in the words of OpenMetrics.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "getMetrics",
    tag = "server",
    responses(
        (
            status = 200,
            description = "Counters and gauges.",
            content((String = "application/openmetrics-text")),
        ),
        Problems<(Called,)>,
    )
)]
pub(super) async fn show(
    State(app): State<App>,
    _: InTenant<may::Observe>,
) -> Result<Response<HttpBody>, Problem> {
    let upkeep = &app.engine().upkeep;
    let health = upkeep.health();
    let load = upkeep.load();
    let state = StoreState {
        read_only: health.read_only.is_some(),
        integrity: health.integrity.is_some(),
        anchor: app.anchor_failure().is_some(),
        commit: upkeep.position().commit_no,
        statements: load.statements,
        queued_writes: load.queued_writes,
        runtime_context_dropped: upkeep.runtime_context_dropped(),
        runtime_context_lost: upkeep.runtime_context_lost(),
        credentials_masked: upkeep.credentials_masked(),
        credentials_refused: upkeep.credentials_refused(),
        hot: hot(&app).await,
        calls: upkeep.call_counts(),
        spool: app.engine().spool().map(Spooling::view).unwrap_or_default(),
        search: search(&app),
    };
    app.gauges().set(state);
    let text = app
        .scrape()
        .map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))?;
    let mut response = Response::new(HttpBody::from(text));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS));
    Ok(response)
}
