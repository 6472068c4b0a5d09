//! A copy of a session's recent turns.

use std::collections::BTreeMap;

use super::super::{AsOf, Fill, HotBounds, HotTurn, Recent, Step};

/// What a turn takes besides its record, about.
const TURN_BYTES: u64 = 64;

/// A copy, or a mark that there is none which is of use.
#[derive(Default)]
pub(super) struct RecentCopy {
    /// The newest seq that was ever told; `None` when nothing has been told yet.
    known: Option<u64>,
    held: Option<Turns>,
}

/// Turns of one history.
struct Turns {
    as_of: AsOf,
    by_ordinal: BTreeMap<u64, Vec<u8>>,
    /// Bytes of the records.
    bytes: u64,
    /// All turns from this ordinal on are held, and none before it: 0 when these are all there are. A turn before it that
    /// is closed late stays out, for its neighbours are out.
    floor: u64,
}

impl Turns {
    fn empty(as_of: AsOf) -> Self {
        Self {
            as_of,
            by_ordinal: BTreeMap::new(),
            bytes: 0,
            floor: 0,
        }
    }

    fn remove(&mut self, ordinal: u64) {
        if let Some(old) = self.by_ordinal.remove(&ordinal) {
            self.bytes -= old.len() as u64;
        }
    }

    fn put(&mut self, turn: HotTurn) {
        if turn.ordinal >= self.floor {
            self.remove(turn.ordinal);
            self.bytes += turn.record.len() as u64;
            self.by_ordinal.insert(turn.ordinal, turn.record);
        }
    }

    fn step(&mut self, step: Step) {
        for ordinal in step.removes {
            self.remove(ordinal);
        }
        if let Some(turn) = step.puts {
            self.put(turn);
        }
        self.as_of = step.after;
    }

    /// Drops the oldest turns beyond the bounds.
    fn trim(&mut self, bounds: &HotBounds) {
        while self.by_ordinal.len() as u64 > bounds.turns || self.bytes > bounds.bytes {
            let Some((ordinal, record)) = self.by_ordinal.pop_first() else {
                return;
            };
            self.bytes -= record.len() as u64;
            self.floor = ordinal.saturating_add(1);
        }
    }
}

impl RecentCopy {
    pub(super) fn bytes(&self) -> u64 {
        let turns = self.held.as_ref();
        turns.map_or(0, |t| t.bytes + t.by_ordinal.len() as u64 * TURN_BYTES)
    }

    /// Takes a write in; whether it changed anything.
    pub(super) fn advance(&mut self, step: Step, bounds: &HotBounds) -> bool {
        match self.known {
            Some(known) if step.after.seq <= known => return false,
            None if step.before.seq == 0 => self.held = Some(Turns::empty(step.before)),
            _ => {}
        }
        self.known = Some(step.after.seq);
        self.held = self.held.take().filter(|t| t.as_of == step.before);
        if let Some(turns) = &mut self.held {
            turns.step(step);
            turns.trim(bounds);
        }
        true
    }

    /// Takes a copy made anew; whether it did.
    pub(super) fn fill(&mut self, fill: Fill, bounds: &HotBounds) -> bool {
        if self.known.is_some_and(|known| known > fill.as_of.seq) {
            return false;
        }
        let mut turns = Turns::empty(fill.as_of);
        if !fill.all {
            turns.floor = fill.turns.first().map_or(u64::MAX, |t| t.ordinal);
        }
        for turn in fill.turns {
            turns.put(turn);
        }
        turns.trim(bounds);
        self.known = Some(fill.as_of.seq);
        self.held = Some(turns);
        true
    }

    /// Keeps a mark; nothing older than `seq` is taken from now on.
    pub(super) fn forget(&mut self, seq: u64) -> bool {
        self.known = self.known.max(Some(seq));
        self.held = None;
        true
    }

    /// Keeps a mark of what was known.
    pub(super) fn drop_turns(&mut self) {
        self.held = None;
    }

    /// The newest turns, oldest first.
    pub(super) fn newest(&self, limit: usize) -> Option<Recent> {
        let held = self.held.as_ref()?;
        let newest = held.by_ordinal.iter().rev().take(limit);
        let mut turns: Vec<_> = newest
            .map(|(ordinal, record)| HotTurn {
                ordinal: *ordinal,
                record: record.clone(),
            })
            .collect();
        turns.reverse();
        Some(Recent {
            as_of: held.as_of,
            all: held.floor == 0 && turns.len() == held.by_ordinal.len(),
            turns,
        })
    }
}
