//! `/api/v1/sessions/{session_id}/turns` and `/api/v1/turns`.

use std::time::Instant;

use filrouge_engine::scopes::RecentTurns;
use filrouge_engine::{
    CancelTurn, FailTurn, FinalizeTurn, IdentityTurns, ListTurns, RedactTurn, ReplaceTurn,
    StartTurn,
};
use filrouge_types::{ErrorCode, IdentityId, RequestId, Turn, TurnStatus};
use serde::Deserialize;
use utoipa::IntoParams;

use super::busy::{OpenTurnQuery, run_while_valid};
use crate::app::App;
use crate::openapi::{
    CopyPageResponse, CreatedResponse, OrNoContent, PageResponse, StateResponse, WriteResponse,
};
use filrouge_http::access::{Principal, add_session_token, may};
use filrouge_http::extract::{
    Body, Cursor, Limit, OptionalBody, SessionAccess, TenantAccess, TurnAccess, wait,
};
use filrouge_http::problem::Problem;
use filrouge_http::response::{
    RouteResult, create_response, created, json, mark_hot, no_content, page, text, written,
};
use filrouge_http::{Load, log_load};

/// Starts a turn: the question is written before the work begins.
///
/// A missing session is created. With `items` and `answer_neutral`, or with an item of channel `final` and `finalize`,
/// one call records a complete finished turn.
/// Repeating the `request_id` returns the first turn, with `differs: true` when the body differs; while it is open,
/// `on_busy` says whether to wait for its end. With `expected_seq`, a turn is started only if the session's newest seq
/// is equal.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns",
    params(OpenTurnQuery),
    request_body = StartTurn,
    responses(OrNoContent<CreatedResponse<Turn>>)
)]
pub(super) async fn start_turn(
    app: App,
    mut access: SessionAccess<may::Write, OpenTurnQuery>,
    Body(request): Body<StartTurn>,
) -> RouteResult {
    let on_busy = access.query.on_busy()?;
    let new_token = app.sessions.generate_token(&mut access.caller)?;
    let session = access.session.clone();
    let turn = match on_busy {
        None => app.turns.start(&access.caller, session, request).await?,
        Some(on_busy) => {
            let turns = &app.turns;
            let started = turns.start_unless_busy(&access.caller, session, request, on_busy);
            match run_while_valid(&app, (&access.principal, &access.caller), started).await?? {
                Some(turn) => turn,
                None => return Ok(no_content()),
            }
        }
    };
    let mut response = create_response(!turn.replayed, &turn)?;
    let sessions = &app.sessions;
    if let Some(new_token) = new_token
        && turn.first_seq == 1
        && sessions.needs_token(&access.caller, &access.session).await
    {
        add_session_token(&mut response, &new_token);
    }
    Ok(response)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnsQuery {
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
    params(TurnsQuery),
    responses(CopyPageResponse<Turn>)
)]
pub(super) async fn list_turns(
    app: App,
    access: SessionAccess<may::Read, TurnsQuery>,
) -> RouteResult {
    let query = ListTurns {
        status: access.query.status,
        request_id: access.query.request_id,
        include_redacted: access.query.include_redacted,
        cursor: access.query.cursor.map(Into::into),
        limit: access.query.limit.into(),
        newest: false,
    };
    let (turns, caller, session) = (&app.turns, &access.caller, &access.session);
    let started_at = Instant::now();
    let log = |count: usize| {
        let load = Load {
            turns: Some(count),
            ..Load::default()
        };
        log_load(caller, session, "turns", load, started_at);
    };
    if let Some(recent) = turns.recent(caller, session, &query).await? {
        log(recent.turns.len());
        return page_from_copy(&recent);
    }
    let read = turns.list(caller, session, query).await?;
    log(read.0.len());
    page(async { Ok(read) }).await
}

/// Builds a page from the hot store's copy, which contains turns in the form that responses have (DESIGN §7).
fn page_from_copy(recent: &RecentTurns) -> RouteResult {
    let mut json = b"{\"data\":[".to_vec();
    json.extend(recent.turns.join(&b','));
    json.extend_from_slice(b"],\"next_cursor\":");
    serde_json::to_writer(&mut json, &recent.next_cursor)
        .map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))?;
    json.push(b'}');
    let response = text("application/json", json);
    Ok(match recent.as_of_seq {
        Some(seq) => mark_hot(response, seq),
        None => response,
    })
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnQuery {
    /// How many milliseconds to wait for the turn to close: a long poll.
    #[param(minimum = 0, maximum = 60_000, default = 0)]
    wait: Option<u64>,
}

