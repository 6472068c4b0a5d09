//! Going on with a call where it stands.

use std::sync::atomic::Ordering::Relaxed;

use filrouge_engine::{CheckpointPolicy, Resumed};
use filrouge_types::{ErrorCode, Failure, Item, SessionId};

use super::{Calls, Held};
use crate::cache::Known;
use crate::fsm::Dialogue;
use crate::replay::replay;

/// Items read at once when there are more than a resume gives.
const PAGE: usize = 500;

/// The source of a call that goes on without the database.
const SPOOL: &str = "spool";

impl Calls {
    /// The dialogue as it stands in the store: this process's copy when there is nothing newer, else the newest checkpoint
    /// and the items behind it.
    pub(super) async fn go_on(
        &self,
        call: &SessionId,
        resumed: Resumed,
        known: Option<Known>,
    ) -> Result<Held, Failure> {
        let mut held = Held {
            fence: resumed.fence,
            holder: resumed.holder,
            dialogue: Dialogue::default(),
            policy: CheckpointPolicy::default(),
            last_seq: resumed.last_seq,
            label: resumed.state,
            lost: false,
        };
        let down = resumed.source == SPOOL;
        // While the database does not answer, nobody but this process goes on with its calls; what waits has no seq yet.
        let newest = |known: &Known| match down {
            true => known.seq >= resumed.last_seq,
            false => resumed.stale == Some(false),
        };
        if let Some(known) = known.filter(newest) {
            self.counters.from_cache.fetch_add(1, Relaxed);
            (held.dialogue, held.policy) = (known.dialogue, known.policy);
            return Ok(held);
        }
        let covered = resumed.checkpoint.as_ref().map_or(0, |c| c.seq);
        if down && covered < resumed.last_seq {
            let what = "items of the call are in the database alone, which does not answer";
            return Err(Failure::new(ErrorCode::StoreUnavailable, what));
        }
        if resumed.last_seq > 0 {
            self.counters.rebuilt.fetch_add(1, Relaxed);
        }
        let (mut tail, mut more) = (resumed.tail, resumed.tail_cursor.is_some());
        let state = resumed
            .checkpoint
            .map(|c| serde_json::from_str(c.state.as_str()));
        match state {
            None => {}
            Some(Ok(dialogue)) => held.dialogue = dialogue,
            // A state that this version does not know: the journal tells it all.
            Some(Err(_)) => {
                self.tell_unknown(call, held.last_seq, "checkpoint").await;
                (tail, more) = (Vec::new(), true);
            }
        }
        if more {
            self.read_on(call, &mut tail).await?;
        }
        match replay(&mut held.dialogue, &tail) {
            Some(replayed) => {
                (0..replayed.turns).for_each(|_| held.policy.wrote());
                self.counters
                    .replays_differing
                    .fetch_add(replayed.differing, Relaxed);
            }
            None => {
                self.tell_unknown(call, held.last_seq, "journal").await;
                held.lost = true;
            }
        }
        Ok(held)
    }

    /// Reads the items behind those that are there.
    pub(super) async fn read_on(
        &self,
        call: &SessionId,
        items: &mut Vec<Item>,
    ) -> Result<(), Failure> {
        loop {
            let after = items.last().map_or(0, |item| item.seq);
            let (page, next) = self
                .engine
                .turns
                .items(&self.caller, call, after, PAGE)
                .await?;
            items.extend(page);
            if next.is_none() {
                return Ok(());
            }
        }
    }
}
