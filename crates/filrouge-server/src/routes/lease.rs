//! `/api/v1/sessions/{session_id}/lease`: who may continue a session (DESIGN §6).

use axum::extract::State;
use filrouge_engine::{AcquireLease, RenewLease};
use filrouge_types::Lease;
use serde::{Deserialize, Deserializer, de};
use utoipa::IntoParams;

use super::busy::{OnHeld, waited};
use crate::app::App;
use crate::openapi::{
    Called, Created, InOpenSession, Journaled, OfSession, OrNothing, Problems, Releasing, Renewing,
    SessionPath, Shown, Stored, Taking, WithBody, Writing, Written,
};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, created, json, no_content, written};
use filrouge_http::extract::{Body, InSession, NoParameters, Query};

/// Takes the lease of a session, waiting while somebody else holds it.
///
/// From then on who writes to the session names the fence, as `fence` or as `Filrouge-Fence`, and everybody else is
/// refused. Who holds it already keeps the fence, for longer.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/lease",
    operation_id = "takeLease",
    tag = "calls",
    params(SessionPath, OnHeld),
    request_body = AcquireLease,
    responses(OrNothing<Created<Lease>>, Problems<(Called, Stored, WithBody, Writing, OfSession, InOpenSession, Journaled, Taking)>)
)]
pub(super) async fn take(
    State(app): State<App>,
    at: InSession<may::Write>,
    Query(query): Query<OnHeld>,
    Body(mut request): Body<AcquireLease>,
) -> Answer {
    request.wait_ms = query.wait_ms(request.wait_ms)?;
    let engine = app.engine();
    let taking = engine.calls.acquire(&at.caller, &at.session, request);
    match waited(&app, &at.principal, taking).await? {
        Ok(lease) => created(!lease.replayed, &lease),
        Err(failure) => query.unless_held(failure).map(|()| no_content()),
    }
}

/// Renews a lease from now on, under the fence that it is held by.
#[utoipa::path(
    put,
    path = "/api/v1/sessions/{session_id}/lease",
    operation_id = "renewLease",
    tag = "calls",
    params(SessionPath),
    request_body = RenewLease,
    responses(Written<Lease>, Problems<(Called, Stored, WithBody, Writing, OfSession, Journaled, Renewing)>)
)]
pub(super) async fn renew(
    State(app): State<App>,
    at: InSession<may::Write>,
    _: Query<NoParameters>,
    Body(request): Body<RenewLease>,
) -> Answer {
    let lease = app
        .engine()
        .calls
        .renew(&at.caller, &at.session, request)
        .await?;
    written(&lease)
}

/// Gives the newest fence, and who holds the session now, if anybody does.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/lease",
    operation_id = "getLease",
    tag = "calls",
    params(SessionPath),
    responses(Shown<Lease>, Problems<(Called, Stored, OfSession)>)
)]
pub(super) async fn show(
    State(app): State<App>,
    at: InSession<may::Read>,
    _: Query<NoParameters>,
) -> Answer {
    let lease = app.engine().calls.lease(&at.caller, &at.session).await?;
    json(&lease)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseQuery {
    /// Who holds the session.
    #[serde(deserialize_with = "holder")]
    #[param(value_type = filrouge_types::schema::Holder, inline)]
    holder: Box<str>,
    /// The fence that it is held by; `Filrouge-Fence` says it as well.
    fence: Option<u64>,
}

fn holder<'de, D: Deserializer<'de>>(d: D) -> Result<Box<str>, D::Error> {
    let holder = Box::<str>::deserialize(d)?;
    if holder.is_empty() {
        return Err(de::Error::custom("a holder must not be empty"));
    }
    Ok(holder)
}

/// Gives a session free.
///
/// One that was taken over or whose time is up is free of this holder already. Whoever waits for it is woken.
#[utoipa::path(
    delete,
    path = "/api/v1/sessions/{session_id}/lease",
    operation_id = "releaseLease",
    tag = "calls",
    params(SessionPath, ReleaseQuery),
    responses(Written<Lease>, Problems<(Called, Stored, Writing, OfSession, Releasing)>)
)]
pub(super) async fn release(
    State(app): State<App>,
    at: InSession<may::Write>,
    Query(query): Query<ReleaseQuery>,
) -> Answer {
    let lease = app
        .engine()
        .calls
        .release(&at.caller, &at.session, &query.holder, query.fence)
        .await?;
    written(&lease)
}
