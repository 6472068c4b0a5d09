//! The cached events and checkpoints of sessions.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::rows::{CheckpointRow, EventRow, SessionPk, event_key};

use crate::stage::prefetch::{FetchedCheckpoints, FetchedEvents};

/// The cached rows. If a method returns `None`, the row is not cached: the caller must query the database. `Some(None)`
/// means that the row does not exist.
pub(in crate::stage) struct SessionSideRows {
    events: BTreeMap<SessionPk, FetchedEvents>,
    checkpoints: BTreeMap<SessionPk, FetchedCheckpoints>,
}

impl SessionSideRows {
    pub(super) const fn new(
        events: BTreeMap<SessionPk, FetchedEvents>,
        checkpoints: BTreeMap<SessionPk, FetchedCheckpoints>,
    ) -> Self {
        Self {
            events,
            checkpoints,
        }
    }

    /// Adds a session that the group has created: it has no rows yet.
    pub(super) fn add_session(&mut self, pk: SessionPk) {
        let events = FetchedEvents {
            keys: Some(BTreeSet::new()),
            ..FetchedEvents::default()
        };
        self.events.insert(pk, events);
        self.checkpoints.insert(pk, FetchedCheckpoints::default());
    }

    pub(super) fn drop_session(&mut self, pk: SessionPk) {
        self.events.remove(&pk);
        self.checkpoints.remove(&pk);
    }

    pub(in crate::stage) fn newest_event(&self, pk: SessionPk) -> Option<u64> {
        self.events.get(&pk).map(|events| events.newest)
    }

    pub(in crate::stage) fn event(
        &self,
        pk: SessionPk,
        key: [u8; 16],
    ) -> Option<Option<&EventRow>> {
        let events = self.events.get(&pk)?;
        let absent = || {
            let keys = events.keys.as_ref()?;
            (!keys.contains(&key)).then_some(None)
        };
        events
            .by_key
            .get(&key)
            .map_or_else(absent, |found| Some(found.as_ref()))
    }

    pub(in crate::stage) fn put_event(&mut self, pk: SessionPk, row: &EventRow) {
        let Some(events) = self.events.get_mut(&pk) else {
            return;
        };
        events.newest = events.newest.max(row.number);
        events
            .by_key
            .insert(event_key(&row.event.key), Some(row.clone()));
    }

    pub(in crate::stage) fn checkpoint(
        &self,
        pk: SessionPk,
        seq: u64,
    ) -> Option<Option<&CheckpointRow>> {
        let checkpoints = self.checkpoints.get(&pk)?;
        match checkpoints.by_seq.get(&seq) {
            Some(found) => Some(Some(found)),
            None => (!checkpoints.seqs.contains(&seq)).then_some(None),
        }
    }

    pub(in crate::stage) fn checkpoint_seqs(&self, pk: SessionPk) -> Option<Vec<u64>> {
        let checkpoints = self.checkpoints.get(&pk)?;
        Some(checkpoints.seqs.iter().copied().collect())
    }

    pub(in crate::stage) fn put_checkpoint(&mut self, pk: SessionPk, row: &CheckpointRow) {
        if let Some(checkpoints) = self.checkpoints.get_mut(&pk) {
            checkpoints.seqs.insert(row.checkpoint.seq);
            checkpoints.by_seq.insert(row.checkpoint.seq, row.clone());
        }
    }

    pub(in crate::stage) fn delete_checkpoint(&mut self, pk: SessionPk, seq: u64) {
        if let Some(checkpoints) = self.checkpoints.get_mut(&pk) {
            checkpoints.seqs.remove(&seq);
            checkpoints.by_seq.remove(&seq);
        }
    }
}
