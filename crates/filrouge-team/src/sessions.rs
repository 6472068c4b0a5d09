//! Lists a team's sessions, from which a user chooses one to resume (DESIGN §11). A session is shown in the state that
//! opening it restores.

use filrouge_engine::{Caller, Engine};
use filrouge_store::command::SessionFilter;
use filrouge_types::{
    ErrorCode, Failure, Lease, Result, Session, SessionId, SessionStatus, Timestamp,
};

use crate::ledger::item::{self, ParsedItem};
use crate::ledger::open::{check_team, checkpoint_state, created_at, parse_session_id};
use crate::ledger::read::read_conversation;
use crate::ledger::{has_holder_exited, holder_label};
use crate::message::Message;

/// The number of sessions per page.
const PAGE_SESSIONS: usize = 200;
/// The number of items that are read at first to find the first or the newest message of a session.
const PROBE_ITEMS: usize = 16;
/// The maximum number of characters of [`TeamSession::first_words`].
const FIRST_WORDS_CHARS_MAX: usize = 80;

/// A session of a team, in the state in which it would be opened now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamSession {
    /// Its id.
    pub session_id: Box<str>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its newest message was said; without messages, when it was created.
    pub last_activity: Timestamp,
    /// Whether it is active, paused or closed.
    pub status: SessionStatus,
    /// The number of messages that are restored when it is opened.
    pub message_count: u64,
    /// The beginning of its first message: one line of at most 80 characters.
    pub first_words: Option<Box<str>>,
    /// The name of the speaker of its newest message.
    pub last_speaker: Option<Box<str>>,
    /// The process that has it open; `None` if no process has.
    pub lease_holder: Option<LeaseHolder>,
}

/// The holder of an open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseHolder {
    /// The name that the holder gave when it opened the session.
    pub name: Box<str>,
    /// The time at which the lease expires unless it is renewed.
    pub expires_at: Option<Timestamp>,
}

/// A team's sessions.
#[derive(Debug, Default)]
pub struct TeamSessions {
    /// The sessions, sorted by the time of their newest message, newest first.
    pub sessions: Vec<TeamSession>,
    /// The sessions that cannot be read, each with the reason.
    pub unreadable: Vec<(SessionId, Failure)>,
}

