//! Queries that the spool answers from its known state of sessions, without the ledger.

use std::sync::Arc;

use filrouge_store::Ledger;
use filrouge_store::command::Scope;
use filrouge_types::{Checkpoint, Failure, RequestId, SessionId, Turn};

use super::SpooledLedger;
use super::known::KnownSession;
use super::local_session::LocalSession;
use super::view::{SpoolView, SpooledSession};

impl SpooledLedger {
    /// The ledger that the spool writes to.
    pub(crate) fn inner(&self) -> &Arc<dyn Ledger> {
        &self.core.inner
    }

    /// The known state of a session with queued writes, without checkpoint and items. `None` if the session has no
    /// queued writes, or if the ledger has not shown the session to this caller.
    pub fn spooled_session(&self, scope: &Scope, session: &SessionId) -> Option<SpooledSession> {
        self.with_spooled_session(scope, session, |_, _, spooled_session| Ok(spooled_session))
    }

    /// Like [`Self::spooled_session`], with the newest checkpoint and at most `limit` of the newest items that are
    /// queued after it.
    pub fn spooled_tail(
        &self,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
    ) -> Option<SpooledSession> {
        self.with_spooled_session(scope, session, |local_session, _, mut spooled_session| {
            (
                spooled_session.checkpoint,
                spooled_session.items,
                spooled_session.trimmed,
            ) = local_session.tail(limit)?;
            Ok(spooled_session)
        })
    }

    /// The turn that was started with the request id `request`, if it is known and its session has queued writes.
    pub fn spooled_turn(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &RequestId,
    ) -> Option<Turn> {
        self.with_spooled_session(scope, session, |local_session, known, _| {
            local_session.turn_of_request(request, known)
        })
        .flatten()
    }

    fn with_spooled_session<T>(
        &self,
        scope: &Scope,
        session: &SessionId,
        read: impl FnOnce(&LocalSession, &KnownSession, SpooledSession) -> Result<T, Failure>,
    ) -> Option<T> {
        let key = (scope.tenant.clone(), session.clone());
        let (now, core) = (self.core.clock.now(), &self.core);
        let mut state = core.state();
        state
            .known(&key)
            .filter(|known| known.was_shown_to(scope))?;
        let entries = state.queues.get(&key)?.len() as u64;
        let down = state.is_ledger_unavailable();
        let result = core.local_session(&mut state, &key).and_then(|local| {
            let Some((local_session, known)) = local else {
                return Ok(None);
            };
            let (lease, label) = local_session.lease(now)?;
            let spooled_session = SpooledSession {
                lease,
                checkpoint: None,
                items: Vec::new(),
                trimmed: false,
                last_seq: known.last_seq,
                state: label,
                entries,
                down,
            };
            read(local_session, known, spooled_session).map(Some)
        });
        result.unwrap_or_else(|failure| {
            tracing::error!(%failure, "[SPOOL] a session that waits cannot be read");
            None
        })
    }

    /// Records data that a caller has just read from the ledger to resume a session under a lease: the newest
    /// checkpoint, the last seq and the session's state. The session can continue from it while the ledger does not
    /// answer. Does nothing if the session is not known or has queued writes.
    pub fn record_resume(
        &self,
        scope: &Scope,
        session: &SessionId,
        checkpoint: Option<&Checkpoint>,
        last_seq: u64,
        state: Option<&str>,
    ) {
        let key = (scope.tenant.clone(), session.clone());
        let mut spool_state = self.core.state();
        if spool_state.is_queued(&key) || spool_state.known(&key).is_none() {
            return;
        }
        spool_state.change(&key, |known| {
            if known.last_seq != last_seq {
                known.forget_contents(self.core.entropy.as_ref());
            }
            known.checkpoint = checkpoint.cloned();
            known.state = state.map(Into::into);
            known.last_seq = last_seq;
        });
    }

    /// The spool's state, from memory.
    pub fn view(&self) -> SpoolView {
        self.core.state().view(self.core.options.bytes)
    }

    /// Whether a session can continue for this caller without the ledger. If so, the session exists in the ledger.
    pub(crate) fn can_continue(&self, scope: &Scope, session: &SessionId) -> bool {
        let key = (scope.tenant.clone(), session.clone());
        let state = self.core.state();
        state
            .known(&key)
            .is_some_and(|known| known.was_shown_to(scope))
    }
}
