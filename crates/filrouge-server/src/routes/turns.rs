//! `/api/v1/sessions/{session_id}/turns` and `/api/v1/turns`.

use axum::extract::State;
use filrouge_engine::scopes::RecentTurns;
use filrouge_engine::{
    CancelTurn, FailTurn, FinalizeTurn, IdentityTurns, ListTurns, RedactTurn, ReplaceTurn,
    StartTurn,
};
use filrouge_types::{ErrorCode, IdentityId, RequestId, Turn, TurnStatus};
use serde::Deserialize;
use utoipa::IntoParams;

use super::busy::{OnOpenTurn, waited};
use crate::app::App;
use crate::openapi::{Copied, Created, Listed, OrNothing, SessionPath, Shown, TurnPath, Written};
use filrouge_http::access::{Principal, add_session_token, may};
use filrouge_http::answer::{Answer, Page, as_of, created, json, json_text, no_content, written};
use filrouge_http::extract::{
    Body, Cursor, InSession, InTenant, InTurn, Limit, OptionalBody, wait,
};
use filrouge_http::problem::Problem;

/// Starts a turn: the question is written before the work begins.
///
/// A missing session is created. With `items` and `answer_neutral`, one call records a complete finished turn.
/// Repeating the `request_id` returns the first turn, with `differs: true` when the body differs; while it is open,
/// `on_busy` says whether to wait for its end.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns",
    operation_id = "startTurn",
    tag = "turns",
    params(SessionPath, OnOpenTurn),
    request_body = StartTurn,
    responses(OrNothing<Created<Turn>>)
)]
pub(super) async fn start(
    State(app): State<App>,
    mut at: InSession<may::Write, OnOpenTurn>,
    Body(request): Body<StartTurn>,
) -> Answer {
    let on_busy = at.query.policy()?;
    let fresh = app.sessions.fresh_token(&mut at.caller)?;
    let session = at.session.clone();
    let turn = match on_busy {
        None => app.turns.start(&at.caller, session, request).await?,
        Some(on_busy) => {
            let turns = &app.turns;
            let started = turns.start_unless_busy(&at.caller, session, request, on_busy);
            match waited(&app, &at.principal, started).await?? {
                Some(turn) => turn,
                None => return Ok(no_content()),
            }
        }
    };
    let mut response = created(!turn.replayed, &turn)?;
    if let Some(fresh) = fresh
        && turn.first_seq == 1
        && app.sessions.needs_token(&at.caller, &at.session).await
    {
        add_session_token(&mut response, &fresh);
    }
    Ok(response)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only turns with this status.
    status: Option<TurnStatus>,
    /// Only the turn of this request.
    request_id: Option<RequestId>,
    /// Whether to list redacted turns too.
    #[serde(default)]
    include_redacted: bool,
    /// The maximum number of turns.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the previous page.
    #[param(inline)]
    cursor: Option<Cursor>,
}

/// Lists a session's turns, oldest first.
///
/// With `status=finalized` a page holds the newest ones, oldest first.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/turns",
    operation_id = "listTurns",
    tag = "turns",
    params(SessionPath, ListQuery),
    responses(Copied<Turn>)
)]
pub(super) async fn list(State(app): State<App>, at: InSession<may::Read, ListQuery>) -> Answer {
    let query = ListTurns {
        status: at.query.status,
        request_id: at.query.request_id,
        include_redacted: at.query.include_redacted,
        cursor: at.query.cursor.map(Into::into),
        limit: at.query.limit.into(),
        newest: false,
    };
    let turns = &app.turns;
    if let Some(recent) = turns.recent(&at.caller, &at.session, &query).await? {
        return copied(&recent);
    }
    let (data, next_cursor) = turns.list(&at.caller, &at.session, query).await?;
    json(&Page { data, next_cursor })
}

/// Builds a page from the hot store's copy, which contains turns in the form that responses have (DESIGN §7).
fn copied(recent: &RecentTurns) -> Answer {
    let mut text = b"{\"data\":[".to_vec();
    text.extend(recent.turns.join(&b','));
    text.extend_from_slice(b"],\"next_cursor\":");
    serde_json::to_writer(&mut text, &recent.next_cursor)
        .map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))?;
    text.push(b'}');
    let response = json_text(text);
    Ok(match recent.as_of_seq {
        Some(seq) => as_of(response, seq),
        None => response,
    })
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowQuery {
    /// How many milliseconds to wait for the turn to close: a long poll.
    #[param(minimum = 0, maximum = 60_000, default = 0)]
    wait: Option<u64>,
}

/// Returns a turn.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}",
    operation_id = "getTurn",
    tag = "turns",
    params(TurnPath, ShowQuery),
    responses(Shown<Turn>)
)]
pub(super) async fn show(State(app): State<App>, at: InTurn<may::Read, ShowQuery>) -> Answer {
    let turn = || app.turns.get(&at.caller, &at.session, at.turn);
    let wait = wait(at.query.wait)?;
    if wait.is_zero() {
        return json(&turn().await?);
    }
    let _slot = app.limits().stream(at.principal.name())?;
    let following = &app.following;
    let closed = following.turn(&at.caller, &at.session, at.turn, wait);
    let turn = tokio::select! {
        closed = closed => closed?,
        () = app.stopped() => turn().await?,
        () = at.principal.ended() => return Err(Principal::no_longer_valid()),
    };
    json(&turn)
}

