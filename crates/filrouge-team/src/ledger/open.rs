//! Opens a team's session: a new one, or one that continues (DESIGN §11).

use std::sync::{Arc, Mutex};

use filrouge_engine::{Caller, CreateSession, Engine, ListTurns, PatchSession};
use filrouge_types::{
    Channel, Checkpoint, ErrorCode, Failure, RawJson, Session, SessionId, SessionStatus, Timestamp,
    TurnStatus,
};
use serde::Deserialize;

use super::read::{self, ReadConversation};
use super::session_lease::SessionLease;
use super::turn::Progress;
use super::{
    CheckpointMember, CheckpointState, LedgerRecord, OpenOptions, OpenSession, SessionWriter, item,
};
use crate::context::Restored;
use crate::message::MessageId;
use crate::record::Status;
use crate::team::Team;

/// The number of newest turns that are checked for open ones. A team's session has at most one open turn, among its
/// newest.
const NEWEST_TURNS_CHECKED: usize = 8;

/// Metadata of a session that was imported from a snapshot.
#[derive(Deserialize)]
struct Origin {
    team: OriginTeam,
}

#[derive(Deserialize)]
struct OriginTeam {
    created_at: Timestamp,
}

/// The time at which a session was created; for an imported session, the time at which its original was created.
pub(crate) fn created_at(session: &Session) -> Timestamp {
    let origin: Result<Origin, _> = serde_json::from_str(session.metadata.as_str());
    origin.map_or(session.created_at, |origin| origin.team.created_at)
}

/// Parses a session's id.
///
/// # Errors
/// `session_not_found`: the text is not a valid id, so no session has it.
pub(crate) fn parse_session_id(id: &str) -> Result<SessionId, Failure> {
    SessionId::new(id)
        .map_err(|e| ErrorCode::SessionNotFound.failure(format!("no session {id:?}: {e}")))
}

/// Checks that the tenant records all items, and not only questions and answers.
pub(super) fn check_records_all(engine: &Engine, caller: &Caller) -> Result<(), Failure> {
    if engine.turns.records_all(caller.tenant()) {
        return Ok(());
    }
    let detail = "this tenant records only questions and answers: a team's conversation could not be restored";
    Err(Failure::new(ErrorCode::Invalid, detail)
        .with_hint("set record to all for this tenant, or use another one"))
}

/// Checks that a session belongs to this team.
///
/// # Errors
/// `invalid`: it belongs to another team, or to none.
pub(crate) fn check_team(session: &Session, team_id: &str) -> Result<(), Failure> {
    let id = session.session_id.as_str();
    let detail = match session.team_id.as_deref() {
        Some(own) if own == team_id => return Ok(()),
        Some(other) => format!("session {id:?} belongs to team {other:?}, not to {team_id:?}"),
        None => format!("session {id:?} belongs to no team"),
    };
    Err(Failure::new(ErrorCode::Invalid, detail)
        .with_hint("deploy that team, or resume one of this team's sessions"))
}

/// Creates a session of a team and opens it.
///
/// # Errors
/// `invalid` if the tenant records only questions and answers (`record = conversation`), `journal_off`, and the
/// ledger's errors.
pub async fn open_new(
    engine: Arc<Engine>,
    caller: Caller,
    team: &Team,
    options: OpenOptions,
) -> Result<OpenSession, Failure> {
    check_records_all(&engine, &caller)?;
    let new = CreateSession {
        team_id: Some(team.id.clone()),
        title: Some(team.name.clone()),
        ..CreateSession::default()
    };
    let session = engine.sessions.create(&caller, new).await?.into_value();
    open(engine, caller, team, session, options).await
}

/// Opens a session of this team in its last state. A message that was still growing when the previous process was
/// killed is kept as interrupted, and the turn that was open is closed as interrupted. A session that had ended becomes
/// active again.
///
/// # Errors
/// `session_not_found`, `session_erased`; `invalid` if the session belongs to another team; `lease_timeout`, with the
/// holder and the end of the lease, if someone else has the session open (a holder whose process is known to have
/// exited does not count); and as [`open_new`].
pub async fn open_existing(
    engine: Arc<Engine>,
    caller: Caller,
    team: &Team,
    id: &str,
    options: OpenOptions,
) -> Result<OpenSession, Failure> {
    check_records_all(&engine, &caller)?;
    let id = parse_session_id(id)?;
    let session = engine.sessions.get(&caller, &id).await?;
    check_team(&session, &team.id)?;
    open(engine, caller, team, session, options).await
}

/// Reads a team's session in its present state, whether or not it is open elsewhere. A message that is still growing is
/// left out.
///
/// # Errors
/// `session_not_found`, `session_erased`; `invalid` if it belongs to another team; and the ledger's errors.
pub async fn read_session(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
    id: &str,
) -> Result<Restored, Failure> {
    let (_, conversation) = read_session_and_conversation(engine, caller, team_id, id).await?;
    Ok(conversation.into_restored())
}

/// As [`read_session`]; also returns the session.
pub(crate) async fn read_session_and_conversation(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
    id: &str,
) -> Result<(Session, ReadConversation), Failure> {
    let id = parse_session_id(id)?;
    let session = engine.sessions.get(caller, &id).await?;
    check_team(&session, team_id)?;
    let conversation = read::read_conversation(engine, caller, &id, 0).await?;
    Ok((session, conversation))
}

