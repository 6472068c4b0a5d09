//! `/api/v1/sessions/{session_id}/lease`, `…/checkpoints` and `…/resume`: live calls (P3, DESIGN §6).

use filrouge_engine::{AcquireLease, RenewLease, ResumeSession, Resumed, SaveCheckpoint};
use filrouge_types::{Checkpoint, Lease, RawJson, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, de};
use utoipa::{IntoParams, ToSchema};

use super::busy::{HeldSessionQuery, run_while_valid};
use super::page::PageQuery;
use crate::app::App;
use crate::openapi::{CreatedResponse, OrNoContent, PageResponse, StateResponse, WriteResponse};
use filrouge_http::access::{add_session_token, may};
use filrouge_http::extract::{Body, SessionAccess};
use filrouge_http::response::{Page, RouteResult, create_response, created, json, written};

/// Takes the lease of a session; waits while another caller holds it.
///
/// From then on writers to the session must send the fence, as `fence` or as `Filrouge-Fence`; all other writes are
/// refused. The present holder keeps its fence and gets more time.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/lease",
    params(HeldSessionQuery),
    request_body = AcquireLease,
    responses(OrNoContent<CreatedResponse<Lease>>)
)]
pub(super) async fn take_lease(
    app: App,
    access: SessionAccess<may::Write, HeldSessionQuery>,
    Body(mut request): Body<AcquireLease>,
) -> RouteResult {
    request.wait_ms = access.query.wait_ms(request.wait_ms)?;
    let acquiring = app.calls.acquire(&access.caller, &access.session, request);
    match run_while_valid(&app, (&access.principal, &access.caller), acquiring).await? {
        Ok(lease) => create_response(!lease.replayed, &lease),
        Err(failure) => access.query.accept_lease_timeout(failure),
    }
}

/// Renews a lease from now on, under its present fence.
///
/// The request names the holder and the fence. A lease that has expired is taken again instead.
#[utoipa::path(
    put,
    path = "/api/v1/sessions/{session_id}/lease",
    request_body = RenewLease,
    responses(WriteResponse<Lease>)
)]
pub(super) async fn renew_lease(
    app: App,
    access: SessionAccess<may::Write>,
    Body(request): Body<RenewLease>,
) -> RouteResult {
    written(app.calls.renew(&access.caller, &access.session, request)).await
}

/// Returns the newest fence, and the session's present holder, if any.
///
/// Reading a lease changes nothing: its holder keeps the session.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/lease",
    responses(StateResponse<Lease>)
)]
pub(super) async fn get_lease(app: App, access: SessionAccess<may::Read>) -> RouteResult {
    let lease = app.calls.lease(&access.caller, &access.session).await?;
    json(&lease)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseQuery {
    /// The session's holder.
    #[serde(deserialize_with = "non_empty_holder")]
    #[param(value_type = filrouge_types::schema::LeaseHolder, inline)]
    holder: Box<str>,
    /// The fence of its lease; `Filrouge-Fence` is an alternative.
    fence: Option<u64>,
}

/// Refuses an empty holder.
fn non_empty_holder<'de, D: Deserializer<'de>>(d: D) -> Result<Box<str>, D::Error> {
    let holder = Box::<str>::deserialize(d)?;
    if holder.is_empty() {
        return Err(de::Error::custom("a holder must not be empty"));
    }
    Ok(holder)
}

/// Releases the lease of a session.
///
/// A lease that was taken over or has expired counts as released. Waiting callers are woken.
#[utoipa::path(
    delete,
    path = "/api/v1/sessions/{session_id}/lease",
    params(ReleaseQuery),
    responses(WriteResponse<Lease>)
)]
pub(super) async fn release_lease(
    app: App,
    access: SessionAccess<may::Write, ReleaseQuery>,
) -> RouteResult {
    let (calls, query) = (&app.calls, &access.query);
    let releasing = calls.release(&access.caller, &access.session, &query.holder, query.fence);
    written(releasing).await
}

/// Writes a checkpoint, once for each seq; its label becomes the session's state.
///
/// Repeating an equal checkpoint changes nothing; a different one at the same seq is a conflict. Only the newest ones
/// are kept.
#[utoipa::path(
    put,
    path = "/api/v1/sessions/{session_id}/checkpoints",
    request_body = SaveCheckpoint,
    responses(CreatedResponse<Checkpoint>)
)]
pub(super) async fn put_checkpoint(
    app: App,
    access: SessionAccess<may::Write>,
    Body(request): Body<SaveCheckpoint>,
) -> RouteResult {
    let calls = &app.calls;
    created(calls.put_checkpoint(&access.caller, &access.session, request)).await
}

