//! A ledger with a spool, as a ledger.

use async_trait::async_trait;
use filrouge_store::command::{Command, Scope};
use filrouge_store::ledger::{About, Backend, Health, Inspect};
use filrouge_store::{Keyring, Ledger, Load, Position, Stored};
use filrouge_types::{Checkpoint, Failure, SessionId};
use tokio::sync::watch;

use super::Spooling;
use super::state::tail;
use super::view::{SpoolView, Waiting};

impl Spooling {
    /// What is known of a session whose writes wait for a ledger that does not answer, without its contents; `None` when
    /// none do, and for who may not see it.
    #[must_use]
    pub fn waiting(&self, scope: &Scope, session: &SessionId) -> Option<Waiting> {
        let key = (scope.tenant.clone(), session.clone());
        let now = self.core.clock.now();
        let state = self.core.state();
        state.known(&key).filter(|known| known.sees(scope))?;
        state.waiting(&key, now)
    }

    /// As [`Self::waiting`], with the newest checkpoint and at most `most` of the items that wait behind it: the newest.
    #[must_use]
    pub fn waiting_tail(&self, scope: &Scope, session: &SessionId, most: usize) -> Option<Waiting> {
        let key = (scope.tenant.clone(), session.clone());
        let (now, core) = (self.core.clock.now(), &self.core);
        let (mut waiting, writes) = {
            let state = core.state();
            let known = state.known(&key).filter(|known| known.sees(scope))?;
            let mut waiting = state.waiting(&key, now)?;
            waiting.checkpoint = known.checkpoint.clone();
            (waiting, state.writes_of(&key))
        };
        (waiting.items, waiting.trimmed) =
            tail(&writes, most, &core.keyring, core.entropy.as_ref());
        Some(waiting)
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
                known.others_wrote();
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

#[async_trait]
impl Ledger for Spooling {
    async fn write(&self, command: Command) -> Result<Stored, Failure> {
        self.core.written(command).await
    }

    async fn inspect(&self, about: About<'_>, question: Inspect) -> Result<(), Failure> {
        self.core.inner.inspect(about, question).await
    }

    fn backend(&self) -> Backend {
        self.core.inner.backend()
    }

    fn position(&self) -> Position {
        self.core.inner.position()
    }

    fn witnessed(&self) -> Position {
        self.core.inner.witnessed()
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.core.inner.commits()
    }

    fn writer(&self) -> String {
        self.core.inner.writer()
    }

    fn is_gone(&self, writer: &str) -> bool {
        self.core.inner.is_gone(writer)
    }

    fn store_id(&self) -> &str {
        self.core.inner.store_id()
    }

    fn keyring(&self) -> &Keyring {
        self.core.inner.keyring()
    }

    fn health(&self) -> Health {
        self.core.inner.health()
    }

    fn load(&self) -> Load {
        self.core.inner.load()
    }

    fn distrust(&self, what: String) {
        self.core.inner.distrust(what);
    }

    async fn close(&self) {
        self.stop_draining().await;
        self.core.inner.close().await;
    }
}
