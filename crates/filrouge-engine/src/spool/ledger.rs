//! What a spool answers of the sessions that it knows.

use std::sync::Arc;

use filrouge_store::Ledger;
use filrouge_store::command::Scope;
use filrouge_types::{Checkpoint, Failure, RequestId, SessionId, Turn};

use super::Spooling;
use super::here::Here;
use super::known::Known;
use super::view::{SpoolView, Waiting};

impl Spooling {
    /// The ledger that it spools for.
    pub(crate) fn inner(&self) -> &Arc<dyn Ledger> {
        &self.core.inner
    }

    /// What is known of a session whose writes wait for a ledger that does not answer, without its contents; `None` when
    /// none do, and for who may not see it.
    #[must_use]
    pub fn waiting(&self, scope: &Scope, session: &SessionId) -> Option<Waiting> {
        self.of_waiting(scope, session, |_, _, waiting| Ok(waiting))
    }

    /// As [`Self::waiting`], with the newest checkpoint and at most `most` of the items that wait behind it: the newest.
    #[must_use]
    pub fn waiting_tail(&self, scope: &Scope, session: &SessionId, most: usize) -> Option<Waiting> {
        self.of_waiting(scope, session, |here, _, mut waiting| {
            (waiting.checkpoint, waiting.items, waiting.trimmed) = here.tail(most)?;
            Ok(waiting)
        })
    }

    /// The turn of a request in such a session, if it is known.
    #[must_use]
    pub fn waiting_turn(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &RequestId,
    ) -> Option<Turn> {
        self.of_waiting(scope, session, |here, known, _| {
            here.turn_of(request, known)
        })
        .flatten()
    }

    fn of_waiting<T>(
        &self,
        scope: &Scope,
        session: &SessionId,
        see: impl FnOnce(&Here, &Known, Waiting) -> Result<T, Failure>,
    ) -> Option<T> {
        let key = (scope.tenant.clone(), session.clone());
        let (now, core) = (self.core.clock.now(), &self.core);
        let mut state = core.state();
        state.known(&key).filter(|known| known.sees(scope))?;
        let entries = state.queues.get(&key)?.len() as u64;
        let down = state.is_down();
        let seen = core.here(&mut state, &key).and_then(|found| {
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

    /// Reports a session that somebody goes on with under a lease, as it was read: what is known then is enough to go on
    /// while the ledger does not answer.
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
                known.others_wrote(self.core.entropy.as_ref());
            }
            known.checkpoint = checkpoint.cloned();
            known.state = state.map(Into::into);
            known.last_seq = last_seq;
        });
    }

    /// What waits, and what has happened in this process; asks nothing.
    #[must_use]
    pub fn view(&self) -> SpoolView {
        self.core.state().view(self.core.options.bytes)
    }

    /// Whether a session is known well enough to go on without the ledger: such a one is in the ledger.
    pub(crate) fn knows(&self, scope: &Scope, session: &SessionId) -> bool {
        let key = (scope.tenant.clone(), session.clone());
        let state = self.core.state();
        state.known(&key).is_some_and(|known| known.sees(scope))
    }
}
