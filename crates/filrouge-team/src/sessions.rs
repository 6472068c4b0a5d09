//! A team's sessions, for whoever chooses one (DESIGN §11): what is shown of a session is what opening it gives.

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_store::command::SessionFilter;
use filrouge_types::{ErrorCode, Failure, Lease, Session, SessionId, SessionStatus, Timestamp};

use crate::ledger::item::{self, Read};
use crate::ledger::open::{check_team, created_at, session_id, told_state};
use crate::ledger::read::{Conversation, read};
use crate::ledger::{holder_label, is_gone};
use crate::message::Message;

/// Sessions listed at once.
const PAGE: usize = 200;
/// Items looked at, at first, for the first and the last message.
const LOOK: usize = 16;
/// Characters of the first words.
const WORDS: usize = 80;

/// A session of a team's, as it would be opened now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamSession {
    /// Its id.
    pub session_id: Box<str>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its newest message was said; when it was made, as long as there is none.
    pub last_activity: Timestamp,
    /// Whether it goes on.
    pub status: SessionStatus,
    /// How many messages opening it gives.
    pub message_count: u64,
    /// How its first message begins: one line of at most 80 characters.
    pub first_words: Option<Box<str>>,
    /// The name of who spoke last.
    pub last_speaker: Option<Box<str>>,
    /// Who has it open.
    pub held: Option<HeldBy>,
}

/// Who has a session open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBy {
    /// The name that was given at the opening.
    pub holder: Box<str>,
    /// Until when, unless it is held for longer then.
    pub until: Option<Timestamp>,
}

/// A team's sessions.
#[derive(Debug, Default)]
pub struct TeamSessions {
    /// Newest first, by what was said last.
    pub sessions: Vec<TeamSession>,
    /// Those that cannot be read, and why.
    pub unreadable: Vec<(SessionId, Failure)>,
}

/// The sessions of a team that have a message, newest first by what was said last.
///
/// # Errors
/// The ledger's; a single session that cannot be read stands among the unreadable ones.
pub async fn sessions(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
) -> Result<TeamSessions, Failure> {
    let filter = SessionFilter {
        team_id: Some(team_id.into()),
        ..SessionFilter::default()
    };
    let mut found = TeamSessions::default();
    let mut cursor = None;
    loop {
        let page = engine.sessions.list(caller, filter.clone(), cursor, PAGE);
        let (page, next) = page.await?;
        for session in page {
            match look(engine, caller, &session).await {
                Ok(seen) if seen.session.message_count > 0 => found.sessions.push(seen.session),
                Ok(_) => {}
                // It went in between.
                Err(failure)
                    if matches!(
                        failure.code,
                        ErrorCode::SessionErased | ErrorCode::SessionNotFound
                    ) => {}
                Err(failure) if failure.code == ErrorCode::IntegrityError => {
                    found.unreadable.push((session.session_id, failure));
                }
                Err(failure) => return Err(failure),
            }
        }
        match next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    found.sessions.sort_by(|a, b| {
        let newest = (b.last_activity, b.created_at).cmp(&(a.last_activity, a.created_at));
        newest.then_with(|| b.session_id.cmp(&a.session_id))
    });
    Ok(found)
}

/// One session of a team's, by exactly this id.
///
/// # Errors
/// `session_not_found`, `session_erased`, `invalid` when it is of another team, and the ledger's.
pub async fn session(
    engine: &Engine,
    caller: &Caller,
    team_id: &str,
    id: &str,
) -> Result<TeamSession, Failure> {
    let id = session_id(id)?;
    let session = engine.sessions.get(caller, &id).await?;
    check_team(&session, team_id)?;
    Ok(look(engine, caller, &session).await?.session)
}

/// What was seen of a session.
pub(crate) struct Seen {
    pub(crate) session: TeamSession,
    /// When its newest message was said, redacted ones included.
    pub(crate) newest_at: Option<Timestamp>,
}

/// Looks at a session without reading all of it, where its newest checkpoint tells how much there is.
pub(crate) async fn look(
    engine: &Engine,
    caller: &Caller,
    session: &Session,
) -> Result<Seen, Failure> {
    let id = &session.session_id;
    let counted = match engine.calls.latest_checkpoint(caller, id).await {
        Ok(checkpoint) => told_state(&checkpoint).map(|told| (checkpoint.seq, told.message_count)),
        Err(failure) if failure.code == ErrorCode::CheckpointNotFound => None,
        Err(failure) => return Err(failure),
    };
    let (after, before) = counted.unwrap_or((0, 0));
    let mut tail = read(engine, caller, id, after).await?;
    unsaid(engine, caller, id, &mut tail).await?;
    let first = match after {
        0 => tail.messages.first().map(first_words),
        _ => first_message(engine, caller, id).await?,
    };
    let message_count = before + tail.messages.len() as u64;
    let (mut from, mut span) = (after, LOOK as u64);
    while tail.messages.is_empty() && message_count > 0 && from > 0 {
        // It is searched for backwards.
        from = from.saturating_sub(span);
        span *= 2;
        tail = read(engine, caller, id, from).await?;
    }
    let last = tail.messages.last();
    let created = created_at(session);
    let lease = engine.calls.lease(caller, id).await?;
    Ok(Seen {
        newest_at: tail.newest_at,
        session: TeamSession {
            session_id: id.as_str().into(),
            created_at: created,
            last_activity: last.map_or(created, |message| message.at),
            status: session.status,
            message_count,
            first_words: first,
            last_speaker: last.map(|message| message.speaker.name.clone()),
            held: held_by(engine, &lease),
        },
    })
}

/// Who holds a session and is still there.
fn held_by(engine: &Engine, lease: &Lease) -> Option<HeldBy> {
    let holder = lease.holder.as_deref()?;
    (!is_gone(engine, lease)).then(|| HeldBy {
        holder: holder_label(holder).into(),
        until: lease.expires_at,
    })
}

/// What was being said when a process was killed is a message for whoever opens the session.
async fn unsaid(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
    tail: &mut Conversation,
) -> Result<(), Failure> {
    for left in engine.streams.unfinished(caller, id).await? {
        if let Some(message) = item::read_draft(left.about.as_ref(), &left.text) {
            tail.message(message, true);
        }
    }
    Ok(())
}

async fn first_message(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
) -> Result<Option<Box<str>>, Failure> {
    let mut after = 0;
    loop {
        let (items, next) = engine.turns.items(caller, id, after, LOOK).await?;
        for item in &items {
            if let Read::Message { message, .. } = item::read(item) {
                return Ok(Some(first_words(&message)));
            }
        }
        match items.last().filter(|_| next.is_some()) {
            Some(last) => after = last.seq,
            None => return Ok(None),
        }
    }
}

/// How a message begins: one line.
pub(crate) fn first_words(message: &Message) -> Box<str> {
    let words = message.content.split_whitespace();
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > WORDS * 4 {
            break;
        }
    }
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(WORDS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()).into(),
        None => line.into(),
    }
}

#[cfg(test)]
mod tests;
