//! Restores the dialogue of a call from its recorded state.

use std::sync::atomic::Ordering::Relaxed;

use filrouge_engine::{CheckpointPolicy, Resumed};
use filrouge_types::{ErrorCode, Failure, Item, SessionId};

use super::{Calls, HeldCall};
use crate::cache::CachedCall;
use crate::fsm::Dialogue;
use crate::replay::replay;

/// The number of items per page, when the tail of a resume is incomplete.
const PAGE_ITEMS: usize = 500;

/// The `source` of a resume that the spool served without the database.
const SPOOL: &str = "spool";

impl Calls {
    /// Restores the dialogue from the cached copy if the store has nothing newer, otherwise from the newest checkpoint
    /// and the items after it.
    pub(super) async fn restore(
        &self,
        call: &SessionId,
        resumed: Resumed,
        cached: Option<CachedCall>,
    ) -> Result<HeldCall, Failure> {
        let mut held = HeldCall {
            fence: resumed.fence,
            holder: resumed.holder,
            dialogue: Dialogue::default(),
            policy: CheckpointPolicy::default(),
            last_seq: resumed.last_seq,
            checkpoint_label: resumed.state,
            unreadable: false,
        };
        let is_database_down = resumed.source == SPOOL;
        // While the database is down, only this process continues its calls, and spooled writes have no seq yet.
        let is_current = |cached: &CachedCall| match is_database_down {
            true => cached.seq >= resumed.last_seq,
            false => resumed.stale == Some(false),
        };
        if let Some(cached) = cached.filter(is_current) {
            self.counters.from_cache.fetch_add(1, Relaxed);
            (held.dialogue, held.policy) = (cached.dialogue, cached.policy);
            return Ok(held);
        }
        let checkpoint_seq = resumed.checkpoint.as_ref().map_or(0, |c| c.seq);
        if is_database_down && checkpoint_seq < resumed.last_seq {
            let detail = "items of the call are only in the database, which does not answer";
            return Err(Failure::new(ErrorCode::StoreUnavailable, detail));
        }
        if resumed.last_seq > 0 {
            self.counters.rebuilt.fetch_add(1, Relaxed);
        }
        let (mut tail, mut has_more) = (resumed.tail, resumed.tail_cursor.is_some());
        let state = resumed
            .checkpoint
            .map(|c| serde_json::from_str(c.state.as_str()));
        match state {
            None => {}
            Some(Ok(dialogue)) => held.dialogue = dialogue,
            // This version cannot read the checkpoint: rebuild the dialogue from all items of the call.
            Some(Err(_)) => {
                self.record_unknown_state(call, held.last_seq, "checkpoint")
                    .await;
                (tail, has_more) = (Vec::new(), true);
            }
        }
        if has_more {
            self.read_remaining_items(call, &mut tail).await?;
        }
        match replay(&mut held.dialogue, &tail) {
            Some(replay_result) => {
                (0..replay_result.turns).for_each(|_| held.policy.count_write());
                self.counters
                    .replays_differing
                    .fetch_add(replay_result.differing, Relaxed);
            }
            None => {
                self.record_unknown_state(call, held.last_seq, "journal")
                    .await;
                held.unreadable = true;
            }
        }
        Ok(held)
    }

    /// Appends the items of the call that follow those in `items`.
    pub(super) async fn read_remaining_items(
        &self,
        call: &SessionId,
        items: &mut Vec<Item>,
    ) -> Result<(), Failure> {
        loop {
            let after = items.last().map_or(0, |item| item.seq);
            let (page, next) = self
                .engine
                .turns
                .items(&self.caller, call, after, PAGE_ITEMS)
                .await?;
            items.extend(page);
            if next.is_none() {
                return Ok(());
            }
        }
    }
}