/// Opens a session that belongs to the team: acquires its lease, ends the unfinished messages and turns of the
/// previous holder, and reads it.
pub(super) async fn open(
    engine: Arc<Engine>,
    caller: Caller,
    team: &Team,
    session: Session,
    options: OpenOptions,
) -> Result<OpenSession, Failure> {
    let caller = caller.with_fence(None);
    let id = session.session_id.clone();
    let session = match session.status {
        // A closed session refuses leases, so it becomes active first.
        SessionStatus::Closed => {
            let reactivate = PatchSession {
                status: Some(SessionStatus::Active),
                ..PatchSession::default()
            };
            engine
                .sessions
                .patch(&caller, id.clone(), reactivate, None)
                .await?
                .into_value()
        }
        SessionStatus::Active | SessionStatus::Paused => session,
    };
    let lease_options = (&*options.holder, options.ttl, options.wait);
    let lease = SessionLease::acquire(&engine, &caller, &id, lease_options).await?;
    let lease = Arc::new(lease);
    match open_with_lease(engine, &lease, team, session, options).await {
        Ok(opened) => Ok(opened),
        Err(failure) => {
            if let Err(error) = lease.release().await {
                tracing::warn!(session_id = %id, code = error.code.as_str(), "the session was not released");
            }
            Err(failure)
        }
    }
}

/// Opens a session whose lease this process has. If it fails, the caller releases the lease.
async fn open_with_lease(
    engine: Arc<Engine>,
    lease: &Arc<SessionLease>,
    team: &Team,
    session: Session,
    options: OpenOptions,
) -> Result<OpenSession, Failure> {
    let heartbeat = lease.heartbeat();
    let id = session.session_id.clone();
    let interrupted = end_unfinished(&engine, lease, &id).await?;
    let caller = lease.caller()?;
    let mut conversation = read::read_conversation(&engine, &caller, &id, 0).await?;
    let (last_seq, left_out) = (conversation.last_seq, conversation.left_out);
    // The newest recorded state, unless something was written after it.
    let state = match engine.calls.latest_checkpoint(&caller, &id).await {
        Ok(checkpoint) if checkpoint.seq == last_seq => {
            checkpoint_state(&checkpoint).map(|content| content.state)
        }
        Err(failure) if failure.code != ErrorCode::CheckpointNotFound => return Err(failure),
        _ => None,
    };
    let redacted = std::mem::take(&mut conversation.redacted);
    let restored = conversation.into_restored();
    let context = &restored.context;
    let members = team.members.iter().map(|member| CheckpointMember {
        id: member.id.clone(),
        name: member.name.clone(),
    });
    let writer = SessionWriter {
        session: id.clone(),
        lease: lease.clone(),
        team_id: team.id.clone(),
        members: members.collect(),
        created_at: created_at(&session),
        snapshots: options.snapshots,
        warnings: Mutex::default(),
        progress: tokio::sync::Mutex::new(Progress {
            task: context.team_task.clone(),
            state: state.clone(),
            count: context.messages.len() as u64,
            counted_to: last_seq,
            ..Progress::default()
        }),
        engine,
    };
    if session.status != SessionStatus::Active {
        writer.set_status(SessionStatus::Active).await?;
    }
    Ok(OpenSession {
        created_at: writer.created_at,
        restored,
        status: state.as_ref().map_or(Status::Active, |s| s.status),
        waiting_for: state.and_then(|s| s.waiting_for),
        interrupted,
        left_out,
        redacted,
        record: LedgerRecord {
            writer: Arc::new(writer),
            _heartbeat: heartbeat,
        },
    })
}

/// Records the unfinished messages of the previous holder, and closes the turns that it left open. Returns the ids of
/// the messages that were interrupted.
async fn end_unfinished(
    engine: &Arc<Engine>,
    lease: &SessionLease,
    id: &SessionId,
) -> Result<Vec<MessageId>, Failure> {
    let caller = lease.caller()?;
    let mut interrupted = Vec::new();
    for draft in engine.streams.unfinished(&caller, id).await? {
        let Some(message) = item::read_draft(draft.description.as_ref(), &draft.text) else {
            continue;
        };
        let item = item::to_item(&message, Channel::Partial, None)?;
        let mut utterance = engine.streams.continue_utterance(id, &draft);
        match utterance.append(&caller, vec![item]).await {
            Ok(_) => {}
            // A message that cannot become an item under its own id stays a draft. When the turn ends, the draft
            // becomes an item with an id of the ledger's.
            Err(failure) if failure.code.status() < 500 => {
                tracing::warn!(session_id = %id, code = failure.code.as_str(), "an unfinished message becomes an item with an id that is not the message's");
            }
            Err(failure) => return Err(failure),
        }
        if message.cut.is_some() {
            interrupted.push(message.id);
        }
    }
    let query = ListTurns {
        newest: true,
        limit: NEWEST_TURNS_CHECKED,
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

/// The content of a team's checkpoint; `None` for one that another program wrote.
pub(crate) fn checkpoint_state(checkpoint: &Checkpoint) -> Option<CheckpointState> {
    serde_json::from_str(checkpoint.state.as_str()).ok()
}

/// The metadata of an imported session, which records when the original session was created.
pub(super) fn origin_metadata(created_at: Timestamp) -> RawJson {
    RawJson::from_checked(format!(r#"{{"team":{{"created_at":"{created_at}"}}}}"#))
}
