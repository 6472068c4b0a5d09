//! Wraps the handling of every request: gives it an id and a span, logs it, counts it in the metrics, limits its time,
//! and catches panics.
//!
//! Logs contain the route's template, and never the path, the query, a header or a body.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, Response};
use axum::middleware::Next;
use axum::response::IntoResponse;
use filrouge_types::ErrorCode;
use futures_util::FutureExt;
use tracing::{Instrument, Span, field};

use crate::layer::HttpLayer;
use crate::metrics::Counted;
use crate::problem::Problem;
use crate::request_id::HttpRequestId;
use crate::wire::MountedWires;

/// The label of a method in metrics and logs. All methods that are not listed share the label `other`.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Handles one request, as the layer around all routes.
pub(crate) async fn handle_request(
    State(mounted): State<MountedWires>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let (start, http) = (Instant::now(), &mounted.http);
    let in_flight = Counted::new(&http.metrics().in_flight);
    let id = HttpRequestId::from_headers(request.headers());
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or_else(|| "unmatched".to_owned(), |path| path.as_str().to_owned());
    let span = tracing::info_span!(
        "request",
        request_id = id.as_str(),
        method,
        route,
        status = field::Empty,
        duration_ms = field::Empty
    );
    #[cfg(feature = "otel")]
    crate::telemetry::begin(&span, &request, method, &route);
    // The reservation for the request's body. Whatever keeps data of the body may keep a clone; the reservation is
    // released when the last clone is dropped.
    let body = Arc::new(http.limits().body_reservation());
    request.extensions_mut().insert(body.clone());
    // A request whose body is a provider's stream lasts as long as the provider sends; it has limits of its own.
    let has_time_limit = !mounted.is_unbounded(&route);
    let handling = run_within_limits(http, has_time_limit, request, next);
    let mut response = handling.instrument(span.clone()).await;
    drop(body);
    drop(in_flight);
    id.add_to(response.headers_mut());
    #[cfg(feature = "otel")]
    crate::telemetry::end(&span, &response);
    let (status, duration) = (response.status().as_u16(), start.elapsed());
    http.metrics()
        .count_response(method, &route, status, duration);
    log_response(&span, status, duration.as_secs_f64() * 1000.0);
    response
}

async fn run_within_limits(
    http: &HttpLayer,
    has_time_limit: bool,
    request: Request,
    next: Next,
) -> Response<Body> {
    let settings = http.limits().settings();
    let time_limit = settings.body_timeout + settings.answer_timeout;
    let handling = AssertUnwindSafe(next.run(request)).catch_unwind();
    let outcome = match has_time_limit {
        true => tokio::time::timeout(time_limit, handling).await,
        false => Ok(handling.await),
    };
    match outcome {
        Ok(Ok(response)) => response,
        // The message of the panic may quote data of the request, so it is not reported.
        Ok(Err(_)) => {
            http.metrics().panics.inc();
            Problem::new(ErrorCode::Internal, "the program is at fault").into_response()
        }
        Err(_) => {
            let detail = "no answer in time; whether a write was done is not known";
            let problem = Problem::new(ErrorCode::Overloaded, detail);
            problem
                .with_hint("repeat it with the same keys")
                .into_response()
        }
    }
}

fn log_response(span: &Span, status: u16, duration_ms: f64) {
    span.record("status", status);
    span.record("duration_ms", duration_ms);
    span.in_scope(|| {
        if status >= 500 {
            tracing::info!("request answered");
        } else {
            tracing::debug!("request answered");
        }
    });
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use filrouge_engine::{Engine, Settings};
    use filrouge_store::memory::MemoryLedger;
    use filrouge_store::{Keyring, OsEntropy};
    use filrouge_types::{FixedClock, TenantId};
    use prometheus_client::registry::Registry;
    use tower_service::Service;

    use super::*;
    use crate::access::{AccessSettings, Authority};
    use crate::limits::LimitSettings;
    use crate::wire::{Wire, mount};

    #[tokio::test]
    async fn a_route_that_panics_is_answered_and_counted() {
        let clock = Arc::new(FixedClock::at(1));
        let keyring = Arc::new(Keyring::single([1; 32]));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
        let (ledger, entropy) = (Arc::new(ledger), Arc::new(OsEntropy));
        let engine = Arc::new(Engine::new(
            ledger,
            entropy,
            clock.clone(),
            Settings::default(),
        ));
        let settings = AccessSettings {
            tenant: TenantId::default_tenant(),
            origins: Vec::new(),
            jwt: None,
            had_keys: None,
            kept: None,
        };
        let authority = Authority::start(engine.clone(), clock, settings);
        let http = HttpLayer::new(engine, authority.await.unwrap(), LimitSettings::default());
        let panics = || async {
            assert!(std::hint::black_box(false), "what was sent");
        };
        let wire = Wire {
            routes: Router::new().route("/at-fault", get(panics)),
            ..Wire::default()
        };
        let request = Request::get("/at-fault").header("host", "localhost");
        let request = request.body(Body::empty()).unwrap();
        let response = mount(&http, vec![wire], "").call(request).await.unwrap();
        assert_eq!(response.status(), 500);
        let body = axum::body::to_bytes(response.into_body(), 1 << 16).await;
        let body = String::from_utf8(body.unwrap().to_vec()).unwrap();
        assert!(!body.contains("what was sent"), "{body}");
        let metrics = http.scrape(&Registry::default()).unwrap();
        assert!(
            metrics.contains("filrouge_http_panics_total 1"),
            "{metrics}"
        );
    }
}
