//! Imports a conversation that was kept elsewhere into the ledger (DESIGN §11). Existing items stay unchanged.

use std::collections::HashSet;
use std::sync::Arc;

use filrouge_engine::{Caller, CreateSession, Engine, ImportedTurn};
use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, Result, Session, SessionId, TurnStatus,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::item::to_item;
use super::open::{check_records_all, open, origin_metadata};
use super::turn::Progress;
use super::writes::request_id;
use super::{OpenOptions, SessionWriter};
use crate::message::{Cut, Message, MessageId, SpeakerKind};
use crate::record::{Record, State, Status};
use crate::snapshot::SessionSnapshot;
use crate::team::Team;

/// The maximum number of messages that one turn of an import has.
const TURN_MESSAGES_MAX: usize = 1000;
/// The maximum number of bytes of an id that are used without hashing, in a turn's key and in the id of an imported
/// session.
const KEY_BYTES_MAX: usize = 200;

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Imported {
    /// The session's id: the snapshot's, or another one if a session of another team or owner has that id.
    pub session_id: Box<str>,
    /// Messages that were new to the ledger.
    pub added: u64,
    /// Messages that the ledger already had.
    pub known: u64,
    /// The ids of messages that the ledger has with different content; the ledger keeps its own.
    pub differing: Vec<MessageId>,
    /// Messages that the ledger has redacted; they are not imported.
    pub redacted: u64,
}

/// The id under which a session is imported if its own id belongs to another team or owner. It derives from the team,
/// the owner and the own id, so every import uses the same one.
///
/// # Errors
/// Only an internal error.
pub(crate) fn alternative_id(caller: &Caller, team_id: &str, id: &str) -> Result<SessionId> {
    let owner = caller.identity().map_or("", |i| i.as_str());
    let mut hash = Sha256::new();
    for piece in [team_id, owner, id] {
        hash.update(piece.len().to_be_bytes());
        hash.update(piece);
    }
    let digest = hex::encode(hash.finalize());
    let end = id.floor_char_boundary(KEY_BYTES_MAX);
    let name = format!("{}-{digest:.16}", id.get(..end).unwrap_or_default());
    SessionId::new(name)
        .map_err(|e| Failure::new(ErrorCode::Invalid, format!("session {id:?}: {e}")))
}

/// Returns the session into which a snapshot is imported; creates it if it does not exist.
async fn target_session(
    engine: &Engine,
    caller: &Caller,
    team: &Team,
    snapshot: &SessionSnapshot,
) -> Result<Session> {
    let id = &snapshot.session_id;
    let own_id = SessionId::new(&**id)
        .map_err(|e| Failure::new(ErrorCode::Invalid, format!("session {id:?}: {e}")))?;
    let new_session = |id| CreateSession {
        session_id: Some(id),
        team_id: Some(team.id.clone()),
        title: Some(team.name.clone()),
        metadata: Some(origin_metadata(snapshot.created_at)),
        ..CreateSession::default()
    };
    match engine.sessions.create(caller, new_session(own_id)).await {
        Ok(session) if session.team_id.as_ref() == Some(&team.id) => {
            return Ok(session.into_value());
        }
        // The id belongs to another team or another owner.
        Ok(_) => {}
        Err(failure) if failure.code == ErrorCode::SessionConflict => {}
        Err(failure) => return Err(failure),
    }
    let new = new_session(alternative_id(caller, &team.id, id)?);
    let session = engine.sessions.create(caller, new).await?.into_value();
    super::open::check_team(&session, &team.id)?;
    Ok(session)
}

