//! What is known of what lies beside a session's items: its events and checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::rows::{CheckpointRow, EventRow, SessionPk, event_key};

use crate::stage::wanted::{FetchedCheckpoints, FetchedEvents};

/// What is known; the outer `None` of each answer means that the database has to be asked.
pub(in crate::stage) struct Beside {
    events: BTreeMap<SessionPk, FetchedEvents>,
    checkpoints: BTreeMap<SessionPk, FetchedCheckpoints>,
}

impl Beside {
    pub(super) const fn new(
        events: BTreeMap<SessionPk, FetchedEvents>,
        checkpoints: BTreeMap<SessionPk, FetchedCheckpoints>,
    ) -> Self {
        Self {
            events,
            checkpoints,
        }
    }

    /// A session was made: it has nothing yet.
    pub(super) fn made(&mut self, pk: SessionPk) {
        let events = FetchedEvents {
            keys: Some(BTreeSet::new()),
            ..FetchedEvents::default()
        };
        self.events.insert(pk, events);
        self.checkpoints.insert(pk, FetchedCheckpoints::default());
    }

    pub(super) fn forget(&mut self, pk: SessionPk) {
        self.events.remove(&pk);
        self.checkpoints.remove(&pk);
    }

    pub(in crate::stage) fn newest_event(&self, pk: SessionPk) -> Option<u64> {
        self.events.get(&pk).map(|of| of.newest)
    }

    pub(in crate::stage) fn event(
        &self,
        pk: SessionPk,
        key: [u8; 16],
    ) -> Option<Option<&EventRow>> {
        let of = self.events.get(&pk)?;
        let absent = || {
            let keys = of.keys.as_ref()?;
            (!keys.contains(&key)).then_some(None)
        };
        of.by_key
            .get(&key)
            .map_or_else(absent, |found| Some(found.as_ref()))
    }

    pub(in crate::stage) fn put_event(&mut self, pk: SessionPk, row: &EventRow) {
        let Some(of) = self.events.get_mut(&pk) else {
            return;
        };
        of.newest = of.newest.max(row.number);
        of.by_key
            .insert(event_key(&row.event.key), Some(row.clone()));
    }

    pub(in crate::stage) fn checkpoint(
        &self,
        pk: SessionPk,
        seq: u64,
    ) -> Option<Option<&CheckpointRow>> {
        let of = self.checkpoints.get(&pk)?;
        match of.at.get(&seq) {
            Some(found) => Some(Some(found)),
            None => (!of.seqs.contains(&seq)).then_some(None),
        }
    }

    pub(in crate::stage) fn checkpoint_seqs(&self, pk: SessionPk) -> Option<Vec<u64>> {
        let of = self.checkpoints.get(&pk)?;
        Some(of.seqs.iter().copied().collect())
    }

    pub(in crate::stage) fn put_checkpoint(&mut self, pk: SessionPk, row: &CheckpointRow) {
        if let Some(of) = self.checkpoints.get_mut(&pk) {
            of.seqs.insert(row.checkpoint.seq);
            of.at.insert(row.checkpoint.seq, row.clone());
        }
    }

    pub(in crate::stage) fn delete_checkpoint(&mut self, pk: SessionPk, seq: u64) {
        if let Some(of) = self.checkpoints.get_mut(&pk) {
            of.seqs.remove(&seq);
            of.at.remove(&seq);
        }
    }
}
