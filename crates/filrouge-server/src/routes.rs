//! The routes of DESIGN §12; one file a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::MatchedPath;
use axum::routing::post;
use filrouge_types::ErrorCode;
use utoipa::openapi::{PathItem, Paths};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access;
use crate::mcp;
use crate::problem::Problem;
use crate::serve::App;

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
mod metrics;
mod openapi;
mod resume;
mod search;
mod session;
mod sessions;
mod stats;
pub(crate) mod stream;
mod tail;
pub(crate) mod technical_status;
mod turns;

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

/// All routes over `app`.
pub fn router(app: App) -> Router {
    let (routes, document) = api().split_for_parts();
    let mut methods = methods(&document.paths);
    methods.insert(mcp::PATH.to_owned(), mcp::METHODS.to_owned());
    let methods: Arc<Methods> = Arc::new(methods);
    routes
        .route(mcp::PATH, post(mcp::call))
        .fallback(async || {
            let problem = Problem::new(ErrorCode::RouteNotFound, "there is no such route");
            hinted(problem, "/openapi.json shows all routes".to_owned())
        })
        .method_not_allowed_fallback(async move |path: Option<MatchedPath>| {
            let problem = Problem::new(
                ErrorCode::MethodNotAllowed,
                "the route does not know this method",
            );
            match path.and_then(|path| methods.get(path.as_str()).cloned()) {
                Some(known) => hinted(problem, format!("known methods: {known}")),
                None => problem,
            }
        })
        .layer(axum::middleware::from_fn_with_state(
            app.clone(),
            access::authenticate,
        ))
        .with_state(app)
}

fn hinted(mut problem: Problem, hint: String) -> Problem {
    problem.0.hint = Some(hint);
    problem
}

/// The methods of each path.
type Methods = BTreeMap<String, String>;

fn methods(paths: &Paths) -> Methods {
    let of = |item: &PathItem| {
        let all = [
            ("GET, HEAD", &item.get),
            ("POST", &item.post),
            ("PUT", &item.put),
            ("PATCH", &item.patch),
            ("DELETE", &item.delete),
        ];
        let known = all.iter().filter(|(_, operation)| operation.is_some());
        let names: Vec<&str> = known.map(|(name, _)| *name).collect();
        names.join(", ")
    };
    let all = paths.paths.iter();
    all.map(|(path, item)| (path.clone(), of(item))).collect()
}
