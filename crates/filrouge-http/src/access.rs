//! Authentication and permissions (DESIGN §8): API keys, an issuer's tokens, and roles. While the store has no keys and
//! no issuer is configured, every caller on this machine is accepted, and no other.

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Response;
use axum::middleware::Next;

use crate::problem::Problem;
use crate::wire::MountedWires;

mod authority;
mod bearer;
mod browser;
mod credential;
mod jwks;
mod jwt;
mod loopback;
mod principal;
mod session_token;

pub use authority::{AccessSettings, Authority};
pub(crate) use bearer::SESSION_TOKEN;
pub use browser::{signed_in_header, signed_out_header};
pub use filrouge_engine::caller::{Permission, PermissionType, may};
pub use jwt::{JwksSource, JwtAlgorithm, JwtError, JwtSettings};
pub use principal::Principal;
pub use session_token::{add_session_token, presented as presented_session_token};

/// Authenticates a request, and passes it on with its principal. For a public route, only the host name is checked.
pub(crate) async fn authenticate(
    State(mounted): State<MountedWires>,
    mut request: Request,
    next: Next,
) -> Result<Response<Body>, Problem> {
    bearer::mark_sensitive(request.headers_mut());
    let authority = mounted.http.authority();
    let for_browsers = mounted.own_paths(request.uri().path()).for_browsers;
    if for_browsers {
        browser::check_same_origin(request.method(), request.headers())?;
    }
    let route = request.extensions().get::<MatchedPath>();
    if route.is_some_and(|route| mounted.is_public(route.as_str())) {
        authority.check_host(request.headers())?;
    } else {
        let headers = request.headers();
        let principal = match for_browsers {
            true => authority.authenticate_browser(headers).await?,
            false => authority.authenticate(headers).await?,
        };
        request.extensions_mut().insert(principal);
    }
    Ok(next.run(request).await)
}
