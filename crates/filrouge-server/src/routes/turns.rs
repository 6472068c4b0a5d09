//! `/api/v1/sessions/{session_id}/turns`.

use axum::extract::State;
use filrouge_engine::scopes::RecentTurns;
use filrouge_engine::{
    CancelTurn, FailTurn, FinalizeTurn, ListTurns, RedactTurn, ReplaceTurn, StartTurn,
};
use filrouge_types::{ErrorCode, RequestId, Turn, TurnStatus};
use serde::Deserialize;
use utoipa::IntoParams;

use super::busy::{OnOpenTurn, waited};
use crate::app::App;
use crate::openapi::{
    Answering, Called, Copied, Created, Ending, InOpenSession, MakingSession, OfSession, OfTurn,
    OrNothing, Problems, Redacting, Replacing, SessionPath, Shown, Starting, Stored, TurnPath,
    UnderLease, WithBody, Writing, Written,
};
use filrouge_http::access::{Principal, may, tell_session_token};
use filrouge_http::answer::{Answer, Page, as_of, created, json, json_text, no_content, written};
use filrouge_http::extract::{
    Body, Cursor, InSession, InTurn, Limit, NoParameters, OptionalBody, Query, wait,
};
use filrouge_http::problem::Problem;

/// Starts a turn: the question is written before the work begins.
///
/// A session that is not there is made. With `items` and `answer_neutral` a whole finished turn is recorded in one call.
/// The same `request_id` gives the first turn again, with `differs: true` when the body is another one; while it is open,
/// `on_busy` says whether to wait for its end.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns",
    operation_id = "startTurn",
    tag = "turns",
    params(SessionPath, OnOpenTurn),
    request_body = StartTurn,
    responses(OrNothing<Created<Turn>>, Problems<(Called, Stored, WithBody, Writing, MakingSession, InOpenSession, Starting, UnderLease)>)
)]
pub(super) async fn start(
    State(app): State<App>,
    mut at: InSession<may::Write>,
    Query(query): Query<OnOpenTurn>,
    Body(request): Body<StartTurn>,
) -> Answer {
    let on_busy = query.policy()?;
    let fresh = app.engine().sessions.fresh_token(&mut at.caller)?;
    let session = at.session.clone();
    let turn = match on_busy {
        None => {
            let engine = app.engine();
            engine.turns.start(&at.caller, session, request).await?
        }
        Some(on_busy) => {
            let engine = app.engine();
            let started = engine
                .turns
                .start_unless_busy(&at.caller, session, request, on_busy);
            match waited(&app, &at.principal, started).await?? {
                Some(turn) => turn,
                None => return Ok(no_content()),
            }
        }
    };
    let mut response = created(!turn.replayed, &turn)?;
    if let Some(fresh) = fresh
        && turn.first_seq == 1
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

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Those that stand so.
    status: Option<TurnStatus>,
    /// The one of this request.
    request_id: Option<RequestId>,
    /// Whether redacted ones are listed too.
    #[serde(default)]
    include_redacted: bool,
    /// At most so many.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the page before.
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
    responses(Copied<Turn>, Problems<(Called, Stored, OfSession)>)
)]
pub(super) async fn list(
    State(app): State<App>,
    at: InSession<may::Read>,
    Query(query): Query<ListQuery>,
) -> Answer {
    let query = ListTurns {
        status: query.status,
        request_id: query.request_id,
        include_redacted: query.include_redacted,
        cursor: query.cursor.map(Into::into),
        limit: query.limit.into(),
        newest: false,
    };
    let turns = &app.engine().turns;
    if let Some(recent) = turns.recent(&at.caller, &at.session, &query).await? {
        return copied(&recent);
    }
    let (data, next_cursor) = turns.list(&at.caller, &at.session, query).await?;
    json(&Page { data, next_cursor })
}

/// A page out of a copy, which holds turns as they are answered (DESIGN §7).
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
    /// Wait so many milliseconds for the turn to close: a long poll.
    #[param(minimum = 0, maximum = 60_000, default = 0)]
    wait: Option<u64>,
}

