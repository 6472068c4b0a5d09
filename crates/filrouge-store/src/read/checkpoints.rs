//! Checkpoints and leases, verified (DESIGN §6).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use filrouge_types::{
    Checkpoint, Failure, Lease, SessionEvent, SessionId, TenantId, Timestamp, TurnId, TurnStatus,
};

use super::{Loaded, Sight};
use crate::command::Scope;
use crate::rows::{CheckpointRow, EventPlace, SessionPk, View};

/// Events read at once.
const EVENTS: usize = 1024;
/// Sessions remembered while events of all of them are read.
const SESSIONS: usize = 512;

/// The newest checkpoint that can be read, and how far the search for it went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewestCheckpoint {
    /// The checkpoint; `None` when none can be read, or none is there.
    pub checkpoint: Option<Checkpoint>,
    /// How many newer ones could not be read.
    pub unreadable: u64,
}

impl<V: View + ?Sized> Sight<'_, V> {
    /// Who holds a session, at this time.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`.
    pub fn lease(&self, scope: &Scope, id: &SessionId, now: Timestamp) -> Result<Lease, Failure> {
        Ok(self.get(scope, id)?.head.lease.shown(now))
    }

    /// Whether who asks holds the session at this time, and nobody has worked at this turn since the fence was given out: it
    /// was left behind, and is the holder's to work at (DESIGN §6).
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `turn_not_found`, `integrity_error`.
    pub fn is_left_turn(
        &self,
        scope: &Scope,
        id: &SessionId,
        turn: &TurnId,
        now: Timestamp,
    ) -> Result<bool, Failure> {
        let session = self.get(scope, id)?;
        let lease = &session.head.lease;
        let holds = scope.hold.is_some_and(|hold| hold.fence == lease.fence);
        if !holds || !lease.is_live(now) {
            return Ok(false);
        }
        let row = self
            .find_turn(&session, scope, turn)?
            .ok_or_else(|| self.no_turn(&session, turn))?;
        if row.status != TurnStatus::Open || row.touched_at >= lease.since {
            return Ok(false);
        }
        let draft = self.draft_row(&session, &row)?;
        Ok(draft.is_none_or(|draft| draft.beat_at < lease.since))
    }

    /// The checkpoint at a seq, verified.
    ///
    /// # Errors
    /// `integrity_error` when it is not what was put; `key_missing`.
    pub fn checkpoint_at(&self, session: &Loaded, seq: u64) -> Result<Option<Checkpoint>, Failure> {
        let found = self.view.checkpoint(session.pk, seq)?;
        found
            .map(|row| self.verified_checkpoint(session, row))
            .transpose()
    }

    /// As [`Self::checkpoint_at`]; none when it is not what was put.
    pub(crate) fn readable_checkpoint(
        &self,
        session: &Loaded,
        seq: u64,
    ) -> Result<Option<Checkpoint>, Failure> {
        match self.checkpoint_at(session, seq) {
            Err(failure) if is_of_the_row(&failure) => Ok(None),
            found => found,
        }
    }

    pub(crate) fn verified_checkpoint(
        &self,
        session: &Loaded,
        row: CheckpointRow,
    ) -> Result<Checkpoint, Failure> {
        let (fits, seq) = (row.verified(self.keyring, session.pk), row.checkpoint.seq);
        self.vouch(session, fits, None, || {
            format!("the checkpoint at seq {seq} was changed")
        })?;
        Ok(row.checkpoint)
    }

    /// The newest checkpoint that can be read: where one cannot, or is missing, the one before it, and so on.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn newest_checkpoint(&self, session: &Loaded) -> Result<NewestCheckpoint, Failure> {
        let known = session.head.checkpoints;
        let mut newest = NewestCheckpoint::default();
        if known.count == 0 {
            return Ok(newest);
        }
        newest.checkpoint = self.readable_checkpoint(session, known.newest)?;
        if newest.checkpoint.is_some() {
            return Ok(newest);
        }
        let mut seqs = self.view.checkpoint_seqs(session.pk)?;
        seqs.retain(|seq| *seq < known.newest);
        newest.unreadable = 1;
        for seq in seqs.into_iter().rev() {
            newest.checkpoint = self.readable_checkpoint(session, seq)?;
            if newest.checkpoint.is_some() {
                return Ok(newest);
            }
            newest.unreadable += 1;
        }
        Ok(newest)
    }

    /// All checkpoints of a session, newest first; of one that cannot be read its seq alone.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`.
    pub fn checkpoints(
        &self,
        scope: &Scope,
        id: &SessionId,
    ) -> Result<Vec<Result<Checkpoint, u64>>, Failure> {
        let session = self.get(scope, id)?;
        let seqs = self.view.checkpoint_seqs(session.pk)?;
        let mut all = Vec::with_capacity(seqs.len());
        for seq in seqs.into_iter().rev() {
            match self.checkpoint_at(&session, seq) {
                Ok(found) => all.extend(found.map(Ok)),
                Err(failure) if is_of_the_row(&failure) => all.push(Err(seq)),
                Err(failure) => return Err(failure),
            }
        }
        Ok(all)
    }

    /// Shows the events of a tenant's sessions that happened in `from..to`, in that order, with their sessions.
    ///
    /// # Errors
    /// `integrity_error`, `key_missing`; those of `see`, which end it.
    pub fn tenant_events(
        &self,
        tenant: &TenantId,
        (from, to): (Timestamp, Timestamp),
        see: &mut dyn FnMut(&SessionId, &SessionEvent) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut after: Option<EventPlace> = None;
        // Calls overlap: their events come in turns.
        let mut known: HashMap<SessionPk, Option<Loaded>> = HashMap::new();
        loop {
            let rows = self.view.events_at(from, to, after, EVENTS)?;
            if rows.is_empty() {
                return Ok(());
            }
            for (pk, row) in rows {
                after = Some((row.event.at, pk, row.number));
                if known.len() >= SESSIONS && !known.contains_key(&pk) {
                    known.clear();
                }
                let session = match known.entry(pk) {
                    Entry::Occupied(session) => session.into_mut(),
                    Entry::Vacant(place) => {
                        let stored = self.view.session_by_pk(pk)?;
                        let stored = stored.filter(|s| s.row.tenant_id == *tenant);
                        place.insert(stored.map(|s| self.load(s)).transpose()?)
                    }
                };
                if let Some(session) = session {
                    let event = self.verified_event(session, row)?;
                    see(&session.row.session_id, &event)?;
                }
            }
        }
    }
}

/// Whether one row is not what was put, or cannot be told to be.
fn is_of_the_row(failure: &Failure) -> bool {
    use filrouge_types::ErrorCode::{IntegrityError, KeyMissing};
    matches!(failure.code, IntegrityError | KeyMissing)
}
