//! The status of projections, and the command that rebuilds one.

use std::sync::Arc;

use filrouge_engine::Engine;
use filrouge_engine::notes::change_note;
use filrouge_store::ledger::Position;
use filrouge_types::{ErrorCode, Failure, Result, TenantId, Timestamp};
use serde::Serialize;

use crate::feed::COMMITS_PER_PAGE;
use crate::history::ForeignHistory;
use crate::history::feed::lag_of as lag_of_history;
use crate::position::StoredPosition;
use crate::projection::ProjectionName;
use crate::state::{
    DeadLetter, Filled, State, change_letters, read_letters, read_state, read_uncleaned, state_note,
};

/// The time of the newest attempt of a dead letter that is due at once.
const RETRIED_AT_ONCE: Timestamp = Timestamp::from_micros(0);

/// The status of a projection in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProjectionStatus {
    /// The projection's name.
    pub name: String,
    /// The generation that queries see; `null` before the first was filled.
    pub generation: Option<u64>,
    /// The generation that is being filled, if there is one.
    pub building: Option<u64>,
    /// The number of commits from the first one whose changes the queried generation lacks to the newest; 0 when it
    /// lacks none. `null` if it is not kept up to date, because another one with the current settings is being filled.
    /// Of a history of another program: the sessions that were changed or removed before its newest scan, and that the
    /// generation lacks; `null` also if there is no history, and before the first scan.
    pub lag_commits: Option<u64>,
    /// The same for the generation that is being filled.
    pub building_lag_commits: Option<u64>,
    /// The process that writes to the target now.
    pub holder: Option<String>,
    /// The number of failures since the target last answered.
    pub failures: u32,
    /// The newest failure.
    pub last_error: Option<String>,
    /// When the target is called again.
    pub retry_at: Option<Timestamp>,
    /// How many times the target had an older state than before, such as a backup, and was filled anew.
    pub older_states: u32,
    /// Sessions that were redacted or erased and must still be cleaned in the target.
    pub uncleaned: usize,
    /// Sessions that the target refused or that cannot be read, oldest first. They are tried again every ten minutes,
    /// and when they change.
    pub dead_letters: Vec<DeadLetter>,
}

/// Returns the status of a projection at `now`. `history` is [`crate::Projection::history`]. With `tenant`, only sessions
/// of this tenant are counted as dead letters and as uncleaned.
///
/// # Errors
/// Those of the ledger; `integrity_error` when a note of the projection cannot be parsed. A missing history is a failure
/// in the status. Its sessions are not read.
pub async fn projection_status(
    engine: &Engine,
    name: &ProjectionName,
    history: Option<&Arc<ForeignHistory>>,
    tenant: Option<&TenantId>,
    now: Timestamp,
) -> Result<ProjectionStatus> {
    let ledger = engine.ledger();
    let is_counted = |of: &TenantId| tenant.is_none_or(|tenant| tenant == of);
    let mut uncleaned = read_uncleaned(ledger, name).await?;
    uncleaned.retain(|session| is_counted(&session.tenant));
    let mut dead_letters = read_letters(ledger, name).await?;
    dead_letters.retain(|letter| is_counted(&letter.tenant));
    let state = read_state(ledger, name).await?;
    let lags = count_lags(engine, history, &state).await;
    let (lags, unreadable) = match lags {
        Err(failure) if history.is_some() => ([None, None], Some(failure.detail)),
        lags => (lags?, None),
    };
    Ok(ProjectionStatus {
        name: name.to_string(),
        generation: state.queried,
        building: state.building.as_ref().map(|filled| filled.generation),
        lag_commits: lags[0],
        building_lag_commits: lags[1],
        holder: state.live_claim(now).map(|claim| claim.holder.clone()),
        failures: state.failures.max(u32::from(unreadable.is_some())),
        last_error: unreadable.or(state.last_error),
        retry_at: state.retry_at.filter(|at| now < *at),
        older_states: state.older_states,
        uncleaned: uncleaned.len(),
        dead_letters,
    })
}

/// The lags of the published generation and of the one that is being filled. Those of a history are in the note: a scan
/// of a large one takes long.
async fn count_lags(
    engine: &Engine,
    history: Option<&Arc<ForeignHistory>>,
    state: &State,
) -> Result<[Option<u64>; 2]> {
    let (published, building) = (state.published.as_ref(), state.building.as_ref());
    let Some(history) = history else {
        let published = lag_of(engine, published).await?;
        return Ok([published, lag_of(engine, building).await?]);
    };
    history.check().await?;
    let scanned = |filled: &&Filled| !filled.history.is_empty();
    Ok([published, building].map(|filled| filled.filter(scanned).map(|f| f.history_lag)))
}

/// The lag of the generation that is kept up to date, which queries see unless it is the first.
pub(crate) async fn count_lag(
    engine: &Engine,
    history: Option<&Arc<ForeignHistory>>,
    state: &State,
) -> Result<u64> {
    let filled = state.generations().next();
    if let (Some(history), Some(filled)) = (history, filled) {
        return Ok(lag_of_history(&*history.scan().await?, filled));
    }
    let lag = lag_of(engine, filled).await?;
    Ok(lag.unwrap_or_else(|| engine.index_feed.position().commit_count()))
}

/// The number of commits from the first one with changes after the position to the newest; 0 without such a commit.
/// `None` for no generation, and for one that belongs to another store.
async fn lag_of(engine: &Engine, filled: Option<&Filled>) -> Result<Option<u64>> {
    let Some(filled) = filled else {
        return Ok(None);
    };
    let mut after = Position::from(&filled.position);
    loop {
        let feed = &engine.index_feed;
        let changed = feed.all_changed_after(after.clone(), COMMITS_PER_PAGE);
        let Some(changed) = changed.await? else {
            return Ok(None);
        };
        if changed.end == after {
            return Ok(Some(0));
        }
        if !changed.sessions.is_empty() {
            return Ok(Some(changed.newest.saturating_sub(after.commit_count())));
        }
        after = changed.end;
    }
}

/// Makes the process that feeds the projection build a new, complete generation, and publish it when
/// it is complete. A rebuild that is in progress begins anew.
///
/// # Errors
/// `invalid` if the store knows no such projection, and those of the ledger.
pub async fn begin_rebuild(engine: &Engine, name: &ProjectionName, now: Timestamp) -> Result<()> {
    let newest = StoredPosition::from(&engine.index_feed.position());
    change_note(
        engine.ledger(),
        &state_note(name),
        |state: Option<State>| {
            let Some(mut state) = state else {
                let detail = format!("the store knows no projection {:?}", name.as_str());
                return Err(Failure::new(ErrorCode::Invalid, detail).with_hint(
                    "a projection begins when a process runs that has it in its configuration",
                ));
            };
            state.begin_rebuild(None, now, newest.clone());
            Ok(Some(state))
        },
    )
    .await
}

/// Makes the process that feeds the projection try all dead letters again at once, instead of ten minutes after their
/// newest attempt. Returns their number.
///
/// # Errors
/// Those of the ledger; `integrity_error` when a note of the projection cannot be parsed.
pub async fn retry_dead_letters(engine: &Engine, name: &ProjectionName) -> Result<usize> {
    let count = read_letters(engine.ledger(), name).await?.len();
    change_letters(engine.ledger(), name, |letters| {
        for letter in letters {
            letter.at = RETRIED_AT_ONCE;
        }
    })
    .await?;
    Ok(count)
}
