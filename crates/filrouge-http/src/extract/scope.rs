//! Whose request it is, what it may do, and what its path names.
//!
//! A route states its permission and its query in its signature, `InSession<may::Read, ListQuery>`, so that a request
//! without them is refused before its body is read. The service that it calls checks again.

use std::marker::PhantomData;

use axum::extract::{FromRef, FromRequestParts, Path};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use filrouge_engine::caller::Caller;
use filrouge_store::command::Hold;
use filrouge_types::{ErrorCode, SessionId, TurnId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use super::query::{NoParameters, Query};
use crate::access::{Needs, Principal, shown_session_token};
use crate::layer::HttpLayer;
use crate::limits::RateSubject;
use crate::problem::Problem;

/// Names the lease that a write is made under.
const FENCE: &str = "filrouge-fence";

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident { $($(#[$named:meta])* $part:ident: $id:ty,)* })+) => {$(
        $(#[$doc])*
        pub struct $name<P, Q = NoParameters> {
            /// On whose behalf it comes.
            pub caller: Caller,
            $($(#[$named])* pub $part: $id,)*
            /// The credentials it came with.
            pub principal: Principal,
            /// Its query.
            pub query: Q,
            needs: PhantomData<P>,
        }

        impl<S, P, Q> FromRequestParts<S> for $name<P, Q>
        where
            S: Send + Sync,
            HttpLayer: FromRef<S>,
            P: Needs,
            Q: DeserializeOwned + IntoParams,
        {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
                let entered = enter::<S, P, Q>(parts, state).await?;
                Ok(Self {
                    caller: entered.caller,
                    $($part: entered.$part.ok_or_else(unnamed)?,)*
                    principal: entered.principal,
                    query: entered.query,
                    needs: PhantomData,
                })
            }
        }
    )+};
}

requests! {
    /// A request about the tenant.
    InTenant {}
    /// The session of the path.
    InSession {
        /// The session.
        session: SessionId,
    }
    /// The turn of the path, in its session.
    InTurn {
        /// The session.
        session: SessionId,
        /// The turn.
        turn: TurnId,
    }
}

/// A request that was let in, and what its path names.
struct Entered<Q> {
    caller: Caller,
    principal: Principal,
    query: Q,
    session: Option<SessionId>,
    turn: Option<TurnId>,
}

/// What paths name.
#[derive(Deserialize)]
struct Named {
    session_id: Option<String>,
    turn_id: Option<String>,
}

/// An id that is no UUID names no turn.
fn turn_id(text: &str) -> Result<TurnId, Problem> {
    text.parse().map_err(|_| {
        Problem::new(
            ErrorCode::TurnNotFound,
            format!("there is no turn {text:?} in this session"),
        )
    })
}

/// Who makes a request that needs `P`.
fn caller<P: Needs>(parts: &Parts, http: &HttpLayer) -> Result<(Principal, Caller), Problem> {
    // Every route that is not public is behind the layer that puts the principal here.
    let principal = parts.extensions.get::<Principal>().ok_or_else(|| {
        Problem::new(
            ErrorCode::Internal,
            "the route is not behind authentication",
        )
    })?;
    let token = shown_session_token(&parts.headers)?;
    let mut caller = principal.caller(principal.acts_for(&parts.headers)?);
    // What the caller may not do at all is reported before a fence that cannot be read.
    caller.scope(P::PERMISSION)?;
    if let Some(token) = token {
        http.engine().sessions.show_token(&mut caller, token);
    }
    let caller = caller.with_hold(fence(&parts.headers)?.map(Hold::by));
    Ok((principal.clone(), caller))
}

/// The fence that a write is made under (DESIGN §6); one in the body must be the same.
fn fence(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let mut given = headers.get_all(FENCE).iter();
    let Some(value) = given.next() else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|_| given.next().is_none());
    let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(fence) = digits.and_then(|text| text.parse().ok()) else {
        return Err(Problem::new(
            ErrorCode::Invalid,
            "Filrouge-Fence is one whole number, given once",
        )
        .with_hint("send the fence of the lease as it was answered"));
    };
    Ok(Some(fence))
}

/// Counts a request for its caller and for the session as this caller sees it: what strangers send must neither
/// lock the owner out nor tell that there is a session. `session` is as given, so that bad ids are counted, too.
fn count(http: &HttpLayer, caller: &Caller, session: Option<&str>) -> Result<(), Problem> {
    if !http.limits().counts() {
        return Ok(());
    }
    // Another tenant may use the same ids; none holds NUL.
    let in_tenant = |id: &str| format!("{}\0{id}", caller.tenant());
    let identity = caller.identity().map(|id| in_tenant(id.as_str()));
    let viewer = match (caller.identity(), caller.name()) {
        (Some(identity), _) => format!("identity\0{identity}"),
        (None, name) => format!("caller\0{}", name.unwrap_or_default()),
    };
    let session = session.map(|id| in_tenant(&format!("{viewer}\0{id}")));
    http.limits().check(&RateSubject {
        key: caller.name(),
        identity: identity.as_deref(),
        session: session.as_deref(),
    })?;
    Ok(())
}

/// A request that needs `P` and has the query `Q`, once it was counted.
async fn enter<S, P, Q>(parts: &mut Parts, state: &S) -> Result<Entered<Q>, Problem>
where
    S: Send + Sync,
    HttpLayer: FromRef<S>,
    P: Needs,
    Q: DeserializeOwned + IntoParams,
{
    let http = HttpLayer::from_ref(state);
    let (principal, caller) = caller::<P>(parts, &http)?;
    let path = Path::<Named>::from_request_parts(parts, state).await;
    let given = path.as_ref().ok().and_then(|p| p.session_id.as_deref());
    count(&http, &caller, given)?;
    let invalid = |what| Problem::new(ErrorCode::Invalid, what);
    let Path(named) = path.map_err(|e| invalid(e.body_text()))?;
    let session = named.session_id.map(SessionId::new).transpose();
    let session = session.map_err(|e| invalid(e.to_string()))?;
    let turn = named.turn_id.as_deref().map(turn_id).transpose()?;
    let Query(query) = Query::from_request_parts(parts, state).await?;
    Ok(Entered {
        caller,
        principal,
        query,
        session,
        turn,
    })
}

/// Routes that ask for what their paths do not name are wrong.
fn unnamed() -> Problem {
    Problem::new(ErrorCode::Internal, "the route's path does not name it")
}
