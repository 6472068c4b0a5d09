//! Opening a team's session: a new one, or one that goes on (DESIGN §11).

use std::sync::{Arc, Mutex};

use filrouge_engine::Caller;
use filrouge_engine::{CreateSession, Engine, ListTurns, PatchSession};
use filrouge_types::{
    Channel, Checkpoint, ErrorCode, Failure, RawJson, Session, SessionId, SessionStatus, Timestamp,
    TurnStatus,
};
use serde::{Deserialize, Serialize};

use super::hold::Hold;
use super::read::{self, Conversation};
use super::turn::Keeping;
use super::{LedgerRecord, OpenOptions, Opened, Shared, ToldState, item, members_of};
use crate::context::Restored;
use crate::message::MessageId;
use crate::record::{State, Status};
use crate::team::Team;

/// The newest turns that are looked at for open ones: a session has one at a time.
const NEWEST_TURNS: usize = 8;

/// Metadata of a session that was brought from a snapshot.
#[derive(Serialize, Deserialize)]
struct Origin {
    team: OriginTeam,
}

#[derive(Serialize, Deserialize)]
struct OriginTeam {
    created_at: Timestamp,
}

/// When a session began: where it was brought from, if it was.
pub(crate) fn created_at(session: &Session) -> Timestamp {
    let origin: Result<Origin, _> = serde_json::from_str(session.metadata.as_str());
    origin.map_or(session.created_at, |origin| origin.team.created_at)
}

/// A session's id as one.
///
/// # Errors
/// `session_not_found`: no session is called so.
pub(crate) fn session_id(id: &str) -> Result<SessionId, Failure> {
    SessionId::new(id).map_err(|e| {
        Failure::new(
            ErrorCode::SessionNotFound,
            format!("no session {id:?}: {e}"),
        )
    })
}

/// That all that is said is recorded.
pub(super) fn check_records_all(engine: &Engine, caller: &Caller) -> Result<(), Failure> {
    if engine.turns.records_all(caller.tenant()) {
        return Ok(());
    }
    let what = "of this tenant questions and answers alone are recorded: a team's conversation could not be restored";
    Err(Failure::new(ErrorCode::Invalid, what)
        .with_hint("set record to all for this tenant, or use another one"))
}

/// That a session is one of this team.
///
/// # Errors
/// `invalid`: it is of another team, or of none.
pub(crate) fn check_team(session: &Session, team_id: &str) -> Result<(), Failure> {
    if session.team_id.as_deref() == Some(team_id) {
        return Ok(());
    }
    let id = session.session_id.as_str();
    let what = match session.team_id.as_deref() {
        Some(other) => format!("session {id:?} is of team {other:?}, not of {team_id:?}"),
        None => format!("session {id:?} is of no team"),
    };
    Err(Failure::new(ErrorCode::Invalid, what)
        .with_hint("deploy that team, or resume one of this team's sessions"))
}

/// Makes a session of a team's and opens it.
///
/// # Errors
/// `invalid` where not all is recorded (`record = conversation`), `journal_off`, and the ledger's.
pub async fn open_new(
    engine: Arc<Engine>,
    caller: Caller,
    team: &Team,
    options: OpenOptions,
) -> Result<Opened, Failure> {
    check_records_all(&engine, &caller)?;
    let new = CreateSession {
        team_id: Some(team.id.clone()),
        title: Some(team.name.clone()),
        ..CreateSession::default()
    };
    let session = engine.sessions.create(&caller, new).await?.into_value();
    open(engine, caller, team, session, options).await
}

/// Opens a session of this team's, as it was left: what was being said when its process was killed is in it, cut, and the
/// turn that was open is closed as interrupted. A session that has ended goes on.
///
/// # Errors
/// `session_not_found`, `session_erased`; `invalid` when it is of another team; `lease_timeout` naming who holds it and
/// until when (a process that was killed holds nothing where the ledger can tell); and as [`open_new`].
pub async fn open_existing(
    engine: Arc<Engine>,
    caller: Caller,
    team: &Team,
    id: &str,
    options: OpenOptions,
) -> Result<Opened, Failure> {
    check_records_all(&engine, &caller)?;
    let id = session_id(id)?;
    let session = engine.sessions.get(&caller, &id).await?;
    check_team(&session, &team.id)?;
    open(engine, caller, team, session, options).await
}

/// Reads a session of a team's as it stands, whoever has it open; what is being said now is not in it.
///
/// # Errors
/// `session_not_found`, `session_erased`; `invalid` when it is of another team; and the ledger's.
pub async fn read_session(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
    id: &str,
) -> Result<Restored, Failure> {
    let (_, conversation) = read_with(engine, caller, team_id, id).await?;
    Ok(conversation.into_restored())
}

/// As [`read_session`], with the session.
pub(crate) async fn read_with(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
    id: &str,
) -> Result<(Session, Conversation), Failure> {
    let id = session_id(id)?;
    let session = engine.sessions.get(caller, &id).await?;
    check_team(&session, team_id)?;
    let conversation = read::read(engine, caller, &id, 0).await?;
    Ok((session, conversation))
}

