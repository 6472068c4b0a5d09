//! A copy of a session's recent turns, as stored by the hot store in memory.

use std::collections::BTreeMap;

use super::super::{HistoryVersion, HotBounds, HotTurn, Recent, RecentFill, RecentUpdate};

/// The approximate overhead of a turn in bytes.
const TURN_BYTES: u64 = 64;

/// A copy, or only the newest known seq when no usable copy exists.
#[derive(Default)]
pub(super) struct RecentCopy {
    /// The newest seq ever received; `None` when nothing was received yet.
    newest_seq: Option<u64>,
    /// The copy; `None` when it does not exist or is invalid.
    turns: Option<Turns>,
}

/// Turns of one history.
struct Turns {
    as_of: HistoryVersion,
    by_ordinal: BTreeMap<u64, Vec<u8>>,
    /// The size of the records.
    bytes: u64,
    /// The copy contains all finalized turns from this ordinal on, and none before it. 0 when it contains all finalized
    /// turns of the session. A turn with a lower ordinal that is finalized late is left out, because its neighbors are
    /// missing.
    complete_from: u64,
}

impl Turns {
    fn empty(as_of: HistoryVersion) -> Self {
        Self {
            as_of,
            by_ordinal: BTreeMap::new(),
            bytes: 0,
            complete_from: 0,
        }
    }

    fn remove(&mut self, ordinal: u64) {
        if let Some(old) = self.by_ordinal.remove(&ordinal) {
            self.bytes -= old.len() as u64;
        }
    }

    fn put(&mut self, turn: HotTurn) {
        if turn.ordinal >= self.complete_from {
            self.remove(turn.ordinal);
            self.bytes += turn.record.len() as u64;
            self.by_ordinal.insert(turn.ordinal, turn.record);
        }
    }

    fn apply(&mut self, update: RecentUpdate) {
        for ordinal in update.removes {
            self.remove(ordinal);
        }
        if let Some(turn) = update.puts {
            self.put(turn);
        }
        self.as_of = update.after;
    }

    /// Drops the oldest turns beyond the limits.
    fn trim(&mut self, bounds: &HotBounds) {
        while self.by_ordinal.len() as u64 > bounds.turns || self.bytes > bounds.bytes {
            let Some((ordinal, record)) = self.by_ordinal.pop_first() else {
                return;
            };
            self.bytes -= record.len() as u64;
            self.complete_from = ordinal.saturating_add(1);
        }
    }
}

impl RecentCopy {
    pub(super) fn bytes(&self) -> u64 {
        let turns = self.turns.as_ref();
        turns.map_or(0, |t| t.bytes + t.by_ordinal.len() as u64 * TURN_BYTES)
    }

    /// Applies an update; returns whether it has changed anything.
    pub(super) fn advance(&mut self, update: RecentUpdate, bounds: &HotBounds) -> bool {
        match self.newest_seq {
            Some(newest_seq) if update.after.seq <= newest_seq => return false,
            None if update.before.seq == 0 => self.turns = Some(Turns::empty(update.before)),
            _ => {}
        }
        self.newest_seq = Some(update.after.seq);
        self.turns = self.turns.take().filter(|t| t.as_of == update.before);
        if let Some(turns) = &mut self.turns {
            turns.apply(update);
            turns.trim(bounds);
        }
        true
    }

    /// Replaces the copy with one from the ledger, unless a newer seq is known; returns whether it did.
    pub(super) fn fill(&mut self, fill: RecentFill, bounds: &HotBounds) -> bool {
        if self
            .newest_seq
            .is_some_and(|newest_seq| newest_seq > fill.as_of.seq)
        {
            return false;
        }
        let mut turns = Turns::empty(fill.as_of);
        if !fill.all {
            turns.complete_from = fill.turns.first().map_or(u64::MAX, |t| t.ordinal);
        }
        for turn in fill.turns {
            turns.put(turn);
        }
        turns.trim(bounds);
        self.newest_seq = Some(fill.as_of.seq);
        self.turns = Some(turns);
        true
    }

    /// Drops the copy. Rejects updates and fills that are older than `seq` from now on.
    pub(super) fn forget(&mut self, seq: u64) -> bool {
        self.newest_seq = self.newest_seq.max(Some(seq));
        self.turns = None;
        true
    }

    /// Drops the turns and keeps the newest known seq.
    pub(super) fn drop_turns(&mut self) {
        self.turns = None;
    }

    /// The newest `limit` turns, oldest first; `None` when there is no usable copy.
    pub(super) fn newest(&self, limit: usize) -> Option<Recent> {
        let stored = self.turns.as_ref()?;
        let newest = stored.by_ordinal.iter().rev().take(limit);
        let mut turns: Vec<_> = newest
            .map(|(ordinal, record)| HotTurn {
                ordinal: *ordinal,
                record: record.clone(),
            })
            .collect();
        turns.reverse();
        Some(Recent {
            as_of: stored.as_of,
            all: stored.complete_from == 0 && turns.len() == stored.by_ordinal.len(),
            turns,
        })
    }
}