/// Imports a snapshot into the ledger: its messages become items with their times and ids. Repeating an import changes
/// nothing, and repeating an interrupted one completes it. Existing items stay unchanged.
///
/// # Errors
/// `invalid` if the snapshot is of another team; `session_erased` if its session was erased; `lease_timeout` if someone
/// has the session open; and the ledger's errors.
pub async fn import(
    engine: Arc<Engine>,
    caller: Caller,
    team: &Team,
    snapshot: &SessionSnapshot,
    options: OpenOptions,
) -> Result<Imported> {
    check_records_all(&engine, &caller)?;
    if snapshot.team_id != team.id {
        return Err(ErrorCode::Invalid.failure(format!(
            "the snapshot belongs to team {:?}, not to {:?}",
            snapshot.team_id, team.id
        )));
    }
    let session = target_session(&engine, &caller, team, snapshot).await?;
    let options = OpenOptions {
        snapshots: None,
        ..options
    };
    let opened = open(engine, caller, team, session, options).await?;
    let (existing, redacted) = (&opened.restored.context.messages, &opened.redacted);
    let mut imported = Imported {
        session_id: opened.record.session_id().into(),
        ..Imported::default()
    };
    let missing = missing_messages(snapshot, existing, redacted, &mut imported);
    let writer = &opened.record.writer;
    let state = State {
        status: Status::Paused,
        waiting_for: team.first_human().map(|human| human.id.clone()),
        team_task: match missing.is_empty() && !existing.is_empty() {
            true => opened.restored.context.team_task.clone(),
            false => snapshot.team_task.clone(),
        },
    };
    let import_all = async {
        let mut progress = writer.progress.lock().await;
        for group in turn_groups(&missing) {
            writer.import_turn(&mut progress, group).await?;
            imported.added += group.len() as u64;
        }
        Ok::<_, Failure>(())
    };
    match import_all.await {
        Ok(()) => opened.record.close(&state).await.map(|()| imported),
        Err(failure) => {
            writer.lease.release().await?;
            Err(failure)
        }
    }
}

/// The messages of a snapshot that the ledger does not have; counts the others in `imported`.
fn missing_messages<'a>(
    snapshot: &'a SessionSnapshot,
    existing: &[Message],
    redacted: &HashSet<MessageId>,
    imported: &mut Imported,
) -> Vec<&'a Message> {
    let mut by_id: std::collections::HashMap<&str, &Message> = existing
        .iter()
        .map(|message| (&*message.id, message))
        .collect();
    let mut missing = Vec::new();
    for message in &snapshot.messages {
        match by_id.get(&*message.id) {
            _ if redacted.contains(&message.id) => imported.redacted += 1,
            Some(existing) if *existing == message => imported.known += 1,
            Some(_) => imported.differing.push(message.id.clone()),
            None => {
                by_id.insert(&message.id, message);
                missing.push(message);
            }
        }
    }
    missing
}

/// Groups messages by turn: a human's message and those that follow it.
fn turn_groups<'m, 'a>(messages: &'m [&'a Message]) -> impl Iterator<Item = &'m [&'a Message]> {
    messages
        .chunk_by(|_, next| next.speaker.kind != SpeakerKind::Human)
        .flat_map(|group| group.chunks(TURN_MESSAGES_MAX))
}

impl SessionWriter {
    /// Records a turn of the imported conversation.
    async fn import_turn(&self, progress: &mut Progress, group: &[&Message]) -> Result<()> {
        let Some(first) = group.first() else {
            return Ok(());
        };
        let is_by_agent = |m: &&&Message| m.speaker.kind == SpeakerKind::Agent;
        let is_answer = |m: &&&Message| is_by_agent(m) && m.cut.is_none();
        let answer = group.iter().rfind(is_answer).map(|m| &m.id);
        let items = group.iter().map(|message| {
            let channel = match message.speaker.kind {
                SpeakerKind::Human => Channel::Question,
                SpeakerKind::System => Channel::SystemNote,
                SpeakerKind::Agent if message.cut.is_some() => Channel::Partial,
                SpeakerKind::Agent if answer == Some(&message.id) => Channel::Final,
                SpeakerKind::Agent => Channel::Observation,
            };
            to_item(message, channel, None)
        });
        let items: Vec<ItemBody> = items.collect::<Result<_, _>>()?;
        let last_cut = group.iter().rfind(is_by_agent).and_then(|m| m.cut);
        let status = match (answer, last_cut) {
            (Some(_), _) => TurnStatus::Finalized,
            (None, Some(Cut::Failed)) => TurnStatus::Failed,
            (None, Some(Cut::Interrupted)) => TurnStatus::Interrupted,
            (None, Some(Cut::Cancelled) | None) => TurnStatus::Cancelled,
        };
        let turn = ImportedTurn {
            request_id: request_id(&turn_key(&first.id))?,
            items,
            status,
            metadata: None,
        };
        let caller = self.lease.caller_after_check().await?;
        self.engine
            .turns
            .record(&caller, &self.session, turn)
            .await?;
        progress.state = None;
        Ok(())
    }
}

/// The key of the turn that begins with the message `id`.
fn turn_key(id: &str) -> String {
    match id.len() <= KEY_BYTES_MAX {
        true => format!("import.{id}"),
        false => format!("import.{}", hex::encode(Sha256::digest(id.as_bytes()))),
    }
}
