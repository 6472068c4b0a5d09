//! The routes of DESIGN §12; one file a group.

use axum::Router;
use filrouge_types::ErrorCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access;
use crate::problem::Problem;
use crate::serve::App;

mod changes;
mod context;
mod events;
mod export;
mod health;
mod identity_turns;
mod info;
mod items;
mod lineage;
mod metrics;
mod openapi;
mod session;
mod sessions;
mod stats;
mod tail;
mod turns;

/// All routes with what the document tells of them. A route that is not annotated cannot be put in.
pub(crate) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::show, session::patch, session::erase))
        .routes(routes!(session::close))
        .routes(routes!(session::link))
        .routes(routes!(events::record, events::list))
        .routes(routes!(info::show))
        .routes(routes!(changes::list))
        .routes(routes!(turns::start, turns::list))
        .routes(routes!(turns::show))
        .routes(routes!(items::append))
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
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::show))
        .routes(routes!(openapi::show))
}

/// All routes over `app`.
pub fn router(app: App) -> Router {
    Router::from(api())
        .fallback(async || Problem::new(ErrorCode::RouteNotFound, "there is no such route"))
        .method_not_allowed_fallback(async || {
            Problem::new(
                ErrorCode::MethodNotAllowed,
                "the route does not know this method",
            )
        })
        .layer(axum::middleware::from_fn_with_state(
            app.clone(),
            access::authenticate,
        ))
        .with_state(app)
}
