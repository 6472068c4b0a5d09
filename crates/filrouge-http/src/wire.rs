//! Wires: the routes of each protocol, and the layers that `mount` puts around all of them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use filrouge_types::{ErrorCode, Failure};

use crate::layer::HttpLayer;
use crate::problem::{FailureText, Problem, ReportedFailure, format_problem};
use crate::{access, cors, host, observe};

/// The routes of one protocol.
#[derive(Clone, Default)]
pub struct Wire {
    /// The routes, with their state.
    pub routes: Router,
    /// Paths that any caller may request, without credentials.
    pub public: &'static [&'static str],
    /// Templates, such as `/a/{id}`, of routes without the server's time limit for a request. Their handlers set other
    /// limits.
    pub unbounded: &'static [&'static str],
    /// The format of failures below a path. `None`: `application/problem+json`.
    pub failure_format: Option<FailureFormat>,
}

/// The prefix of a wire's paths, and the function that formats a failure for its protocol.
pub type FailureFormat = (&'static str, fn(&Failure) -> FailureText);

/// The state of the layers around all wires.
#[derive(Clone)]
pub(crate) struct MountedWires {
    pub(crate) http: HttpLayer,
    pub(crate) wires: Arc<[Wire]>,
}

impl MountedWires {
    pub(crate) fn is_public(&self, path: &str) -> bool {
        self.wires.iter().any(|wire| wire.public.contains(&path))
    }

    /// Whether the requests of a route, named by its template, have no time limit.
    pub(crate) fn is_unbounded(&self, route: &str) -> bool {
        let mut wires = self.wires.iter();
        wires.any(|wire| wire.unbounded.contains(&route))
    }

    /// Returns the function that formats failures for a request's path.
    fn failure_format(&self, path: &str) -> fn(&Failure) -> FailureText {
        let mut formats = self.wires.iter().filter_map(|wire| wire.failure_format);
        let format = formats.find(|(prefix, _)| path.starts_with(prefix));
        format.map_or(format_problem, |(_, format)| format)
    }
}

/// Merges the routes of all wires, and adds the check of the host, authentication, limits, logs and metrics.
/// `unknown_path_hint` is the hint in the error for a path that no wire serves.
pub fn mount(http: &HttpLayer, wires: Vec<Wire>, unknown_path_hint: &'static str) -> Router {
    let mounted = MountedWires {
        http: http.clone(),
        wires: wires.into(),
    };
    let routes = mounted.wires.iter().map(|wire| wire.routes.clone());
    let router = routes
        .fold(Router::new(), Router::merge)
        .fallback(async move || {
            let problem = Problem::new(ErrorCode::RouteNotFound, "there is no such route");
            problem.with_hint(unknown_path_hint)
        })
        .method_not_allowed_fallback(async || {
            let detail = "the route does not know this method";
            Problem::new(ErrorCode::MethodNotAllowed, detail)
        })
        .layer(from_fn_with_state(mounted.clone(), access::authenticate))
        .layer(from_fn(host::check_host))
        .layer(from_fn_with_state(mounted.clone(), observe::handle_request));
    // The router adds `Allow`, the list of a route's methods, to a response 405. `format_failures` reads this header,
    // so it must be a layer outside the router.
    let router = Router::new()
        .fallback_service(router)
        .layer(from_fn_with_state(mounted, format_failures));
    match http.authority().origins() {
        [] => router,
        origins => router.layer(cors::layer(origins)),
    }
}

/// Formats a failure as the wire of the request's path does. If the route exists but not with the request's method, the
/// hint lists the route's methods.
async fn format_failures(
    State(mounted): State<MountedWires>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let format = mounted.failure_format(request.uri().path());
    let mut response = next.run(request).await;
    let Some(ReportedFailure(failure)) = response.extensions_mut().remove() else {
        return response;
    };
    let mut failure = Failure::clone(&failure);
    let allowed = response.headers().get(header::ALLOW);
    if response.status() == StatusCode::METHOD_NOT_ALLOWED
        && let Some(methods) = allowed.and_then(|methods| methods.to_str().ok())
    {
        failure = failure.with_hint(format!("known methods: {}", methods.replace(',', ", ")));
    }
    let (media_type, text) = format(&failure);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::from(text);
    response
}
