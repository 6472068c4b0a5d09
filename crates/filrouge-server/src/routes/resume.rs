//! `/api/v1/sessions/{session_id}/resume`: going on with a session where it stopped (P3, DESIGN §6).

use axum::extract::State;
use filrouge_engine::{ResumeSession, Resumed};

use super::busy::{OnHeld, waited};
use crate::app::App;
use crate::openapi::{
    Called, Created, InOpenSession, Journaled, MakingSession, OfSession, OrNothing, Problems,
    Resuming, SessionPath, Stored, Taking, WithBody, Writing,
};
use filrouge_http::access::{may, tell_session_token};
use filrouge_http::answer::{Answer, created, no_content};
use filrouge_http::extract::{Body, InSession, Query};

/// Takes the lease of a session and gives what it takes to go on.
///
/// The newest checkpoint that can be read, the items behind it, and the newest seq, of one moment in which the lease was
/// held. What is left of a long tail is read by `GET …/items?after=` its cursor. With `create` a session that is not
/// there is made.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/resume",
    operation_id = "resumeSession",
    tag = "calls",
    params(SessionPath, OnHeld),
    request_body = ResumeSession,
    responses(OrNothing<Created<Resumed>>, Problems<(Called, Stored, WithBody, Writing, OfSession, InOpenSession, Journaled, (Taking, MakingSession, Resuming))>)
)]
pub(super) async fn resume(
    State(app): State<App>,
    mut at: InSession<may::Write>,
    Query(query): Query<OnHeld>,
    Body(mut request): Body<ResumeSession>,
) -> Answer {
    request.wait_ms = query.wait_ms(request.wait_ms)?;
    let fresh = if request.create {
        app.engine().sessions.fresh_token(&mut at.caller)?
    } else {
        None
    };
    let resuming = app.engine().calls.resume(&at.caller, &at.session, request);
    let resumed = match waited(&app, &at.principal, resuming).await? {
        Ok(resumed) => resumed,
        Err(failure) => return query.unless_held(failure).map(|()| no_content()),
    };
    let new = resumed.created;
    let mut response = created(new, &resumed)?;
    if let Some(fresh) = fresh
        && new
        && app
            .engine()
            .sessions
            .needs_token(&at.caller, &at.session)
            .await
    {
        tell_session_token(&mut response, &fresh);
    }
    Ok(response)
}
