//! Reads sessions from the ledger as a projection selects them.

use filrouge_engine::{Caller, Engine, Extent};
use filrouge_types::{ErrorCode, Failure, SessionEvent};

use crate::selection::Selection;
use crate::target::{SessionKey, SessionUpdate};

/// The number of events that are read at once.
const EVENTS_PER_PAGE: usize = 1000;

/// Reads a session of a selected tenant, or some of its turns, and leaves out and masks what the selection says. `None`
/// if the session was erased or does not exist.
///
/// # Errors
/// `limit_exceeded` when the requested part has more than 256 MiB, `integrity_error`, `key_missing`, and the ledger's
/// errors.
pub(crate) async fn read_session(
    engine: &Engine,
    selection: &Selection,
    key: &SessionKey,
    extent: Extent,
) -> Result<Option<SessionUpdate>, Failure> {
    let mut update = read_unmasked(engine, key, extent).await?;
    if let Some(update) = &mut update {
        selection.apply(update);
    }
    Ok(update)
}

/// As [`read_session`], but with everything that the ledger has.
pub(crate) async fn read_unmasked(
    engine: &Engine,
    key: &SessionKey,
    extent: Extent,
) -> Result<Option<SessionUpdate>, Failure> {
    let caller = Caller::operator(key.tenant.clone());
    let is_entire = extent == Extent::Entire;
    let feed = &engine.index_feed;
    let Some(read) = feed.read_session(&caller, &key.session, extent).await? else {
        return Ok(None);
    };
    // The rest is read after the version, so it is at least as new.
    let rest = async {
        let events = read_events(engine, &caller, key).await?;
        let checkpoints = engine.calls.checkpoints(&caller, &key.session).await?;
        Ok::<_, Failure>((events, checkpoints))
    };
    let (events, checkpoints) = match rest.await {
        Ok(rest) => rest,
        Err(failure) if is_gone(&failure) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    Ok(Some(SessionUpdate {
        key: key.clone(),
        version: read.commit_no,
        is_entire,
        recorded: read.conversation,
        events,
        // `verify` of the ledger reports unreadable ones.
        checkpoints: checkpoints.into_iter().rev().flatten().collect(),
    }))
}

const fn is_gone(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::SessionErased | ErrorCode::SessionNotFound
    )
}

async fn read_events(
    engine: &Engine,
    caller: &Caller,
    key: &SessionKey,
) -> Result<Vec<SessionEvent>, Failure> {
    let (mut events, mut after) = (Vec::new(), 0);
    loop {
        let page = engine
            .events
            .list(caller, &key.session, after, EVENTS_PER_PAGE);
        let (page, next) = page.await?;
        events.extend(page);
        match next.and_then(|next| next.parse().ok()) {
            Some(next) => after = next,
            None => return Ok(events),
        }
    }
}
