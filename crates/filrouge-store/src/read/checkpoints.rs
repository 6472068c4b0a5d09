//! Reads and verifies checkpoints and leases (DESIGN §6), and the events of a tenant.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use filrouge_types::{
    Checkpoint, Failure, Lease, SessionEvent, SessionId, TenantId, Timestamp, TurnId, TurnStatus,
};

use super::{VerifiedSession, VerifiedSnapshot};
use crate::command::Scope;
use crate::rows::{CheckpointRow, EventPlace, SessionPk, View};

/// The number of events per read.
const EVENTS: usize = 1024;
/// The maximum number of sessions cached while events of all sessions are read.
const SESSIONS: usize = 512;

/// The newest readable checkpoint, and the number of unreadable ones that are newer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewestCheckpoint {
    /// The checkpoint; `None` if none exists or none is readable.
    pub checkpoint: Option<Checkpoint>,
    /// The number of newer checkpoints that could not be read.
    pub unreadable: u64,
}

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// The lease of a session at the time `now`.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`.
    pub fn lease(&self, scope: &Scope, id: &SessionId, now: Timestamp) -> Result<Lease, Failure> {
        Ok(self.get(scope, id)?.head.lease.shown(now))
    }

    /// Whether the caller is the session's holder at this time and inherited this open turn: the turn was not written
    /// to since the fence was granted, so the previous holder left the turn open, and the caller may continue it
    /// (DESIGN §6).
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `turn_not_found`, `integrity_error`.
    pub fn is_inherited_turn(
        &self,
        scope: &Scope,
        id: &SessionId,
        turn: &TurnId,
        now: Timestamp,
    ) -> Result<bool, Failure> {
        let session = self.get(scope, id)?;
        let lease = &session.head.lease;
        let holds = scope.fence.is_some_and(|own| own.fence == lease.fence);
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
    /// `integrity_error` when it differs from what was written; `key_missing`.
    pub fn checkpoint_at(
        &self,
        session: &VerifiedSession,
        seq: u64,
    ) -> Result<Option<Checkpoint>, Failure> {
        let found = self.view.checkpoint(session.pk, seq)?;
        found
            .map(|row| self.verified_checkpoint(session, row))
            .transpose()
    }

    /// Like [`Self::checkpoint_at`], but also `None` for a checkpoint that cannot be verified.
    pub(crate) fn readable_checkpoint(
        &self,
        session: &VerifiedSession,
        seq: u64,
    ) -> Result<Option<Checkpoint>, Failure> {
        match self.checkpoint_at(session, seq) {
            Err(failure) if concerns_row(&failure) => Ok(None),
            found => found,
        }
    }

    pub(crate) fn verified_checkpoint(
        &self,
        session: &VerifiedSession,
        row: CheckpointRow,
    ) -> Result<Checkpoint, Failure> {
        let (mac_matches, seq) = (row.verified(self.keyring, session.pk), row.checkpoint.seq);
        self.check_mac(session, mac_matches, None, || {
            format!("the checkpoint at seq {seq} was changed")
        })?;
        Ok(row.checkpoint)
    }

    /// The newest readable checkpoint: skips those that are unreadable or missing.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn newest_checkpoint(
        &self,
        session: &VerifiedSession,
    ) -> Result<NewestCheckpoint, Failure> {
        let named = session.head.checkpoints;
        let mut newest = NewestCheckpoint::default();
        if named.count == 0 {
            return Ok(newest);
        }
        newest.checkpoint = self.readable_checkpoint(session, named.newest)?;
        if newest.checkpoint.is_some() {
            return Ok(newest);
        }
        let mut seqs = self.view.checkpoint_seqs(session.pk)?;
        seqs.retain(|seq| *seq < named.newest);
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

    /// All checkpoints of a session, newest first. For one that cannot be verified, the result contains `Err` with its
    /// seq.
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
                Err(failure) if concerns_row(&failure) => all.push(Err(seq)),
                Err(failure) => return Err(failure),
            }
        }
        Ok(all)
    }

    /// Calls `see` with each event in `from..to` of a tenant's sessions, ordered by time, and with the session's id.
    ///
    /// # Errors
    /// `integrity_error`, `key_missing`; a failure of `see` ends the scan.
    pub fn tenant_events(
        &self,
        tenant: &TenantId,
        (from, to): (Timestamp, Timestamp),
        see: &mut dyn FnMut(&SessionId, &SessionEvent) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut after: Option<EventPlace> = None;
        // Live calls overlap, so the events of several sessions alternate: several sessions are cached.
        let mut sessions: HashMap<SessionPk, Option<VerifiedSession>> = HashMap::new();
        loop {
            let rows = self.view.events_at(from, to, after, EVENTS)?;
            if rows.is_empty() {
                return Ok(());
            }
            for (pk, row) in rows {
                after = Some((row.event.at, pk, row.number));
                if sessions.len() >= SESSIONS && !sessions.contains_key(&pk) {
                    sessions.clear();
                }
                let session = match sessions.entry(pk) {
                    Entry::Occupied(session) => session.into_mut(),
                    Entry::Vacant(vacant) => {
                        let stored = self.view.session_by_pk(pk)?;
                        let stored = stored.filter(|s| s.row.tenant_id == *tenant);
                        vacant.insert(stored.map(|s| self.load(s)).transpose()?)
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

/// Whether the failure concerns only the row: the row was modified, or the key that signed it is missing.
fn concerns_row(failure: &Failure) -> bool {
    use filrouge_types::ErrorCode::{IntegrityError, KeyMissing};
    matches!(failure.code, IntegrityError | KeyMissing)
}