/// Gives a turn.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}",
    operation_id = "getTurn",
    tag = "turns",
    params(TurnPath, ShowQuery),
    responses(Shown<Turn>, Problems<(Called, Stored, OfSession, OfTurn)>)
)]
pub(super) async fn show(
    State(app): State<App>,
    at: InTurn<may::Read>,
    Query(query): Query<ShowQuery>,
) -> Answer {
    let engine = app.engine();
    let turn = || engine.turns.get(&at.caller, &at.session, at.turn);
    let wait = wait(query.wait)?;
    if wait.is_zero() {
        return json(&turn().await?);
    }
    let _slot = app.limits().stream(at.principal.name())?;
    let closed = engine
        .following
        .turn(&at.caller, &at.session, at.turn, wait);
    let turn = tokio::select! {
        closed = closed => closed?,
        () = app.stopped() => turn().await?,
        () = at.principal.ended() => return Err(Principal::no_longer_valid()),
    };
    json(&turn)
}

/// Ends a turn with an answer.
///
/// Without one, the turn's newest item of the channel `final` is promoted. The first end wins; an equal one gives it again.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/finalize",
    operation_id = "finalizeTurn",
    tag = "turns",
    params(TurnPath),
    request_body(content = Option<FinalizeTurn>),
    responses(Written<Turn>, Problems<(Called, Stored, WithBody, Writing, OfSession, OfTurn, Ending, (Answering, UnderLease))>)
)]
pub(super) async fn finalize(
    State(app): State<App>,
    at: InTurn<may::Write>,
    _: Query<NoParameters>,
    OptionalBody(request): OptionalBody<FinalizeTurn>,
) -> Answer {
    let turn = app
        .engine()
        .turns
        .finalize(&at.caller, at.session, at.turn, request)
        .await?;
    written(&turn)
}

/// Before a turn is ended that is recorded here, what has come is written: for those alone whose turn it is.
async fn flush_recording(app: &App, at: &InTurn<may::Write>) {
    let turns = &app.engine().turns;
    if app.recordings().records(at.turn)
        && turns.get(&at.caller, &at.session, at.turn).await.is_ok()
    {
        app.recordings().flush(at.turn).await;
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
    responses(Written<Turn>, Problems<(Called, Stored, WithBody, Writing, OfSession, OfTurn, Ending, UnderLease)>)
)]
pub(super) async fn fail(
    State(app): State<App>,
    at: InTurn<may::Write>,
    _: Query<NoParameters>,
    Body(request): Body<FailTurn>,
) -> Answer {
    flush_recording(&app, &at).await;
    let turn = app
        .engine()
        .turns
        .fail(&at.caller, at.session, at.turn, request)
        .await?;
    written(&turn)
}

/// Ends a turn by the user's wish, after what was shown so far.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/cancel",
    operation_id = "cancelTurn",
    tag = "turns",
    params(TurnPath),
    request_body(content = Option<CancelTurn>),
    responses(Written<Turn>, Problems<(Called, Stored, WithBody, Writing, OfSession, OfTurn, Ending, UnderLease)>)
)]
pub(super) async fn cancel(
    State(app): State<App>,
    at: InTurn<may::Write>,
    _: Query<NoParameters>,
    OptionalBody(request): OptionalBody<CancelTurn>,
) -> Answer {
    flush_recording(&app, &at).await;
    let turn = app
        .engine()
        .turns
        .cancel(&at.caller, at.session, at.turn, request)
        .await?;
    written(&turn)
}

/// Erases the contents of a turn; that it was there, and who redacted it, stays.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/redact",
    operation_id = "redactTurn",
    tag = "turns",
    params(TurnPath),
    request_body = RedactTurn,
    responses(Written<Turn>, Problems<(Called, Stored, WithBody, Writing, OfSession, OfTurn, Redacting)>)
)]
pub(super) async fn redact(
    State(app): State<App>,
    at: InTurn<may::Redact>,
    _: Query<NoParameters>,
    Body(request): Body<RedactTurn>,
) -> Answer {
    let turn = app
        .engine()
        .erasure
        .redact_turn(&at.caller, at.session, at.turn, request)
        .await?;
    written(&turn)
}

/// Replaces a closed turn by a corrected one; nothing of the old one is edited.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/replace",
    operation_id = "replaceTurn",
    tag = "turns",
    params(TurnPath),
    request_body = crate::openapi::ReplaceTurn,
    responses(Created<Turn>, Problems<(Called, Stored, WithBody, Writing, OfSession, OfTurn, InOpenSession, (Starting, Replacing, UnderLease))>)
)]
pub(super) async fn replace(
    State(app): State<App>,
    at: InTurn<may::Write>,
    _: Query<NoParameters>,
    Body(request): Body<ReplaceTurn>,
) -> Answer {
    let turn = app
        .engine()
        .turns
        .replace(&at.caller, at.session, at.turn, request)
        .await?;
    created(!turn.replayed, &turn)
}
