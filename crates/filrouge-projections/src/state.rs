//! The state of a projection, which all processes of a store share: the notes "projection/NAME",
//! "projection/NAME/cleaning" and "projection/NAME/dead".

use filrouge_engine::notes::{Claim, change_note, read_note};
use filrouge_store::Ledger;
use filrouge_store::ledger::Position;
use filrouge_types::{Result, SessionId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::history::sums::GroupSums;
use crate::position::StoredPosition;
use crate::projection::ProjectionName;
use crate::target::SessionKey;

/// The maximum number of sessions in the notes of cleaning and of dead letters. With it and [`REASON_MAX`] the notes
/// stay below [`filrouge_store::rows::NOTE_MAX`].
const SESSIONS_MAX: usize = 600;
/// The maximum length of a reason in bytes.
const REASON_MAX: usize = 160;

/// The state of a projection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    /// The generation that queries see; `None` if none was published. It is not kept up to date any more after a change
    /// of settings.
    pub(crate) queried: Option<u64>,
    /// The generation that queries see, if it is kept up to date.
    pub(crate) published: Option<Filled>,
    /// The generation that is filled, to be published next.
    pub(crate) building: Option<Filled>,
    /// The greatest number of a generation so far.
    pub(crate) newest_generation: u64,
    /// [`crate::Projection::fingerprint`] when the newest generation was created.
    pub(crate) fingerprint: String,
    /// The process that writes to the target now.
    pub(crate) claim: Option<Claim>,
    /// When the target is called again after a failure.
    pub(crate) retry_at: Option<Timestamp>,
    /// The number of failures since the last success.
    pub(crate) failures: u32,
    /// The newest failure.
    pub(crate) last_error: Option<String>,
    /// How many times an older state of the target was found.
    #[serde(default)]
    pub(crate) older_states: u32,
    /// The greatest version of rows that were made of a history of another program.
    #[serde(default)]
    pub(crate) history_version: u64,
}

/// A generation, and how far it is filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filled {
    pub(crate) generation: u64,
    /// All commits up to this position are in the generation, or among the dead letters.
    pub(crate) position: StoredPosition,
    /// The newest commits when the filling began. Sessions that were erased before were never in the generation.
    pub(crate) began_at: StoredPosition,
    /// What the generation has of a history of another program.
    #[serde(default, skip_serializing_if = "GroupSums::is_empty")]
    pub(crate) history: GroupSums,
    /// The number of its newest stamp, if it is filled from a history of another program.
    #[serde(default)]
    pub(crate) history_stamp: u64,
    /// The number of sessions that the newest scan of a history has shown as changed or removed, and that are not done.
    #[serde(default)]
    pub(crate) history_lag: u64,
}

impl Filled {
    /// The number of commits up to the position.
    pub(crate) fn commit_count(&self) -> u64 {
        Position::from(&self.position).commit_count()
    }
}

impl State {
    /// The generations that are kept up to date, the published one first.
    pub(crate) fn generations(&self) -> impl Iterator<Item = &Filled> {
        self.published.iter().chain(&self.building)
    }

    /// Records that a generation is filled up to a position.
    pub(crate) fn advance(&mut self, generation: u64, position: &StoredPosition) {
        for filled in self.published.iter_mut().chain(&mut self.building) {
            if filled.generation == generation {
                filled.position = position.clone();
            }
        }
    }

    /// Records what a generation has of a history of another program, the number of its stamp, and its lag.
    pub(crate) fn advance_history(
        &mut self,
        generation: u64,
        sums: &GroupSums,
        stamp: u64,
        lag: u64,
    ) {
        for filled in self.published.iter_mut().chain(&mut self.building) {
            if filled.generation == generation {
                filled.history.clone_from(sums);
                (filled.history_stamp, filled.history_lag) = (stamp, lag);
            }
        }
    }

    /// Records that the generation that was built is published.
    pub(crate) fn record_published(&mut self, generation: u64) {
        let built = self
            .building
            .take_if(|filled| filled.generation == generation);
        if built.is_some() {
            (self.queried, self.published) = (Some(generation), built);
            self.record_success();
        }
    }

    /// Forgets a generation that the target has altered; `None` for all that are kept up to date. The next step begins a
    /// rebuild.
    pub(crate) fn drop_generation(&mut self, generation: Option<u64>) {
        let is_meant = |filled: &mut Filled| generation.is_none_or(|g| g == filled.generation);
        self.published.take_if(is_meant);
        self.building.take_if(is_meant);
    }

    /// Returns the claim, if there is one that is valid at `now`.
    pub(crate) fn live_claim(&self, now: Timestamp) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| claim.is_live(now))
    }

    /// Begins to fill a new generation from the beginning. Its number was never used before: a generation that
    /// an undone state of the store has left in the target must not be continued. `seen` is a generation that the target
    /// has.
    pub(crate) fn begin_rebuild(
        &mut self,
        seen: Option<u64>,
        now: Timestamp,
        newest: StoredPosition,
    ) {
        let next = self.newest_generation.max(seen.unwrap_or(0)) + 1;
        let seconds = u64::try_from(now.as_micros() / 1_000_000).unwrap_or(0);
        self.newest_generation = next.max(seconds);
        self.building = Some(Filled {
            generation: self.newest_generation,
            position: StoredPosition::default(),
            began_at: newest,
            history: GroupSums::default(),
            history_stamp: 0,
            history_lag: 0,
        });
    }

    /// Records that the target answered.
    pub(crate) fn record_success(&mut self) {
        (self.failures, self.last_error, self.retry_at) = (0, None, None);
    }
}

