//! Who calls, and what that lets them do (DESIGN §8): API keys, tokens, roles, and this machine alone without keys.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use axum::middleware::Next;
use axum::response::IntoResponse;

use crate::serve::App;

mod authority;
mod bearer;
mod cache;
mod jwks;
mod jwt;
mod loopback;
mod principal;
mod session_token;

pub use authority::{AccessSettings, Authority};
pub(crate) use filrouge_engine::caller::{Needs, may};
pub use jwt::{JwksSource, JwtAlgorithm, JwtError, JwtSettings};
pub(crate) use principal::Principal;
pub(crate) use session_token::{shown as shown_session_token, tell as tell_session_token};

/// Whether the server is able to do its work; what is wrong is told to those who may observe.
const READY: &str = "/readyz";
/// What is answered to everybody.
const PUBLIC: [&str; 3] = ["/healthz", READY, "/openapi.json"];

/// Whether a degraded server may tell this caller what is wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MayObserve(pub(crate) bool);

/// Lets a request pass once it is known who makes it.
pub(crate) async fn authenticate(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    bearer::hide(request.headers_mut());
    let authority = app.authority();
    let path = request.uri().path();
    if PUBLIC.contains(&path) {
        let observes = path == READY && authority.may_observe(request.headers()).await;
        if let Err(foreign) = authority.check_host(request.headers()) {
            return foreign.into_response();
        }
        request.extensions_mut().insert(MayObserve(observes));
        return next.run(request).await;
    }
    match authority.authenticate(request.headers()).await {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}
