//! Wires: the routes of each protocol, and the layers that `mount` puts around all of them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
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
    /// Templates of routes that any caller may request, without credentials.
    pub public: &'static [&'static str],
    /// Templates, such as `/a/{id}`, of routes without the server's time limit for a request. Their handlers set other
    /// limits.
    pub unbounded: &'static [&'static str],
    /// What is different for the wire's own paths. `None`: their failures are `application/problem+json`.
    pub own_paths: Option<OwnPaths>,
}

/// What is different for the paths of one wire.
#[derive(Clone, Copy)]
pub struct OwnPaths {
    /// Whether a path is one of them, also one without a route.
    pub contain: fn(&str) -> bool,
    /// Formats a failure for the wire's protocol; the headers are those of the request.
    pub format_failure: fn(&Failure, &HeaderMap) -> FailureText,
    /// Whether people request them with a browser: a cookie then authenticates them, and requests that change something
    /// must come from a page of this server.
    pub for_browsers: bool,
    /// Headers of all their responses.
    pub headers: &'static [(&'static str, &'static str)],
}

/// The state of the layers around all wires.
#[derive(Clone)]
pub(crate) struct MountedWires {
    pub(crate) http: HttpLayer,
    pub(crate) wires: Arc<[Wire]>,
}

impl MountedWires {
    /// Whether a route, named by its template, needs no credentials.
    pub(crate) fn is_public(&self, route: &str) -> bool {
        self.wires.iter().any(|wire| wire.public.contains(&route))
    }

    /// Whether the requests of a route, named by its template, have no time limit.
    pub(crate) fn is_unbounded(&self, route: &str) -> bool {
        let mut wires = self.wires.iter();
        wires.any(|wire| wire.unbounded.contains(&route))
    }

    /// What is different for a request's path.
    pub(crate) fn own_paths(&self, path: &str) -> OwnPaths {
        let mut own_paths = self.wires.iter().filter_map(|wire| wire.own_paths);
        let own_paths = own_paths.find(|own| (own.contain)(path));
        own_paths.unwrap_or(OwnPaths {
            contain: |_| true,
            format_failure: |failure, _| format_problem(failure),
            for_browsers: false,
            headers: &[],
        })
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
    let own_paths = mounted.own_paths(request.uri().path());
    let request_headers = own_paths.for_browsers.then(|| request.headers().clone());
    let mut response = next.run(request).await;
    for (name, value) in own_paths.headers {
        let value = HeaderValue::from_static(value);
        response.headers_mut().entry(*name).or_insert(value);
    }
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
    let request_headers = request_headers.unwrap_or_default();
    let (media_type, text) = (own_paths.format_failure)(&failure, &request_headers);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::from(text);
    response
}
