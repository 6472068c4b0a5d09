//! Queries that the spool answers from what it knows of sessions, without the ledger.

use std::sync::Arc;

use filrouge_store::Ledger;
use filrouge_store::command::Scope;
use filrouge_types::{Checkpoint, Failure, RequestId, SessionId, Turn};

use super::Spooling;
use super::here::LocalSession;
use super::known::Known;
use super::view::{SpoolView, Waiting};

impl Spooling {
    /// The ledger that the spool writes to.
    pub(crate) fn inner(&self) -> &Arc<dyn Ledger> {
        &self.core.inner
    }

    /// What is known of a session with queued writes, without checkpoint and items. `None` if the session has no queued
    /// writes, or if the ledger has not shown the session to this caller.
    #[must_use]
    pub fn waiting(&self, scope: &Scope, session: &SessionId) -> Option<Waiting> {
        self.with_waiting(scope, session, |_, _, waiting| Ok(waiting))
    }

    /// Like [`Self::waiting`], with the newest checkpoint and at most `limit` of the newest items that are queued after
    /// it.
    #[must_use]
    pub fn waiting_tail(
        &self,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
    ) -> Option<Waiting> {
        self.with_waiting(scope, session, |here, _, mut waiting| {
            (waiting.checkpoint, waiting.items, waiting.trimmed) = here.tail(limit)?;
            Ok(waiting)
        })
    }

    /// The turn that was started with the request id `request`, if it is known and its session has queued writes.
    #[must_use]
    pub fn waiting_turn(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &RequestId,
    ) -> Option<Turn> {
        self.with_waiting(scope, session, |here, known, _| {
            here.turn_of(request, known)
        })
        .flatten()
    }

    fn with_waiting<T>(
        &self,
        scope: &Scope,
        session: &SessionId,
        see: impl FnOnce(&LocalSession, &Known, Waiting) -> Result<T, Failure>,
    ) -> Option<T> {
        let key = (scope.tenant.clone(), session.clone());
        let (now, core) = (self.core.clock.now(), &self.core);
        let mut state = core.state();
        state.known(&key).filter(|known| known.sees(scope))?;
        let entries = state.queues.get(&key)?.len() as u64;
        let down = state.is_ledger_unavailable();
        let seen = core.local_session(&mut state, &key).and_then(|found| {
            let Some((here, known)) = found else {
                return Ok(None);
            };
            let (lease, label) = here.lease(now)?;
            let waiting = Waiting {
                lease,
                checkpoint: None,
                items: Vec::new(),
                trimmed: false,
                last_seq: known.last_seq,
                state: label,
                entries,
                down,
            };
            see(here, known, waiting).map(Some)
        });
        seen.unwrap_or_else(|failure| {
            tracing::error!(%failure, "[SPOOL] a session that waits cannot be read");
            None
        })
    }

    /// Records what a caller has just read from the ledger to resume a session under a lease: the newest checkpoint,
    /// the last seq and the session's state. From it the session can continue while the ledger does not answer. Does
    /// nothing if the session is not known or has queued writes.
    pub fn resumed(
        &self,
        scope: &Scope,
        session: &SessionId,
        checkpoint: Option<&Checkpoint>,
        last_seq: u64,
        state: Option<&str>,
    ) {
        let key = (scope.tenant.clone(), session.clone());
        let mut core = self.core.state();
        if core.is_queued(&key) || core.known(&key).is_none() {
            return;
        }
        core.change(&key, |known| {
            if known.last_seq != last_seq {
                known.forget_contents(self.core.entropy.as_ref());
            }
            known.checkpoint = checkpoint.cloned();
            known.state = state.map(Into::into);
            known.last_seq = last_seq;
        });
    }

    /// The spool's state, from memory.
    #[must_use]
    pub fn view(&self) -> SpoolView {
        self.core.state().view(self.core.options.bytes)
    }

    /// Whether enough is known of a session to continue it for this caller without the ledger. Such a session exists in
    /// the ledger.
    pub(crate) fn knows(&self, scope: &Scope, session: &SessionId) -> bool {
        let key = (scope.tenant.clone(), session.clone());
        let state = self.core.state();
        state.known(&key).is_some_and(|known| known.sees(scope))
    }
}
