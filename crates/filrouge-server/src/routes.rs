//! The routes of DESIGN §12; one file a group.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use filrouge_types::ErrorCode;

use crate::access;
use crate::problem::Problem;
use crate::serve::App;

mod context;
mod export;
mod health;
mod items;
mod sessions;
mod turns;

/// Largest body in bytes (DESIGN §8).
const BODY_MAX: usize = 32 << 20;

/// All routes over `app`.
pub fn router(app: App) -> Router {
    let sessions = Router::new()
        .route("/", post(sessions::create).get(sessions::list))
        .route("/{sid}", get(sessions::show))
        .route("/{sid}/turns", post(turns::start).get(turns::list))
        .route("/{sid}/turns/{tid}", get(turns::show))
        .route("/{sid}/turns/{tid}/items", post(items::append))
        .route("/{sid}/turns/{tid}/finalize", post(turns::finalize))
        .route("/{sid}/turns/{tid}/fail", post(turns::fail))
        .route("/{sid}/turns/{tid}/cancel", post(turns::cancel))
        .route("/{sid}/turns/{tid}/replace", post(turns::replace))
        .route("/{sid}/turns/{tid}/redact", post(turns::redact))
        .route("/{sid}/items", get(items::list))
        .route("/{sid}/context", get(context::show))
        .route("/{sid}/export", get(export::show))
        .route("/{sid}/verify", get(sessions::verify));
    Router::new()
        .nest("/api/v1/sessions", sessions)
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .fallback(async || Problem::new(ErrorCode::RouteNotFound, "there is no such route"))
        .method_not_allowed_fallback(async || {
            Problem::new(
                ErrorCode::MethodNotAllowed,
                "the route does not know this method",
            )
        })
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(axum::middleware::from_fn(access::loopback_only))
        .with_state(app)
}
