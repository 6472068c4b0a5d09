//! Extractors of a request's caller and of the ids in its path.
//!
//! A route states the permission that it needs, and the type of its query, in its signature: `SessionAccess<may::Read,
//! ListQuery>`. So an unauthorized request is refused before its body is read. The service that the route calls checks
//! the permission again.

use std::marker::PhantomData;

use axum::extract::{FromRef, FromRequestParts, Path};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use filrouge_engine::caller::Caller;
use filrouge_store::command::FencingToken;
use filrouge_types::{ErrorCode, SessionId, TurnId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use super::query::{NoParameters, Query};
use crate::access::{PermissionType, Principal, presented_session_token};
use crate::layer::HttpLayer;
use crate::problem::Problem;

/// The header with the fence of the lease under which a write is made.
const FENCE: &str = "filrouge-fence";

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident { $($(#[$part_doc:meta])* $part:ident: $id:ty,)* })+) => {$(
        $(#[$doc])*
        pub struct $name<P, Q = NoParameters> {
            /// The caller on whose behalf the request is made.
            pub caller: Caller,
            $($(#[$part_doc])* pub $part: $id,)*
            /// The verified credential that authenticated the request; `caller` is for whom the request acts.
            pub principal: Principal,
            /// The request's query.
            pub query: Q,
            needs: PhantomData<P>,
        }

        impl<S, P, Q> FromRequestParts<S> for $name<P, Q>
        where
            S: Send + Sync,
            HttpLayer: FromRef<S>,
            P: PermissionType,
            Q: DeserializeOwned + IntoParams,
        {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
                let authorized = authorize::<S, P, Q>(parts, state).await?;
                Ok(Self {
                    caller: authorized.caller,
                    $($part: authorized.$part.ok_or_else(missing_path_id)?,)*
                    principal: authorized.principal,
                    query: authorized.query,
                    needs: PhantomData,
                })
            }
        }
    )+};
}

requests! {
    /// A request that concerns the tenant, and no single session.
    TenantAccess {}
    /// A request that concerns the session in its path.
    SessionAccess {
        /// The session.
        session: SessionId,
    }
    /// A request that concerns the turn in its path.
    TurnAccess {
        /// The session.
        session: SessionId,
        /// The turn.
        turn: TurnId,
    }
}

/// An authorized request, and the ids in its path.
struct AuthorizedRequest<Q> {
    caller: Caller,
    principal: Principal,
    query: Q,
    session: Option<SessionId>,
    turn: Option<TurnId>,
}

/// The ids in a path, not parsed yet.
#[derive(Deserialize)]
struct PathIds {
    session_id: Option<String>,
    turn_id: Option<String>,
}

/// Parses a turn's id.
///
/// # Errors
/// `turn_not_found` for a text that is not a UUID, since it can name no turn.
fn turn_id(text: &str) -> Result<TurnId, Problem> {
    text.parse().map_err(|_| {
        let detail = format!("there is no turn {text:?} in this session");
        Problem::new(ErrorCode::TurnNotFound, detail)
    })
}

/// Returns the principal and the caller of a request; fails if the caller lacks the permission `P`.
fn caller<P: PermissionType>(
    parts: &Parts,
    http: &HttpLayer,
) -> Result<(Principal, Caller), Problem> {
    // The authentication layer, which is around every route that is not public, has added the principal.
    let principal = parts.extensions.get::<Principal>().ok_or_else(|| {
        let detail = "the route is not behind authentication";
        Problem::new(ErrorCode::Internal, detail)
    })?;
    let token = presented_session_token(&parts.headers)?;
    let mut caller = principal.caller(principal.end_user(&parts.headers)?);
    // A missing permission is reported before a malformed fence.
    caller.scope(P::PERMISSION)?;
    if let Some(token) = token {
        http.engine().sessions.add_token(&mut caller, token);
    }
    let caller = caller.with_fence(fence(&parts.headers)?.map(FencingToken::new));
    Ok((principal.clone(), caller))
}

/// Returns the fence in a request's header (DESIGN §6). If the body has a fence too, the service checks that both are
/// equal.
fn fence(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let mut values = headers.get_all(FENCE).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let only_digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(fence) = only_digits.and_then(|text| text.parse().ok()) else {
        let detail = "Filrouge-Fence is one whole number, given once";
        return Err(Problem::new(ErrorCode::Invalid, detail)
            .with_hint("send the fence of the lease unchanged"));
    };
    Ok(Some(fence))
}

/// Counts a request against the rate limits of its key, its identity, and its session. Requests for a session are
/// counted separately for each caller: otherwise strangers could use up the owner's rate, or learn that the session
/// exists. `session` is the id as in the path, so that requests with malformed ids are counted too.
fn count_against_rates(
    http: &HttpLayer,
    caller: &Caller,
    session: Option<&str>,
) -> Result<(), Problem> {
    if !http.limits().rates.is_any_configured() {
        return Ok(());
    }
    // Tenants may use the same ids, so the tenant is part of each name. NUL separates the two, since no id contains it.
    let in_tenant = |id: &str| format!("{}\0{id}", caller.tenant());
    let identity = caller.identity().map(|id| in_tenant(id.as_str()));
    let rate_caller = match (caller.identity(), caller.name()) {
        (Some(identity), _) => format!("identity\0{identity}"),
        (None, name) => format!("caller\0{}", name.unwrap_or_default()),
    };
    let session = session.map(|id| in_tenant(&format!("{rate_caller}\0{id}")));
    let subjects = [caller.name(), identity.as_deref(), session.as_deref()];
    Ok(http.limits().check(subjects)?)
}

/// Authorizes a request by the permission `P`, counts it against the rate limits, and parses its path and its query
/// `Q`.
async fn authorize<S, P, Q>(parts: &mut Parts, state: &S) -> Result<AuthorizedRequest<Q>, Problem>
where
    S: Send + Sync,
    HttpLayer: FromRef<S>,
    P: PermissionType,
    Q: DeserializeOwned + IntoParams,
{
    let http = HttpLayer::from_ref(state);
    let (principal, caller) = caller::<P>(parts, &http)?;
    let path = Path::<PathIds>::from_request_parts(parts, state).await;
    let path_session = path.as_ref().ok().and_then(|p| p.session_id.as_deref());
    count_against_rates(&http, &caller, path_session)?;
    let invalid = |what| Problem::new(ErrorCode::Invalid, what);
    let Path(ids) = path.map_err(|e| invalid(e.body_text()))?;
    let session = ids.session_id.map(SessionId::new).transpose();
    let session = session.map_err(|e| invalid(e.to_string()))?;
    let turn = ids.turn_id.as_deref().map(turn_id).transpose()?;
    let Query(query) = Query::from_request_parts(parts, state).await?;
    Ok(AuthorizedRequest {
        caller,
        principal,
        query,
        session,
        turn,
    })
}

/// The error of a route whose path lacks the parameter for an id that its handler needs: a mistake in the program.
fn missing_path_id() -> Problem {
    Problem::new(ErrorCode::Internal, "the route's path does not name it")
}
