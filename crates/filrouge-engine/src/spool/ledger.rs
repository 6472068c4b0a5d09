//! A ledger with a spool, as a ledger.

use async_trait::async_trait;
use filrouge_store::command::{Command, Outcome, Scope};
use filrouge_store::hot::HotHealth;
use filrouge_store::ledger::{
    Health, HotReceipt, HotState, HotView, Inspect, RecentTurns, SpoolView, Waiting,
};
use filrouge_store::{Durability, Keyring, Ledger, Load, Position};
use filrouge_types::{Checkpoint, ErrorCode, Failure, SessionId};
use tokio::sync::watch;

use super::Spooling;
use super::state::tail;

#[async_trait]
impl Ledger for Spooling {
    async fn write(&self, command: Command) -> Result<Outcome, Failure> {
        self.core.written(command).await
    }

    async fn inspect(&self, question: Inspect) -> Result<(), Failure> {
        self.core.inner.inspect(question).await
    }

    async fn inspect_apart(&self, question: Inspect) -> Result<(), Failure> {
        self.core.inner.inspect_apart(question).await
    }

    async fn inspect_in(
        &self,
        scope: &Scope,
        session: &SessionId,
        question: Inspect,
    ) -> Result<(), Failure> {
        self.core.inner.inspect_in(scope, session, question).await
    }

    async fn recent(
        &self,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
    ) -> Result<Option<RecentTurns>, Failure> {
        self.core.inner.recent(scope, session, limit).await
    }

    async fn durability_in(&self, scope: &Scope, session: &SessionId) -> Durability {
        self.core.inner.durability_in(scope, session).await
    }

    async fn is_ephemeral(&self, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
        let key = (scope.tenant.clone(), session.clone());
        let known = {
            let state = self.core.state();
            let here = state.is_queued(&key) || state.is_down();
            state
                .known(&key)
                .is_some_and(|k| k.sees(scope))
                .then_some(here)
        };
        let asked = self.core.inner.is_ephemeral(scope, session);
        match known {
            None => asked.await,
            // What is known here is in the ledger.
            Some(true) => Ok(false),
            Some(false) => match tokio::time::timeout(self.core.options.after, asked).await {
                Ok(Err(failure)) if failure.code == ErrorCode::StoreUnavailable => Ok(false),
                Ok(answer) => answer,
                Err(_) => Ok(false),
            },
        }
    }

    async fn in_hot(&self, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
        self.core.inner.in_hot(scope, session).await
    }

    fn hot(&self) -> Option<HotView> {
        self.core.inner.hot()
    }

    async fn hot_health(&self) -> Option<HotHealth> {
        self.core.inner.hot_health().await
    }

    fn hot_receipt(&self, scope: &Scope, session: &SessionId) -> Option<HotReceipt> {
        self.core.inner.hot_receipt(scope, session)
    }

    async fn compare_hot(&self, scope: &Scope, session: &SessionId) -> Result<HotState, Failure> {
        self.core.inner.compare_hot(scope, session).await
    }

    fn waiting(&self, scope: &Scope, session: &SessionId) -> Option<Waiting> {
        let key = (scope.tenant.clone(), session.clone());
        let now = self.core.clock.now();
        let state = self.core.state();
        state.known(&key).filter(|known| known.sees(scope))?;
        state.waiting(&key, now)
    }

    fn waiting_tail(&self, scope: &Scope, session: &SessionId, most: usize) -> Option<Waiting> {
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

    fn resumed(
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

    fn spool(&self) -> Option<SpoolView> {
        Some(self.core.state().view(self.core.options.bytes))
    }

    fn durability(&self) -> Durability {
        self.core.inner.durability()
    }

    fn kind(&self) -> &'static str {
        self.core.inner.kind()
    }

    fn version(&self) -> Option<String> {
        self.core.inner.version()
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