/// Ends a turn with an answer.
///
/// Without one, the turn's newest item of the channel `final` becomes the answer. The first end wins; repeating an
/// equal one returns it.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/finalize",
    operation_id = "finalizeTurn",
    tag = "turns",
    params(TurnPath),
    request_body(content = Option<FinalizeTurn>),
    responses(Written<Turn>)
)]
pub(super) async fn finalize(
    State(app): State<App>,
    at: InTurn<may::Write>,
    OptionalBody(request): OptionalBody<FinalizeTurn>,
) -> Answer {
    let turn = app
        .turns
        .finalize(&at.caller, at.session, at.turn, request)
        .await?;
    written(&turn)
}

/// If this process records the turn, waits until the recording has written what it has received; called before the turn
/// is ended. Does nothing if the caller may not read the turn.
async fn flush_recording(app: &App, at: &InTurn<may::Write>) {
    let turns = &app.turns;
    if app.recordings.records(at.turn) && turns.get(&at.caller, &at.session, at.turn).await.is_ok()
    {
        app.recordings.flush(at.turn).await;
    }
}

/// Ends a turn with an error, after what was shown so far.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/fail",
    operation_id = "failTurn",
    tag = "turns",
    params(TurnPath),
    request_body = FailTurn,
    responses(Written<Turn>)
)]
pub(super) async fn fail(
    State(app): State<App>,
    at: InTurn<may::Write>,
    Body(request): Body<FailTurn>,
) -> Answer {
    flush_recording(&app, &at).await;
    let turn = app
        .turns
        .fail(&at.caller, at.session, at.turn, request)
        .await?;
    written(&turn)
}

/// Ends a turn at the user's request, after what was shown so far.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/cancel",
    operation_id = "cancelTurn",
    tag = "turns",
    params(TurnPath),
    request_body(content = Option<CancelTurn>),
    responses(Written<Turn>)
)]
pub(super) async fn cancel(
    State(app): State<App>,
    at: InTurn<may::Write>,
    OptionalBody(request): OptionalBody<CancelTurn>,
) -> Answer {
    flush_recording(&app, &at).await;
    let turn = app
        .turns
        .cancel(&at.caller, at.session, at.turn, request)
        .await?;
    written(&turn)
}

/// Erases the contents of a turn; the record that it existed, and who redacted it, stays.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/redact",
    operation_id = "redactTurn",
    tag = "turns",
    params(TurnPath),
    request_body = RedactTurn,
    responses(Written<Turn>)
)]
pub(super) async fn redact(
    State(app): State<App>,
    at: InTurn<may::Redact>,
    Body(request): Body<RedactTurn>,
) -> Answer {
    let turn = app
        .erasure
        .redact_turn(&at.caller, at.session, at.turn, request)
        .await?;
    written(&turn)
}

/// Replaces a closed turn by a corrected one; the old one is not edited.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/replace",
    operation_id = "replaceTurn",
    tag = "turns",
    params(TurnPath),
    request_body = crate::openapi::ReplaceTurn,
    responses(Created<Turn>)
)]
pub(super) async fn replace(
    State(app): State<App>,
    at: InTurn<may::Write>,
    Body(request): Body<ReplaceTurn>,
) -> Answer {
    let turn = app
        .turns
        .replace(&at.caller, at.session, at.turn, request)
        .await?;
    created(!turn.replayed, &turn)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct OfIdentityQuery {
    /// The owner of the sessions.
    identity_id: IdentityId,
    /// Only turns with this status.
    status: Option<TurnStatus>,
    /// The maximum number of turns.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the previous page.
    #[param(inline)]
    cursor: Option<Cursor>,
}

/// Lists the turns of all sessions of an end user: newest session first, in each the newest turn first.
///
/// Replaced and redacted turns are left out. The work for a page is bounded: it may hold fewer turns than the limit,
/// even none, and still have a `next_cursor`. Another caller's identity looks as if it did not exist.
#[utoipa::path(
    get,
    path = "/api/v1/turns",
    operation_id = "listTurnsOfIdentity",
    tag = "turns",
    params(OfIdentityQuery),
    responses(Listed<Turn>)
)]
pub(super) async fn list_of_identity(
    State(app): State<App>,
    at: InTenant<may::Read, OfIdentityQuery>,
) -> Answer {
    let query = IdentityTurns {
        identity_id: at.query.identity_id,
        status: at.query.status,
        cursor: at.query.cursor.map(Into::into),
        limit: at.query.limit.into(),
    };
    let (data, next_cursor) = app.turns.of_identity(&at.caller, query).await?;
    json(&Page { data, next_cursor })
}
