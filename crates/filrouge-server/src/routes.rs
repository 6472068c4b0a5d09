//! The routes of DESIGN §12; one file per group.

use axum::Router;
use axum::routing::{get, post};
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
mod redaction;
mod search;
mod sessions;
mod stats;
mod stream;
mod tail;
mod turns;

pub(crate) use health::readiness;

/// Returns all native routes except `/mcp` and `/docs`, with their OpenAPI description. A route without an annotation cannot be
/// added.
pub(crate) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(sessions::create_session, sessions::list_sessions))
        .routes(routes!(
            sessions::get_session,
            sessions::patch_session,
            sessions::erase_session
        ))
        .routes(routes!(sessions::close_session))
        .routes(routes!(sessions::link_session))
        .routes(routes!(
            calls::take_lease,
            calls::renew_lease,
            calls::get_lease,
            calls::release_lease
        ))
        .routes(routes!(calls::resume_session))
        .routes(routes!(calls::put_checkpoint, calls::list_checkpoints))
        .routes(routes!(calls::get_latest_checkpoint))
        .routes(routes!(events::record_event, events::list_events))
        .routes(routes!(info::get_info))
        .routes(routes!(changes::list_changes))
        .routes(routes!(audit::list_audit))
        .routes(routes!(kpi::get_technical_status))
        .routes(routes!(kpi::get_key_figures))
        .routes(routes!(turns::start_turn, turns::list_turns))
        .routes(routes!(turns::get_turn))
        .routes(routes!(items::append_items))
        .routes(routes!(stream::record_stream))
        .routes(routes!(turns::finalize_turn))
        .routes(routes!(turns::fail_turn))
        .routes(routes!(turns::cancel_turn))
        .routes(routes!(turns::replace_turn))
        .routes(routes!(turns::redact_turn))
        .routes(routes!(redaction::redact_items))
        .routes(routes!(items::list_items))
        .routes(routes!(context::restore_context))
        .routes(routes!(export::export_session))
        .routes(routes!(sessions::verify_session))
        .routes(routes!(stats::get_lineage))
        .routes(routes!(stats::get_stats))
        .routes(routes!(turns::list_turns_of_identity))
        .routes(routes!(search::search))
        .routes(routes!(health::get_health))
        .routes(routes!(health::get_readiness))
        .routes(routes!(metrics::get_metrics))
        .routes(routes!(openapi::get_open_api))
}

/// Returns all native routes over `app` as a wire.
pub(crate) fn wire(app: App) -> Wire {
    let routes = Router::from(api())
        .route(mcp::PATH, post(mcp::handle))
        .route(openapi::PAGE_PATH, get(openapi::get_page));
    Wire {
        routes: routes.with_state(app),
        public: &["/healthz", "/readyz", "/openapi.json", openapi::PAGE_PATH],
        unbounded: &[stream::PATH],
        own_paths: None,
    }
}
