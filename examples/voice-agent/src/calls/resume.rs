//! Restores the dialogue of a call from its recorded state.

use std::sync::atomic::Ordering::Relaxed;

use filrouge_engine::{CheckpointPolicy, Resumed};
use filrouge_types::{ErrorCode, Failure, Item, SessionId};

use super::{Calls, Held};
use crate::cache::CachedCall;
use crate::fsm::Dialogue;
use crate::replay::replay;

/// The number of items per page, if a resume does not return all of them.
const PAGE: usize = 500;

/// The `source` of a resume without the database.
const SPOOL: &str = "spool";

impl Calls {
    /// Restores the dialogue: from this process's copy if the store has nothing newer, otherwise from the newest
    /// checkpoint and the items after it.
    pub(super) async fn restore(
        &self,
        call: &SessionId,
        resumed: Resumed,
        cached: Option<CachedCall>,
    ) -> Result<Held, Failure> {
        let mut held = Held {
            fence: resumed.fence,
            holder: resumed.holder,
            dialogue: Dialogue::default(),
            policy: CheckpointPolicy::default(),
            last_seq: resumed.last_seq,
            label: resumed.state,
            unreadable: false,
        };
        let down = resumed.source == SPOOL;
        // While the database does not answer, only this process continues its calls; spooled writes have no seq yet.
        let is_current = |cached: &CachedCall| match down {
            true => cached.seq >= resumed.last_seq,
            false => resumed.stale == Some(false),
        };
        if let Some(cached) = cached.filter(is_current) {
            self.counters.from_cache.fetch_add(1, Relaxed);
            (held.dialogue, held.policy) = (cached.dialogue, cached.policy);
            return Ok(held);
        }
        let checkpoint_seq = resumed.checkpoint.as_ref().map_or(0, |c| c.seq);
        if down && checkpoint_seq < resumed.last_seq {
            let what = "items of the call are only in the database, which does not answer";
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
            // This version cannot read the state: rebuild it from all items of the ledger.
            Some(Err(_)) => {
                self.record_unknown_state(call, held.last_seq, "checkpoint")
                    .await;
                (tail, more) = (Vec::new(), true);
            }
        }
        if more {
            self.read_rest(call, &mut tail).await?;
        }
        match replay(&mut held.dialogue, &tail) {
            Some(replayed) => {
                (0..replayed.turns).for_each(|_| held.policy.wrote());
                self.counters
                    .replays_differing
                    .fetch_add(replayed.differing, Relaxed);
            }
            None => {
                self.record_unknown_state(call, held.last_seq, "journal")
                    .await;
                held.unreadable = true;
            }
        }
        Ok(held)
    }

    /// Reads the items after the given ones.
    pub(super) async fn read_rest(
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
