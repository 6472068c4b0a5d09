//! Sends dead letters again, when an operator has requested it.

use filrouge_engine::notes::Stored;
use filrouge_types::Failure;

use super::batch::Batch;
use super::dead_letters;
use super::sender::{MessageSender, SendOutcome};
use super::state::State;
use super::worker::{Next, Worker};

impl<P: MessageSender> Worker<P> {
    /// Sends the oldest dead letter again, once; the next step sends the next one. The redelivery ends when none is
    /// left, or when the receiver refuses one.
    pub(super) async fn redeliver(&mut self, stored: Stored<State>) -> Result<Next, Failure> {
        let stored = match self.claim(stored).await? {
            Ok(stored) => stored,
            Err(next) => return Ok(next),
        };
        let webhook = self.settings.feed.name.clone();
        let ledger = self.ledger.clone();
        let letters = dead_letters::load_letters(ledger.as_ref(), &webhook).await?;
        let Some(letter) = letters.letters.into_iter().next() else {
            tracing::info!(%webhook, "all dead letters were sent again");
            self.save_outcome(stored, |state| state.redeliver = false)
                .await;
            return Ok(Next::Again);
        };
        let (after, end) = (letter.after.parse()?, letter.next_cursor.parse()?);
        let batch = Batch::read(ledger.as_ref(), &self.settings.feed, after, Some(end)).await?;
        let outcome = if batch.changes.is_empty() {
            SendOutcome::Delivered
        } else {
            self.send_batch(&batch).await?
        };
        match outcome {
            SendOutcome::Delivered => {
                dead_letters::change_letters(ledger.as_ref(), &webhook, |letters| {
                    if batch.is_at_end {
                        letters.letters.retain(|l| *l != letter);
                    } else {
                        letters.advance(&letter, &batch.next);
                    }
                })
                .await?;
                let claim = self.new_claim();
                self.save_outcome(stored, |state| state.record_delivery(claim.clone()))
                    .await;
                Ok(Next::Again)
            }
            SendOutcome::Gone => Ok(self.disable(stored).await),
            SendOutcome::Refused { refusal, .. } => {
                tracing::warn!(%webhook, error = %refusal, "a dead letter was refused again; the others are not sent now");
                dead_letters::change_letters(ledger.as_ref(), &webhook, |letters| {
                    letters.count_refusal(&letter, refusal);
                })
                .await?;
                self.save_outcome(stored, |state| {
                    state.redeliver = false;
                    state.record_refusal(refusal);
                })
                .await;
                Ok(Next::Again)
            }
        }
    }
}
