//! A history of writes, as the ledger would tell it, and what a copy of it may answer.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::super::{AsOf, Fill, HotKey, HotTurn, Recent, Step};
use super::fixture::HotFixture;
use crate::chain::GENESIS;

/// A session's history up to some write.
#[derive(Clone, Debug)]
pub struct Story {
    pub as_of: AsOf,
    /// The turns that are shown.
    pub shown: BTreeMap<u64, Vec<u8>>,
}

impl Story {
    /// A session without items.
    pub fn new() -> Self {
        Self {
            as_of: AsOf {
                seq: 0,
                link: GENESIS,
            },
            shown: BTreeMap::new(),
        }
    }

    /// A write of `items` items that removes turns and shows one.
    pub fn write(&mut self, items: u64, removes: &[u64], puts: Option<(u64, &[u8])>) -> Step {
        let before = self.as_of;
        let mut link = Sha256::new();
        link.update(before.link);
        link.update(format!("{items} {removes:?} {puts:?}"));
        self.as_of = AsOf {
            seq: before.seq + items,
            link: link.finalize().into(),
        };
        for ordinal in removes {
            self.shown.remove(ordinal);
        }
        if let Some((ordinal, record)) = puts {
            self.shown.insert(ordinal, record.to_vec());
        }
        Step {
            before,
            after: self.as_of,
            removes: removes.to_vec(),
            puts: puts.map(|(ordinal, record)| turn(ordinal, record)),
        }
    }

    /// A write of two items that shows a turn.
    pub fn put(&mut self, ordinal: u64, record: &str) -> Step {
        self.write(2, &[], Some((ordinal, record.as_bytes())))
    }

    /// A write of one item that removes turns.
    pub fn remove(&mut self, ordinals: &[u64]) -> Step {
        self.write(1, ordinals, None)
    }

    /// A write of one item that neither shows nor removes a turn.
    pub fn pass(&mut self) -> Step {
        self.write(1, &[], None)
    }

    /// A copy of the newest `most` turns.
    pub fn fill(&self, most: usize) -> Fill {
        Fill {
            as_of: self.as_of,
            turns: self.newest(most),
            all: self.shown.len() <= most,
        }
    }

    /// The newest `limit` turns, oldest first.
    pub fn newest(&self, limit: usize) -> Vec<HotTurn> {
        let skip = self.shown.len().saturating_sub(limit);
        let newest = self.shown.iter().skip(skip);
        newest
            .map(|(ordinal, record)| turn(*ordinal, record))
            .collect()
    }

    /// What a whole copy answers.
    pub fn recent(&self, limit: usize) -> Option<Recent> {
        Some(Recent {
            as_of: self.as_of,
            turns: self.newest(limit),
            all: self.shown.len() <= limit,
        })
    }
}

impl Default for Story {
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

    /// The ordinals of a copy, and whether they are all.
    pub async fn ordinals(&self, key: &HotKey) -> Option<(Vec<u64>, bool)> {
        let Recent { turns, all, .. } = self.recent(key, 1000).await?;
        Some((turns.iter().map(|turn| turn.ordinal).collect(), all))
    }

    pub async fn advance(&self, key: &HotKey, steps: &[&Step]) {
        let steps = steps.iter().map(|step| (*key, (*step).clone()));
        self.hot.advance(steps.collect()).await.unwrap();
    }

    pub async fn fill(&self, key: &HotKey, fill: Fill) {
        self.hot.fill(key, fill).await.unwrap();
    }

    pub async fn forget_recent(&self, key: &HotKey, seq: u64) {
        self.hot.forget_recent(key, seq).await.unwrap();
    }

    /// A story of turns 1 to `turns`, told in one batch.
    pub async fn told(&self, key: &HotKey, turns: u64) -> Story {
        let mut story = Story::new();
        let steps: Vec<_> = (1..=turns)
            .map(|n| (*key, story.put(n, &format!("turn {n}"))))
            .collect();
        self.hot.advance(steps).await.unwrap();
        story
    }
}
