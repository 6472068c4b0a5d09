//! `/metrics`: OpenMetrics text for Prometheus (DESIGN §12).

use axum::extract::State;
use filrouge_types::ErrorCode;

use crate::app::App;
use crate::metrics::scraped;
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, text};
use filrouge_http::extract::{AnyQuery, InTenant};
use filrouge_http::problem::Problem;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns counters and gauges in the OpenMetrics format.
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
        )
    )
)]
pub(super) async fn show(State(app): State<App>, _: InTenant<may::Observe, AnyQuery>) -> Answer {
    let scrape = app.scrape(&scraped(&app).await);
    let scrape = scrape.map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))?;
    Ok(text(OPEN_METRICS, scrape))
}
