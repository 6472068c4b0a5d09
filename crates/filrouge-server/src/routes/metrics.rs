//! `/metrics`: OpenMetrics text for Prometheus (DESIGN §12).

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{HeaderValue, Response, header};
use filrouge_types::ErrorCode;

use crate::app::App;
use crate::metrics::scraped;
use filrouge_http::access::may;
use filrouge_http::answer::Answer;
use filrouge_http::extract::{AnyQuery, InTenant};
use filrouge_http::problem::Problem;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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
        )
    )
)]
pub(super) async fn show(State(app): State<App>, _: InTenant<may::Observe, AnyQuery>) -> Answer {
    let text = app
        .scrape(&scraped(&app).await)
        .map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))?;
    let mut response = Response::new(HttpBody::from(text));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS));
    Ok(response)
}
