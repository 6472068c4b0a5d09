//! The newest finalized turns, from a copy of them when one is at hand that is known to be good.

use crate::caller::Caller;
use crate::turns::ListTurns;
use filrouge_types::{ErrorCode, Failure, SessionId, Turn, TurnStatus};

use crate::engine::Engine;

/// Most turns that are given at once, as in lists (DESIGN §12).
const MOST: usize = 500;

/// At most `limit` turns, oldest first; none of a session that looks absent.
pub(super) async fn finalized(
    engine: &Engine,
    caller: &Caller,
    session: &SessionId,
    limit: usize,
) -> Result<Vec<Turn>, Failure> {
    let limit = limit.min(MOST);
    if limit == 0 {
        return Ok(Vec::new());
    }
    match newest(engine, caller, session, limit).await {
        Err(failure) if failure.code == ErrorCode::SessionNotFound => Ok(Vec::new()),
        turns => turns,
    }
}

async fn newest(
    engine: &Engine,
    caller: &Caller,
    session: &SessionId,
    limit: usize,
) -> Result<Vec<Turn>, Failure> {
    let query = page(limit, None);
    let recent = engine.turns.recent(caller, session, &query).await?;
    let (mut turns, mut cursor) = match recent {
        None => engine.turns.list(caller, session, query).await?,
        Some(copy) => {
            if let Some(as_of_seq) = copy.as_of_seq {
                tracing::warn!(session_id = %session, as_of_seq, "[SESSIONS][HISTORY] the ledger does not answer: turns of the hot store's copy");
            }
            let read = copy.turns.iter().map(|turn| serde_json::from_slice(turn));
            let turns: Result<Vec<Turn>, _> = read.collect();
            let turns = turns.map_err(|e| {
                let what = format!("a copied turn cannot be read: {e}");
                Failure::new(ErrorCode::Internal, what)
            })?;
            (turns, copy.next_cursor)
        }
    };
    // A page of large turns ends before it is full.
    while turns.len() < limit && cursor.is_some() {
        let query = page(limit - turns.len(), cursor);
        let (mut older, next) = engine.turns.list(caller, session, query).await?;
        older.append(&mut turns);
        (turns, cursor) = (older, next);
    }
    Ok(turns)
}

fn page(limit: usize, cursor: Option<String>) -> ListTurns {
    ListTurns {
        status: Some(TurnStatus::Finalized),
        cursor,
        limit,
        ..ListTurns::default()
    }
}
