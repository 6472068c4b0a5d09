//! The claim in a webhook's note, which expires: of several processes that serve a store, only the claim's holder
//! sends.

use std::time::Duration;

use filrouge_engine::notes::{Claim, Stored, read_note, write_note};
use filrouge_types::{Failure, Timestamp};
use tokio::time::sleep;

use super::sender::{MessageSender, Refusal};
use super::state::{State, note_name};
use super::worker::{Next, POLL_INTERVAL, Worker};

/// A claim lasts this much longer than the receiver's timeout.
const CLAIM_MARGIN: Duration = Duration::from_secs(2);

impl<P: MessageSender> Worker<P> {
    /// Returns the end of a claim that another process has at `now`, if there is one.
    pub(super) fn end_of_other_claim(&self, state: &State, now: Timestamp) -> Option<Timestamp> {
        let claim = state.live_claim(now)?;
        (claim.holder != self.holder).then_some(claim.until)
    }

    /// Returns a claim of this process, which is long enough for one message.
    pub(super) fn new_claim(&self) -> Claim {
        Claim {
            holder: self.holder.clone(),
            until: self.clock.now().after(self.settings.timeout + CLAIM_MARGIN),
        }
    }

    /// Claims the right to send one message, unless this process has it for long enough. Returns the stored state, or
    /// the next action if another process has the claim or wrote first.
    pub(super) async fn claim(
        &self,
        mut stored: Stored<State>,
    ) -> Result<Result<Stored<State>, Next>, Failure> {
        let now = self.clock.now();
        if let Some(until) = self.end_of_other_claim(&stored.value, now) {
            return Ok(Err(Next::At(until)));
        }
        let needed = now.after(self.settings.timeout);
        let claim = stored.value.live_claim(now);
        if claim.is_some_and(|claim| claim.until >= needed) {
            return Ok(Ok(stored));
        }
        stored.value.claim = Some(self.new_claim());
        let note = note_name(&self.settings.feed.name);
        if write_note(self.ledger.as_ref(), &note, stored.version, &stored.value).await? {
            stored.version += 1;
            return Ok(Ok(stored));
        }
        Ok(Err(Next::Again))
    }

    /// Writes the result of a delivery, unless another process has become the sender. `change` applies the result to
    /// the newest state. While the store accepts no writes, this method waits and retries, because without the result
    /// the delivered message would be sent again.
    pub(super) async fn save_outcome(
        &mut self,
        mut stored: Stored<State>,
        change: impl Fn(&mut State),
    ) {
        let note = note_name(&self.settings.feed.name);
        let cursor = stored.value.cursor.clone();
        loop {
            let mut state = stored.value.clone();
            change(&mut state);
            let (ledger, version) = (self.ledger.clone(), stored.version);
            match write_note(ledger.as_ref(), &note, version, &state).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(failure) => {
                    self.log_failure(&failure);
                    sleep(POLL_INTERVAL).await;
                }
            }
            match read_note::<State>(ledger.as_ref(), &note).await {
                Ok(Some(newest)) => stored = newest,
                Ok(None) => return,
                Err(failure) => {
                    self.log_failure(&failure);
                    continue;
                }
            }
            let claim_holder = stored.value.claim.as_ref().map(|claim| &claim.holder);
            if stored.value.cursor != cursor || claim_holder != Some(&self.holder) {
                tracing::warn!(webhook = %self.settings.feed.name, "another process sends for the webhook now");
                return;
            }
        }
    }

    /// Releases this process's claim when the process stops, so that another process can send at once.
    pub(super) async fn release(&self) {
        let note = note_name(&self.settings.feed.name);
        let Ok(Some(stored)) = read_note::<State>(self.ledger.as_ref(), &note).await else {
            return;
        };
        let own_claim = stored.value.live_claim(self.clock.now());
        if own_claim.is_some_and(|claim| claim.holder == self.holder) {
            let mut state = stored.value;
            state.claim = None;
            if let Err(failure) =
                write_note(self.ledger.as_ref(), &note, stored.version, &state).await
            {
                tracing::warn!(webhook = %self.settings.feed.name, %failure, "the webhook's claim was not released; it expires");
            }
        }
    }
}

impl State {
    /// Records a refused message, and releases the claim: any process may send next.
    pub(super) fn record_refusal(&mut self, refusal: Refusal) {
        self.failures += 1;
        self.last_error = Some(refusal.to_string());
        self.claim = None;
    }
}