/// The name of the note with the state.
pub(crate) fn state_note(projection: &ProjectionName) -> String {
    format!("projection/{projection}")
}

/// Reads the state; the default if the store has no note of the projection.
pub(crate) async fn read_state(ledger: &dyn Ledger, projection: &ProjectionName) -> Result<State> {
    let stored = read_note(ledger, &state_note(projection)).await?;
    Ok(stored.map(|stored| stored.value).unwrap_or_default())
}

/// A session that must be cleaned in the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Uncleaned {
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
    /// A commit of the session's lane that is not before the one that erased the contents.
    pub(crate) commit: u64,
    pub(crate) since: Timestamp,
}

impl Uncleaned {
    pub(crate) fn key(&self) -> SessionKey {
        SessionKey {
            tenant: self.tenant.clone(),
            session: self.session.clone(),
        }
    }
}

fn cleaning_note(projection: &ProjectionName) -> String {
    format!("projection/{projection}/cleaning")
}

/// Reads the sessions that must be cleaned, oldest first.
pub(crate) async fn read_uncleaned(
    ledger: &dyn Ledger,
    projection: &ProjectionName,
) -> Result<Vec<Uncleaned>> {
    let stored = read_note(ledger, &cleaning_note(projection)).await?;
    Ok(stored.map(|stored| stored.value).unwrap_or_default())
}

/// Changes the sessions that must be cleaned. Beyond the maximum the oldest are dropped: the feed contains their
/// erasures too, so they are cleaned when it reaches them.
pub(crate) async fn change_uncleaned(
    ledger: &dyn Ledger,
    projection: &ProjectionName,
    change: impl Fn(&mut Vec<Uncleaned>),
) -> Result<()> {
    change_list(ledger, &cleaning_note(projection), change).await
}

/// A session that the target refused, or that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    /// The session's tenant.
    pub tenant: TenantId,
    /// The session's id.
    pub session_id: SessionId,
    /// The reason.
    pub reason: String,
    /// The number of attempts.
    pub attempts: u32,
    /// When the newest attempt failed; 1970 while an operator has asked for another one.
    pub at: Timestamp,
}

impl DeadLetter {
    pub(crate) fn key(&self) -> SessionKey {
        SessionKey {
            tenant: self.tenant.clone(),
            session: self.session_id.clone(),
        }
    }
}

fn letters_note(projection: &ProjectionName) -> String {
    format!("projection/{projection}/dead")
}

/// Reads the dead letters, oldest first.
pub(crate) async fn read_letters(
    ledger: &dyn Ledger,
    projection: &ProjectionName,
) -> Result<Vec<DeadLetter>> {
    let stored = read_note(ledger, &letters_note(projection)).await?;
    Ok(stored.map(|stored| stored.value).unwrap_or_default())
}

/// Changes the dead letters. Beyond the maximum the oldest are dropped; `filrouge project verify` still names their
/// sessions.
pub(crate) async fn change_letters(
    ledger: &dyn Ledger,
    projection: &ProjectionName,
    change: impl Fn(&mut Vec<DeadLetter>),
) -> Result<()> {
    change_list(ledger, &letters_note(projection), change).await
}

async fn change_list<T>(ledger: &dyn Ledger, note: &str, change: impl Fn(&mut Vec<T>)) -> Result<()>
where
    T: Clone + PartialEq + Serialize + serde::de::DeserializeOwned + Sync,
{
    change_note(ledger, note, |before: Option<Vec<T>>| {
        let before = before.unwrap_or_default();
        let mut after = before.clone();
        change(&mut after);
        let excess = after.len().saturating_sub(SESSIONS_MAX);
        after.drain(..excess);
        Ok((after != before).then_some(after))
    })
    .await
}

/// A reason as one line, shortened to [`REASON_MAX`] bytes.
pub(crate) fn shortened(reason: &str) -> String {
    let end = reason.floor_char_boundary(REASON_MAX);
    let kept = reason.get(..end).unwrap_or_default();
    kept.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use filrouge_store::rows::NOTE_MAX;

    use super::*;

    #[test]
    fn full_notes_are_below_the_maximum() {
        let letter = DeadLetter {
            tenant: TenantId::new("\"".repeat(256)).unwrap(),
            session_id: SessionId::new("\"".repeat(256)).unwrap(),
            reason: shortened(&"\"".repeat(300)),
            attempts: u32::MAX,
            at: Timestamp::from_micros(0),
        };
        assert_eq!(letter.reason.len(), REASON_MAX);
        let bytes = serde_json::to_vec(&vec![letter; SESSIONS_MAX])
            .unwrap()
            .len();
        assert!(bytes < NOTE_MAX, "{bytes}");
        assert_eq!(shortened("é\n"), "é ");
    }
}
