//! The routes of DESIGN §12; one file per group.

use axum::Router;
use axum::routing::post;
use filrouge_http::Wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

mod audit;
mod busy;
mod calls;
mod changes;
mod context;
mod events;
mod export;
mod health;
mod info;
mod items;
mod kpi;
mod mcp;
mod metrics;
mod openapi;
mod page;
mod search;
mod sessions;
mod stats;
mod stream;
mod tail;
mod turns;

pub(crate) use health::readiness;

/// Returns all native routes except `/mcp`, with their OpenAPI description. A route without an annotation cannot be
/// added.
pub(crate) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::show, sessions::patch, sessions::erase))
        .routes(routes!(sessions::close))
        .routes(routes!(sessions::link))
        .routes(routes!(
            calls::acquire,
            calls::renew,
            calls::show,
            calls::release
        ))
        .routes(routes!(calls::resume))
        .routes(routes!(calls::put_checkpoint, calls::checkpoints))
        .routes(routes!(calls::latest_checkpoint))
        .routes(routes!(events::record, events::list))
        .routes(routes!(info::show))
        .routes(routes!(changes::list))
        .routes(routes!(audit::list))
        .routes(routes!(kpi::technical_status))
        .routes(routes!(kpi::show))
        .routes(routes!(turns::start, turns::list))
        .routes(routes!(turns::show))
        .routes(routes!(items::append))
        .routes(routes!(stream::record))
        .routes(routes!(turns::finalize))
        .routes(routes!(turns::fail))
        .routes(routes!(turns::cancel))
        .routes(routes!(turns::replace))
        .routes(routes!(turns::redact))
        .routes(routes!(items::list))
        .routes(routes!(context::show))
        .routes(routes!(export::show))
        .routes(routes!(sessions::verify))
        .routes(routes!(stats::lineage))
        .routes(routes!(stats::show))
        .routes(routes!(turns::list_of_identity))
        .routes(routes!(search::find))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::show))
        .routes(routes!(openapi::show))
}

/// Returns the native routes over `app`, including `/mcp`, as a wire.
pub(crate) fn wire(app: App) -> Wire {
    let routes = Router::from(api()).route(mcp::PATH, post(mcp::handle));
    Wire {
        routes: routes.with_state(app),
        public: &["/healthz", "/readyz", "/openapi.json"],
        unbounded: &[stream::PATH],
        failure_format: None,
    }
}
