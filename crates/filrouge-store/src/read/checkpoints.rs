//! Reads and verifies checkpoints and leases (DESIGN §6), and the events of a tenant.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use filrouge_types::{
    Checkpoint, Failure, Lease, Result, SessionEvent, SessionId, TenantId, Timestamp, TurnId,
    TurnStatus,
};

use super::{VerifiedSession, VerifiedSnapshot};
use crate::command::Scope;
use crate::rows::{EventPosition, SessionPk, View};

/// The number of events per read.
const EVENTS_PER_READ: usize = 1024;
/// The maximum number of sessions cached while events of all sessions are read.
const CACHED_SESSIONS_MAX: usize = 512;

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
    pub fn lease(&self, scope: &Scope, id: &SessionId, now: Timestamp) -> Result<Lease> {
        Ok(self.get(scope, id)?.head.lease.to_lease(now))
    }

    /// Whether the caller is the session's holder at this time, and the previous holder left this turn open: the turn
    /// has no write since the caller's fence was granted. The caller may then continue the turn (DESIGN §6).
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `turn_not_found`, `integrity_error`.
    pub fn is_inherited_turn(
        &self,
        scope: &Scope,
        id: &SessionId,
        turn: &TurnId,
        now: Timestamp,
    ) -> Result<bool> {
        let session = self.get(scope, id)?;
        let lease = &session.head.lease;
        let is_holder = scope.fence.is_some_and(|token| token.fence == lease.fence);
        if !is_holder || !lease.is_live(now) {
            return Ok(false);
        }
        let row = self
            .find_turn(&session, scope, turn)?
            .ok_or_else(|| self.absent_turn_failure(&session, turn))?;
        if row.status != TurnStatus::Open || row.last_write_at >= lease.since {
            return Ok(false);
        }
        let draft = self.draft_row(&session, &row)?;
        Ok(draft.is_none_or(|draft| draft.beat_at < lease.since))
    }

    /// The checkpoint at a seq, verified.
    ///
    /// # Errors
    /// `integrity_error` when it differs from what was written, or is not one of the head's; `key_missing`.
    pub fn checkpoint_at(&self, session: &VerifiedSession, seq: u64) -> Result<Option<Checkpoint>> {
        let Some(row) = self.view.checkpoint(session.pk, seq)? else {
            return Ok(None);
        };
        let (mac_matches, seq) = (
            row.mac_matches(self.keyring, session.pk),
            row.checkpoint.seq,
        );
        self.check_mac(session, mac_matches, None, || {
            format!("the checkpoint at seq {seq} was changed")
        })?;
        let is_named = session.head.checkpoints.includes(&row.checkpoint);
        self.check_mac(session, Some(is_named), None, || {
            format!("the checkpoint at seq {seq} was added, or restored from an older state")
        })?;
        Ok(Some(row.checkpoint))
    }

    /// The checkpoint at a seq; `None` if there is none or if it cannot be verified.
    pub(crate) fn readable_checkpoint(
        &self,
        session: &VerifiedSession,
        seq: u64,
    ) -> Result<Option<Checkpoint>> {
        match self.checkpoint_at(session, seq) {
            Err(failure) if is_row_failure(&failure) => Ok(None),
            result => result,
        }
    }

    /// The seqs of the checkpoints that the head names, ascending. If it is of a format that names none, the stored
    /// ones, which must match it.
    fn checkpoint_seqs(&self, session: &VerifiedSession) -> Result<Vec<u64>> {
        let head = &session.head.checkpoints;
        if head.are_named() {
            return Ok(head.named.iter().map(|named| named.seq).collect());
        }
        let seqs = self.view.checkpoint_seqs(session.pk)?;
        self.check_mac(session, Some(head.matches(&seqs)), None, || {
            "checkpoints are missing or were added".to_owned()
        })?;
        Ok(seqs)
    }

    /// The newest readable checkpoint. Skips checkpoints that are unreadable or missing.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn newest_checkpoint(&self, session: &VerifiedSession) -> Result<NewestCheckpoint> {
        let mut newest = NewestCheckpoint::default();
        let seqs = match self.checkpoint_seqs(session) {
            Err(failure) if is_row_failure(&failure) => {
                newest.unreadable = session.head.checkpoints.count;
                return Ok(newest);
            }
            seqs => seqs?,
        };
        for seq in seqs.into_iter().rev() {
            newest.checkpoint = self.readable_checkpoint(session, seq)?;
            if newest.checkpoint.is_some() {
                return Ok(newest);
            }
            newest.unreadable += 1;
        }
        Ok(newest)
    }

    /// All checkpoints of a session, newest first. An `Err` contains the seq of a checkpoint that is missing or changed,
    /// or that the head does not name.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`.
    pub fn checkpoints(
        &self,
        scope: &Scope,
        id: &SessionId,
    ) -> Result<Vec<Result<Checkpoint, u64>>> {
        let session = self.get(scope, id)?;
        let mut seqs = BTreeSet::from_iter(self.checkpoint_seqs(&session)?);
        seqs.extend(self.view.checkpoint_seqs(session.pk)?);
        let checkpoints = seqs.into_iter().rev().map(|seq| {
            let checkpoint = self.readable_checkpoint(&session, seq)?;
            Ok(checkpoint.ok_or(seq))
        });
        checkpoints.collect()
    }

    /// Calls `visit` with each event in `from..to` of a tenant's sessions, ordered by time, and with the session's id.
    /// Sessions of teams are left out: they are no live calls.
    ///
    /// # Errors
    /// `integrity_error`, `key_missing`; a failure of `visit` ends the scan.
    pub fn tenant_events(
        &self,
        tenant: &TenantId,
        (from, to): (Timestamp, Timestamp),
        visit: &mut dyn FnMut(&SessionId, &SessionEvent) -> Result<()>,
    ) -> Result<()> {
        let mut after: Option<EventPosition> = None;
        // Live calls overlap, so the events of several sessions alternate. Therefore several sessions are cached.
        let mut sessions: HashMap<SessionPk, Option<VerifiedSession>> = HashMap::new();
        loop {
            let rows = self.view.events_at(from, to, after, EVENTS_PER_READ)?;
            if rows.is_empty() {
                return Ok(());
            }
            for (pk, row) in rows {
                after = Some((row.event.at, pk, row.number));
                if sessions.len() >= CACHED_SESSIONS_MAX && !sessions.contains_key(&pk) {
                    sessions.clear();
                }
                let session = match sessions.entry(pk) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => {
                        let stored = self.view.session_by_pk(pk)?;
                        let stored = stored
                            .filter(|s| s.row.tenant_id == *tenant && s.row.team_id.is_none());
                        entry.insert(stored.map(|s| self.verified_session(s)).transpose()?)
                    }
                };
                if let Some(session) = session {
                    let event = self.verified_event(session, row)?;
                    visit(&session.row.session_id, &event)?;
                }
            }
        }
    }
}

/// Whether the failure concerns only one row: the row was changed, or the key that signed it is missing.
fn is_row_failure(failure: &Failure) -> bool {
    use filrouge_types::ErrorCode::{IntegrityError, KeyMissing};
    matches!(failure.code, IntegrityError | KeyMissing)
}