/// A checkpoint in a list.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = ListedCheckpoint)]
pub(super) struct ListedCheckpoint {
    /// It covers all items with this seq or less.
    seq: u64,
    /// The application's label.
    label: Option<Box<str>>,
    /// The application's state; `null` when it cannot be read.
    #[schema(value_type = Option<Object>)]
    state: Option<RawJson>,
    /// When it was written; `null` when it cannot be read.
    created_at: Option<Timestamp>,
    /// Whether it was changed, deleted or put back in the database: then only its seq is returned.
    unreadable: bool,
}

impl From<Result<Checkpoint, u64>> for ListedCheckpoint {
    fn from(checkpoint: Result<Checkpoint, u64>) -> Self {
        match checkpoint {
            Ok(checkpoint) => Self {
                seq: checkpoint.seq,
                label: checkpoint.label,
                state: Some(checkpoint.state),
                created_at: Some(checkpoint.created_at),
                unreadable: false,
            },
            Err(seq) => Self {
                seq,
                unreadable: true,
                ..Self::default()
            },
        }
    }
}

/// Lists a session's checkpoints, newest first.
///
/// Each row says whether its checkpoint can be read, and if not, why.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/checkpoints",
    params(PageQuery),
    responses(PageResponse<ListedCheckpoint>)
)]
pub(super) async fn list_checkpoints(
    app: App,
    access: SessionAccess<may::Read, PageQuery>,
) -> RouteResult {
    let limit = usize::from(access.query.limit);
    let before = access.query.cursor.map(u64::from);
    let checkpoints = app.calls.checkpoints(&access.caller, &access.session);
    let mut data: Vec<ListedCheckpoint> = checkpoints
        .await?
        .into_iter()
        .map(ListedCheckpoint::from)
        .filter(|checkpoint| before.is_none_or(|seq| checkpoint.seq < seq))
        .collect();
    let has_more = data.len() > limit;
    data.truncate(limit);
    let next_cursor = data
        .last()
        .filter(|_| has_more)
        .map(|checkpoint| checkpoint.seq.to_string());
    json(&Page {
        data,
        next_cursor,
        findings: Vec::new(),
    })
}

/// Returns the newest checkpoint that can be read.
///
/// A newer checkpoint that was changed is skipped; `verify` shows it.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/checkpoints/latest",
    responses(StateResponse<Checkpoint>)
)]
pub(super) async fn get_latest_checkpoint(
    app: App,
    access: SessionAccess<may::Read>,
) -> RouteResult {
    let calls = &app.calls;
    let checkpoint = calls.latest_checkpoint(&access.caller, &access.session);
    json(&checkpoint.await?)
}

/// Takes the lease of a session and returns what the caller needs to continue.
///
/// The newest readable checkpoint, the items after it, and the newest seq, all from one moment at which the lease was
/// held. The caller reads the rest of a long tail with `GET …/items?after=` its cursor. With `create`, a missing
/// session is created.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/resume",
    params(HeldSessionQuery),
    request_body = ResumeSession,
    responses(OrNoContent<CreatedResponse<Resumed>>)
)]
pub(super) async fn resume_session(
    app: App,
    mut access: SessionAccess<may::Write, HeldSessionQuery>,
    Body(mut request): Body<ResumeSession>,
) -> RouteResult {
    request.wait_ms = access.query.wait_ms(request.wait_ms)?;
    let new_token = if request.create {
        app.sessions.generate_token(&mut access.caller)?
    } else {
        None
    };
    let resuming = app.calls.resume(&access.caller, &access.session, request);
    let resumed = match run_while_valid(&app, (&access.principal, &access.caller), resuming).await?
    {
        Ok(resumed) => resumed,
        Err(failure) => return access.query.accept_lease_timeout(failure),
    };
    let is_new = resumed.created;
    let mut response = create_response(is_new, &resumed)?;
    let sessions = &app.sessions;
    if let Some(new_token) = new_token
        && is_new
        && sessions.needs_token(&access.caller, &access.session).await
    {
        add_session_token(&mut response, &new_token);
    }
    Ok(response)
}
