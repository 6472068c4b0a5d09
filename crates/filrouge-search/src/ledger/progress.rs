//! How far an index is with its ledger.

use filrouge_types::Failure;

use super::counts::Progress;
use super::feed::LedgerFeed;
use super::position;

impl LedgerFeed {
    /// How far the index is, as it stands: no step is made.
    ///
    /// # Errors
    /// The ledger's and the index's.
    pub async fn stands(&self) -> Result<Progress, Failure> {
        let (known, now) = (self.unread(1).await?, self.clock.now());
        let ledger = &self.engine.index_feed;
        let touches = match position::decode(known.seen.position.as_deref(), ledger.store_id()) {
            Some(after) => {
                let touches = ledger.touched_behind(after, 1).await?;
                touches.map(|touches| (touches.newest - after.commit_no, touches.since))
            }
            None => None,
        };
        let as_of = match touches {
            Some((0, _)) => Some(now),
            Some((_, since)) => since,
            None => None,
        };
        // One that has to be built anew knows nothing.
        let behind = touches.map_or(ledger.position().commit_no, |(behind, _)| behind);
        let forgotten = !known.sessions.is_empty();
        Ok(Progress {
            behind,
            as_of,
            forgotten,
            done: touches.is_some() && behind == 0 && !forgotten,
        })
    }
}