/// Returns a turn.
///
/// Its items are a list of their own.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}",
    params(TurnQuery),
    responses(StateResponse<Turn>)
)]
pub(super) async fn get_turn(app: App, access: TurnAccess<may::Read, TurnQuery>) -> RouteResult {
    let read_turn = || app.turns.get(&access.caller, &access.session, access.turn);
    let wait = wait(access.query.wait)?;
    if wait.is_zero() {
        return json(&read_turn().await?);
    }
    let _slot = app.limits().open_stream(&access.caller)?;
    let following = &app.following;
    let closed = following.turn(&access.caller, &access.session, access.turn, wait);
    let turn = tokio::select! {
        closed = closed => closed?,
        () = app.wait_until_stopping() => read_turn().await?,
        () = access.principal.wait_until_ended() => return Err(Principal::credentials_ended()),
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
    request_body(content = Option<FinalizeTurn>),
    responses(WriteResponse<Turn>)
)]
pub(super) async fn finalize_turn(
    app: App,
    access: TurnAccess<may::Write>,
    OptionalBody(request): OptionalBody<FinalizeTurn>,
) -> RouteResult {
    let turns = &app.turns;
    written(turns.finalize(&access.caller, access.session, access.turn, request)).await
}

/// If this process records the turn, waits until the recording has written what it has received; called before the turn
/// is ended. Does nothing if the caller may not read the turn.
async fn flush_recording(app: &App, access: &TurnAccess<may::Write>) {
    let turns = &app.turns;
    if app.recordings.is_recording(access.turn)
        && turns
            .get(&access.caller, &access.session, access.turn)
            .await
            .is_ok()
    {
        app.recordings.flush(access.turn).await;
    }
}

/// Ends a turn with an error, after what was shown so far.
///
/// What was shown stays, as `partial` and `error` items. Repeating the request changes nothing.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/fail",
    request_body = FailTurn,
    responses(WriteResponse<Turn>)
)]
pub(super) async fn fail_turn(
    app: App,
    access: TurnAccess<may::Write>,
    Body(request): Body<FailTurn>,
) -> RouteResult {
    flush_recording(&app, &access).await;
    let turns = &app.turns;
    written(turns.fail(&access.caller, access.session, access.turn, request)).await
}

/// Ends a turn at the user's request, after what was shown so far.
///
/// What was shown stays, as `partial` and `cancelled` items. Repeating the request changes nothing.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/cancel",
    request_body(content = Option<CancelTurn>),
    responses(WriteResponse<Turn>)
)]
pub(super) async fn cancel_turn(
    app: App,
    access: TurnAccess<may::Write>,
    OptionalBody(request): OptionalBody<CancelTurn>,
) -> RouteResult {
    flush_recording(&app, &access).await;
    let turns = &app.turns;
    written(turns.cancel(&access.caller, access.session, access.turn, request)).await
}

/// Erases the contents of a turn; the record that it existed, and who redacted it, stays.
///
/// This cannot be undone. The receipt says what was erased in each store.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/redact",
    request_body = RedactTurn,
    responses(WriteResponse<Turn>)
)]
pub(super) async fn redact_turn(
    app: App,
    access: TurnAccess<may::Redact>,
    Body(request): Body<RedactTurn>,
) -> RouteResult {
    let erasure = &app.erasure;
    written(erasure.redact_turn(&access.caller, access.session, access.turn, request)).await
}

/// Replaces a closed turn by a corrected one; the old one is not edited.
///
/// The new turn has the key `request_id`, so that a retry changes nothing. Lists show the new turn in the place of the
/// old one.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/replace",
    request_body = crate::openapi::ReplaceTurn,
    responses(CreatedResponse<Turn>)
)]
pub(super) async fn replace_turn(
    app: App,
    access: TurnAccess<may::Write>,
    Body(request): Body<ReplaceTurn>,
) -> RouteResult {
    let turns = &app.turns;
    created(turns.replace(&access.caller, access.session, access.turn, request)).await
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct IdentityQuery {
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
    params(IdentityQuery),
    responses(PageResponse<Turn>)
)]
pub(super) async fn list_turns_of_identity(
    app: App,
    access: TenantAccess<may::Read, IdentityQuery>,
) -> RouteResult {
    let query = IdentityTurns {
        identity_id: access.query.identity_id,
        status: access.query.status,
        cursor: access.query.cursor.map(Into::into),
        limit: access.query.limit.into(),
    };
    page(app.turns.of_identity(&access.caller, query)).await
}
