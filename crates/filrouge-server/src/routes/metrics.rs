//! `/metrics`: OpenMetrics text for Prometheus (DESIGN §12).

use filrouge_types::ErrorCode;

use crate::app::App;
use crate::metrics::collect;
use filrouge_http::access::may;
use filrouge_http::extract::{AnyQuery, TenantAccess};
use filrouge_http::problem::Problem;
use filrouge_http::response::{RouteResult, text};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns counters and gauges in the OpenMetrics format.
///
/// The counters of this process begin at 0 when it starts.
#[utoipa::path(
    get,
    path = "/metrics",
    responses(
        (
            status = 200,
            description = "Counters and gauges.",
            content((String = "application/openmetrics-text")),
        )
    )
)]
pub(super) async fn get_metrics(app: App, _: TenantAccess<may::Observe, AnyQuery>) -> RouteResult {
    let scrape = app.scrape(&collect(&app).await);
    let scrape = scrape.map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))?;
    Ok(text(OPEN_METRICS, scrape))
}
