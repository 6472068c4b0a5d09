//! A history of writes, as the ledger sends it, and the expected results of a copy.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::super::{HistoryVersion, HotKey, HotTurn, Recent, RecentFill, RecentUpdate};
use super::fixture::HotFixture;
use crate::chain::GENESIS;

/// A session's history up to a write.
#[derive(Clone, Debug)]
pub struct TestHistory {
    pub as_of: HistoryVersion,
    /// The visible turns.
    pub visible_turns: BTreeMap<u64, Vec<u8>>,
}

impl TestHistory {
    /// A session without items.
    pub fn new() -> Self {
        Self {
            as_of: HistoryVersion {
                seq: 0,
                link: GENESIS,
            },
            visible_turns: BTreeMap::new(),
        }
    }

    /// A write of `items` items that removes turns and may show one.
    pub fn write(
        &mut self,
        items: u64,
        removes: &[u64],
        puts: Option<(u64, &[u8])>,
    ) -> RecentUpdate {
        let before = self.as_of;
        let mut link = Sha256::new();
        link.update(before.link);
        link.update(format!("{items} {removes:?} {puts:?}"));
        self.as_of = HistoryVersion {
            seq: before.seq + items,
            link: link.finalize().into(),
        };
        for ordinal in removes {
            self.visible_turns.remove(ordinal);
        }
        if let Some((ordinal, record)) = puts {
            self.visible_turns.insert(ordinal, record.to_vec());
        }
        RecentUpdate {
            before,
            after: self.as_of,
            removes: removes.to_vec(),
            puts: puts.map(|(ordinal, record)| turn(ordinal, record)),
        }
    }

    /// A write of two items that shows a turn.
    pub fn put(&mut self, ordinal: u64, record: &str) -> RecentUpdate {
        self.write(2, &[], Some((ordinal, record.as_bytes())))
    }

    /// A write of one item that removes turns.
    pub fn remove(&mut self, ordinals: &[u64]) -> RecentUpdate {
        self.write(1, ordinals, None)
    }

    /// A write of one item that neither shows nor removes a turn.
    pub fn write_hidden_item(&mut self) -> RecentUpdate {
        self.write(1, &[], None)
    }

    /// A copy of the newest `limit` turns.
    pub fn fill(&self, limit: usize) -> RecentFill {
        RecentFill {
            as_of: self.as_of,
            turns: self.newest(limit),
            all: self.visible_turns.len() <= limit,
        }
    }

    /// The newest `limit` turns, oldest first.
    pub fn newest(&self, limit: usize) -> Vec<HotTurn> {
        let skip = self.visible_turns.len().saturating_sub(limit);
        let newest = self.visible_turns.iter().skip(skip);
        newest
            .map(|(ordinal, record)| turn(*ordinal, record))
            .collect()
    }

    /// The expected result of reading the newest `limit` turns of a complete copy.
    pub fn recent(&self, limit: usize) -> Option<Recent> {
        Some(Recent {
            as_of: self.as_of,
            turns: self.newest(limit),
            all: self.visible_turns.len() <= limit,
        })
    }
}

impl Default for TestHistory {
    fn default() -> Self {
        Self::new()
    }
}

pub fn turn(ordinal: u64, record: &[u8]) -> HotTurn {
    HotTurn {
        ordinal,
        record: record.to_vec(),
    }
}

impl HotFixture {
    pub async fn recent(&self, key: &HotKey, limit: usize) -> Option<Recent> {
        self.hot.recent(key, limit).await.unwrap()
    }

    /// The ordinals of a copy, and whether they are complete.
    pub async fn ordinals(&self, key: &HotKey) -> Option<(Vec<u64>, bool)> {
        let Recent { turns, all, .. } = self.recent(key, 1000).await?;
        Some((turns.iter().map(|turn| turn.ordinal).collect(), all))
    }

    pub async fn advance(&self, key: &HotKey, steps: &[&RecentUpdate]) {
        let steps = steps.iter().map(|step| (*key, (*step).clone()));
        self.hot.advance(steps.collect()).await.unwrap();
    }

    pub async fn fill(&self, key: &HotKey, fill: RecentFill) {
        self.hot.fill(key, fill).await.unwrap();
    }

    pub async fn forget_recent(&self, key: &HotKey, seq: u64) {
        self.hot.forget_recent(key, seq).await.unwrap();
    }

    /// A history of turns 1 to `turns`, sent in one batch.
    pub async fn send_history(&self, key: &HotKey, turns: u64) -> TestHistory {
        let mut history = TestHistory::new();
        let steps: Vec<_> = (1..=turns)
            .map(|n| (*key, history.put(n, &format!("turn {n}"))))
            .collect();
        self.hot.advance(steps).await.unwrap();
        history
    }
}
