//! Sends dead letters again, when an operator has requested it.

use filrouge_types::Failure;

use super::batch::{Batch, sort_key};
use super::dead;
use super::post::{Post, Sent};
use super::state::{State, Stored};
use super::worker::{Next, Worker};

impl<P: Post> Worker<P> {
    /// Sends the oldest dead letter again, once; the next step sends the next one. The redelivery ends when none is
    /// left, or when the receiver refuses one.
    pub(super) async fn redeliver(&mut self, stored: Stored<State>) -> Result<Next, Failure> {
        let stored = match self.claim(stored).await? {
            Ok(stored) => stored,
            Err(next) => return Ok(next),
        };
        let webhook = self.settings.feed.name.clone();
        let ledger = self.ledger.clone();
        let dead = dead::letters(ledger.as_ref(), &webhook).await?;
        let Some(letter) = dead.letters.into_iter().next() else {
            tracing::info!(%webhook, "all dead letters were sent again");
            self.save(stored, |state| state.redeliver = false).await;
            return Ok(Next::Again);
        };
        let (after, end) = (letter.after.parse()?, letter.next_cursor.parse()?);
        let batch = Batch::read(ledger.as_ref(), &self.settings.feed, after, Some(end)).await?;
        let sent = if batch.changes.is_empty() {
            Sent::Delivered
        } else {
            self.send(&batch).await?
        };
        match sent {
            Sent::Delivered => {
                dead::change(ledger.as_ref(), &webhook, |dead| {
                    if sort_key(batch.next) < sort_key(end) {
                        dead.advance(&letter, batch.next);
                    } else {
                        dead.letters.retain(|l| *l != letter);
                    }
                })
                .await?;
                let claim = self.new_claim();
                self.save(stored, |state| state.record_delivery(claim.clone()))
                    .await;
                Ok(Next::Again)
            }
            Sent::Gone => Ok(self.disable(stored).await),
            Sent::Refused { why, .. } => {
                tracing::warn!(%webhook, error = %why, "a dead letter was refused again; the others are not sent now");
                dead::change(ledger.as_ref(), &webhook, |dead| {
                    dead.count_refusal(&letter, why);
                })
                .await?;
                self.save(stored, |state| {
                    state.redeliver = false;
                    state.record_refusal(why);
                })
                .await;
                Ok(Next::Again)
            }
        }
    }
}
