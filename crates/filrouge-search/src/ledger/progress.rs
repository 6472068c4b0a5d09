//! The progress of an index through its ledger.

use filrouge_types::Failure;

use super::counts::Progress;
use super::feed::LedgerFeed;
use super::position;

impl LedgerFeed {
    /// Reads the index's progress from the index and the ledger; runs no step.
    ///
    /// # Errors
    /// Those of the ledger and the index.
    pub async fn read_progress(&self) -> Result<Progress, Failure> {
        let (state, now) = (self.forgotten_sessions(1).await?, self.clock.now());
        let ledger = &self.engine.index_feed;
        let touches = match position::decode(state.seen.position.as_deref(), ledger.store_id()) {
            Some(after) => {
                let indexed = after.commit_count();
                let touches = ledger.changed_after(after, 1).await?;
                touches.map(|touches| (touches.newest - indexed, touches.since))
            }
            None => None,
        };
        let as_of = match touches {
            Some((0, _)) => Some(now),
            Some((_, since)) => since,
            None => None,
        };
        // An index that must be rebuilt covers no commit.
        let lag_commits = touches.map_or_else(
            || ledger.position().commit_count(),
            |(lag_commits, _)| lag_commits,
        );
        let forgotten = !state.sessions.is_empty();
        Ok(Progress {
            lag_commits,
            as_of,
            forgotten,
            done: touches.is_some() && lag_commits == 0 && !forgotten,
        })
    }
}