/// Opens a session that is of the team.
pub(super) async fn open(
    engine: Arc<Engine>,
    caller: Caller,
    team: &Team,
    session: Session,
    options: OpenOptions,
) -> Result<Opened, Failure> {
    let caller = caller.with_hold(None);
    let id = session.session_id.clone();
    let session = match session.status {
        // Nobody takes the lease of a session that has ended.
        SessionStatus::Closed => {
            let again = PatchSession {
                status: Some(SessionStatus::Active),
                ..PatchSession::default()
            };
            engine
                .sessions
                .patch(&caller, id.clone(), again, None)
                .await?
                .into_value()
        }
        SessionStatus::Active | SessionStatus::Paused => session,
    };
    let asked = (&*options.holder, options.ttl, options.wait);
    let hold = Arc::new(Hold::take(&engine, &caller, &id, asked).await?);
    match held(engine, &hold, team, session, options).await {
        Ok(opened) => Ok(opened),
        Err(failure) => {
            if let Err(held) = hold.release().await {
                tracing::warn!(session_id = %id, code = held.code.as_str(), "the session was not given free");
            }
            Err(failure)
        }
    }
}

async fn held(
    engine: Arc<Engine>,
    hold: &Arc<Hold>,
    team: &Team,
    session: Session,
    options: OpenOptions,
) -> Result<Opened, Failure> {
    let heartbeat = hold.heartbeat();
    let id = session.session_id.clone();
    let interrupted = end_what_was_left(&engine, hold, &id).await?;
    let caller = hold.caller()?;
    let mut conversation = read::read(&engine, &caller, &id, 0).await?;
    let (last_seq, left_out) = (conversation.last_seq, conversation.left_out);
    let state = newest_state(&engine, &caller, &id, last_seq).await?;
    let redacted = std::mem::take(&mut conversation.redacted);
    let restored = conversation.into_restored();
    let context = &restored.context;
    let shared = Shared {
        session: id.clone(),
        hold: hold.clone(),
        team_id: team.id.clone(),
        members: members_of(team),
        created_at: created_at(&session),
        snapshots: options.snapshots,
        warnings: Mutex::default(),
        keeping: tokio::sync::Mutex::new(Keeping::new(
            context.team_task.clone(),
            state.clone(),
            (context.messages.len() as u64, last_seq),
        )),
        engine,
    };
    if session.status != SessionStatus::Active {
        shared.status(SessionStatus::Active).await?;
    }
    Ok(Opened {
        created_at: shared.created_at,
        restored,
        status: state.as_ref().map_or(Status::Active, |s| s.status),
        waiting_for: state.and_then(|s| s.waiting_for),
        interrupted,
        left_out,
        redacted,
        record: LedgerRecord {
            shared: Arc::new(shared),
            _heartbeat: heartbeat,
        },
    })
}

/// Puts what was being said by who held the session before, and closes the turns that it left open.
async fn end_what_was_left(
    engine: &Arc<Engine>,
    hold: &Hold,
    id: &SessionId,
) -> Result<Vec<MessageId>, Failure> {
    let caller = hold.caller()?;
    let mut interrupted = Vec::new();
    for left in engine.streams.unfinished(&caller, id).await? {
        let Some(message) = item::read_draft(left.about.as_ref(), &left.text) else {
            continue;
        };
        let item = item::item_of(&message, Channel::Partial, None)?;
        let mut utterance = engine.streams.take_over(id, &left);
        match utterance.append(&caller, vec![item]).await {
            Ok(_) => {}
            // What cannot be an item under its own name stays the draft's, and is an item of it once the turn ends.
            Err(failure) if failure.code.status() < 500 => {
                tracing::warn!(session_id = %id, code = failure.code.as_str(), "what was left unsaid is kept under its draft's name");
            }
            Err(failure) => return Err(failure),
        }
        if message.cut.is_some() {
            interrupted.push(message.id);
        }
    }
    let query = ListTurns {
        newest: true,
        limit: NEWEST_TURNS,
        ..ListTurns::default()
    };
    let (turns, _) = engine.turns.list(&caller, id, query).await?;
    for turn in turns.iter().filter(|t| t.status == TurnStatus::Open) {
        let done = engine
            .turns
            .interrupt(&caller, id.clone(), turn.turn_id)
            .await?;
        tracing::info!(session_id = %id, turn_id = %turn.turn_id, done, "a turn that was left open was closed");
    }
    Ok(interrupted)
}

/// The state that was kept last, if nothing was written behind it.
async fn newest_state(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
    last_seq: u64,
) -> Result<Option<State>, Failure> {
    match engine.calls.latest_checkpoint(caller, id).await {
        Ok(checkpoint) if checkpoint.seq == last_seq => {
            Ok(told_state(&checkpoint).map(|told| told.state))
        }
        Ok(_) => Ok(None),
        Err(failure) if failure.code == ErrorCode::CheckpointNotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// What a checkpoint of a team tells; `None` of one that another program has put.
pub(crate) fn told_state(checkpoint: &Checkpoint) -> Option<ToldState> {
    serde_json::from_str(checkpoint.state.as_str()).ok()
}

/// The metadata of a session that is brought from elsewhere.
///
/// # Errors
/// None but of the program's own.
pub(super) fn origin(created_at: Timestamp) -> Result<RawJson, Failure> {
    let team = OriginTeam { created_at };
    RawJson::write(&Origin { team })
        .map_err(|e| Failure::new(ErrorCode::Internal, format!("metadata as JSON: {e}")))
}
