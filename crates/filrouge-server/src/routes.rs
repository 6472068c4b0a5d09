//! The routes of DESIGN §12; one file a group.

use axum::Router;
use axum::routing::post;
use filrouge_http::Wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

mod audit;
mod busy;
mod changes;
mod checkpoints;
mod context;
mod events;
mod export;
mod health;
mod identity_turns;
mod info;
mod items;
mod kpi;
mod lease;
mod lineage;
mod mcp;
mod metrics;
mod openapi;
mod resume;
mod search;
mod session;
mod sessions;
mod stats;
mod stream;
mod tail;
mod technical_status;
mod turns;

pub(crate) use health::standing;

/// All routes with what the document tells of them. A route that is not annotated cannot be put in.
pub(crate) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::show, session::patch, session::erase))
        .routes(routes!(session::close))
        .routes(routes!(session::link))
        .routes(routes!(
            lease::take,
            lease::renew,
            lease::show,
            lease::release
        ))
        .routes(routes!(resume::resume))
        .routes(routes!(checkpoints::put, checkpoints::list))
        .routes(routes!(checkpoints::latest))
        .routes(routes!(events::record, events::list))
        .routes(routes!(info::show))
        .routes(routes!(changes::list))
        .routes(routes!(audit::list))
        .routes(routes!(technical_status::show))
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
        .routes(routes!(lineage::show))
        .routes(routes!(stats::show))
        .routes(routes!(identity_turns::list))
        .routes(routes!(search::find))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::show))
        .routes(routes!(openapi::show))
}

/// The native routes over `app`, and MCP.
pub(crate) fn wire(app: App) -> Wire {
    let routes = Router::from(api()).route(mcp::PATH, post(mcp::call));
    Wire {
        routes: routes.with_state(app),
        public: &["/healthz", "/readyz", "/openapi.json"],
        unbounded: &[stream::PATH],
        failures: None,
    }
}