/// Lists the sessions of a team that have at least one message.
///
/// # Errors
/// The ledger's; a single session that cannot be read is listed among the unreadable ones.
pub async fn sessions(engine: &Engine, caller: &Caller, team_id: &str) -> Result<TeamSessions> {
    let filter = SessionFilter {
        team_id: Some(team_id.into()),
        ..SessionFilter::default()
    };
    let mut listed = TeamSessions::default();
    let mut cursor = None;
    loop {
        let page = engine
            .sessions
            .list(caller, filter.clone(), cursor, PAGE_SESSIONS);
        let (page, next) = page.await?;
        for session in page {
            match summarize(engine, caller, &session).await {
                Ok(summary) if summary.session.message_count > 0 => {
                    listed.sessions.push(summary.session);
                }
                Ok(_) => {}
                // The session was erased after the page was read.
                Err(failure)
                    if matches!(
                        failure.code,
                        ErrorCode::SessionErased | ErrorCode::SessionNotFound
                    ) => {}
                Err(failure) if failure.code == ErrorCode::IntegrityError => {
                    listed.unreadable.push((session.session_id, failure));
                }
                Err(failure) => return Err(failure),
            }
        }
        match next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    listed.sessions.sort_by(|a, b| {
        let newest_first = (b.last_activity, b.created_at).cmp(&(a.last_activity, a.created_at));
        newest_first.then_with(|| b.session_id.cmp(&a.session_id))
    });
    Ok(listed)
}

/// Returns the session of a team with exactly this id.
///
/// # Errors
/// `session_not_found`, `session_erased`, `invalid` if it belongs to another team, and the ledger's errors.
pub async fn session(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
    id: &str,
) -> Result<TeamSession> {
    let id = parse_session_id(id)?;
    let session = engine.sessions.get(caller, &id).await?;
    check_team(&session, team_id)?;
    Ok(summarize(engine, caller, &session).await?.session)
}

/// A session's summary.
pub(crate) struct Summary {
    pub(crate) session: TeamSession,
    /// When its newest message was said, redacted messages included; `None` without messages.
    pub(crate) newest_at: Option<Timestamp>,
}

/// Summarizes a session; reads only a part of it if its newest checkpoint has a count of messages.
pub(crate) async fn summarize(
    engine: &Engine,
    caller: &Caller,
    session: &Session,
) -> Result<Summary> {
    let id = &session.session_id;
    let checkpointed = match engine.calls.latest_checkpoint(caller, id).await {
        Ok(checkpoint) => {
            checkpoint_state(&checkpoint).map(|content| (checkpoint.seq, content.message_count))
        }
        Err(failure) if failure.code == ErrorCode::CheckpointNotFound => None,
        Err(failure) => return Err(failure),
    };
    let (after, checkpoint_count) = checkpointed.unwrap_or((0, 0));
    let mut tail = read_conversation(engine, caller, id, after).await?;
    // Drafts count too: the next process that opens the session restores them as messages.
    for draft in engine.streams.unfinished(caller, id).await? {
        if let Some(message) = item::read_draft(draft.description.as_ref(), &draft.text) {
            tail.add_message(message, true);
        }
    }
    let first = match after {
        0 => tail.messages.first().map(first_words),
        _ => first_message_words(engine, caller, id).await?,
    };
    let message_count = checkpoint_count + tail.messages.len() as u64;
    let (mut start, mut range) = (after, PROBE_ITEMS as u64);
    while tail.messages.is_empty() && message_count > 0 && start > 0 {
        // The newest message is before the checkpoint: search backwards, doubling the range.
        start = start.saturating_sub(range);
        range *= 2;
        tail = read_conversation(engine, caller, id, start).await?;
    }
    let last = tail.messages.last();
    let created = created_at(session);
    let lease = engine.calls.lease(caller, id).await?;
    Ok(Summary {
        newest_at: tail.newest_at,
        session: TeamSession {
            session_id: id.as_str().into(),
            created_at: created,
            last_activity: last.map_or(created, |message| message.at),
            status: session.status,
            message_count,
            first_words: first,
            last_speaker: last.map(|message| message.speaker.name.clone()),
            lease_holder: live_lease_holder(engine, &lease).await,
        },
    })
}

/// The holder of a session's lease, unless its process has certainly exited.
async fn live_lease_holder(engine: &Engine, lease: &Lease) -> Option<LeaseHolder> {
    let holder = lease.holder.as_deref()?;
    (!has_holder_exited(engine, lease).await).then(|| LeaseHolder {
        name: holder_label(holder).into(),
        expires_at: lease.expires_at,
    })
}

/// The first words of the session's first message.
async fn first_message_words(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
) -> Result<Option<Box<str>>> {
    let mut after = 0;
    loop {
        let (items, next) = engine.turns.items(caller, id, after, PROBE_ITEMS).await?;
        for item in &items {
            if let ParsedItem::Message { message, .. } = item::parse_item(item) {
                return Ok(Some(first_words(&message)));
            }
        }
        match items.last().filter(|_| next.is_some()) {
            Some(last) => after = last.seq,
            None => return Ok(None),
        }
    }
}

/// The beginning of a message: one line of at most 80 characters.
pub(crate) fn first_words(message: &Message) -> Box<str> {
    let words = message.content.split_whitespace();
    // With the spaces between them, one word more than the limit of characters is enough.
    let words: Vec<&str> = words.take(FIRST_WORDS_CHARS_MAX + 1).collect();
    let line = words.join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(FIRST_WORDS_CHARS_MAX) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()).into(),
        None => line.into(),
    }
}

#[cfg(test)]
mod tests;
