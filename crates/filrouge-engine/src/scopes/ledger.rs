//! Two scopes as one ledger.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::command::{Command, Outcome, Scope, Viewer};
use filrouge_store::hot::HotHealth;
use filrouge_store::ledger::{Health, HotReceipt, HotState, HotView, Inspect, RecentTurns};
use filrouge_store::{Durability, Keyring, Ledger, Load, Position};
use filrouge_types::{Failure, SessionId};
use tokio::sync::watch;

use super::TwoScopes;
use super::step::Kind;
use super::tally::is_hot;

/// How long closing waits for what the hot store is still to be told.
const CLOSING: Duration = Duration::from_secs(5);

/// A question that can be had back when it was not put.
fn lent(question: Inspect) -> (Inspect, impl FnOnce() -> Option<Inspect>) {
    let kept = Arc::new(Mutex::new(Some(question)));
    let take = |kept: &Mutex<Option<Inspect>>| {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take()
    };
    let lent = kept.clone();
    let put: Inspect = Box::new(move |sight| {
        if let Some(question) = take(&lent) {
            question(sight);
        }
    });
    (put, move || take(&kept))
}

#[async_trait]
impl Ledger for TwoScopes {
    async fn write(&self, command: Command) -> Result<Outcome, Failure> {
        if Kind::of(&command.write) == Kind::Clears {
            return self.written_to_the_end(command).await;
        }
        self.written(command).await
    }

    async fn inspect(&self, question: Inspect) -> Result<(), Failure> {
        self.ledger.inspect(question).await
    }

    async fn inspect_apart(&self, question: Inspect) -> Result<(), Failure> {
        self.ledger.inspect_apart(question).await
    }

    async fn inspect_in(
        &self,
        scope: &Scope,
        session: &SessionId,
        question: Inspect,
    ) -> Result<(), Failure> {
        if !self.has_scopes() || self.in_ledger(scope, session).await?.is_some() {
            return self.inspect_durable(scope, session, question).await;
        }
        let (put, kept) = lent(question);
        let answered = self.ephemeral.inspect(&scope.tenant, session, put).await;
        let answered = self.tally.noted(answered)?;
        match kept() {
            Some(question) if scope.viewer == Viewer::EndUser(None) => {
                self.ephemeral.inspect_absent(question);
                Ok(())
            }
            Some(question) if !answered => self.ledger.inspect_in(scope, session, question).await,
            _ => Ok(()),
        }
    }

    async fn recent(
        &self,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
    ) -> Result<Option<RecentTurns>, Failure> {
        self.recent_turns(scope, session, limit).await
    }

    async fn durability_in(&self, scope: &Scope, session: &SessionId) -> Durability {
        let unknown = self.has_scopes() && self.known.get(&self.key(scope, session)).is_none();
        let ephemeral = match &scope.viewer {
            Viewer::EndUser(None) => unknown,
            Viewer::EndUser(Some(_)) => false,
            // What cannot be found out was not answered by the hot store.
            Viewer::Operator => unknown && self.only_in_hot(scope, session).await.unwrap_or(false),
        };
        if ephemeral {
            Durability::Ephemeral
        } else {
            self.ledger.durability()
        }
    }

    async fn is_ephemeral(&self, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
        match &scope.viewer {
            _ if !self.has_scopes() => Ok(false),
            Viewer::EndUser(None) => Ok(self.in_ledger(scope, session).await?.is_none()),
            Viewer::EndUser(Some(_)) => Ok(false),
            Viewer::Operator => match self.only_in_hot(scope, session).await {
                // As its write would go: to the ledger, or nowhere.
                Err(failure) if is_hot(&failure) => Ok(false),
                found => found,
            },
        }
    }

    async fn in_hot(&self, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
        self.only_in_hot(scope, session).await
    }

    fn hot(&self) -> Option<HotView> {
        Some(HotView {
            kind: self.hot.kind(),
            bounds: self.hot.bounds(),
            durable: self.options.durable.as_str(),
            failure: self.hot.failure(),
            counts: self.counts(),
        })
    }

    async fn hot_health(&self) -> Option<HotHealth> {
        Some(self.hot.health().await)
    }

    fn hot_receipt(&self, scope: &Scope, session: &SessionId) -> Option<HotReceipt> {
        let key = self.key(scope, session);
        Some(if self.copies.is_unremoved(&key) {
            HotReceipt::Unreachable
        } else {
            HotReceipt::Erased
        })
    }

    async fn compare_hot(&self, scope: &Scope, session: &SessionId) -> Result<HotState, Failure> {
        self.compare(scope, session).await
    }

    fn durability(&self) -> Durability {
        self.ledger.durability()
    }

    fn kind(&self) -> &'static str {
        self.ledger.kind()
    }

    fn version(&self) -> Option<String> {
        self.ledger.version()
    }

    fn position(&self) -> Position {
        self.ledger.position()
    }

    fn witnessed(&self) -> Position {
        self.ledger.witnessed()
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.ledger.commits()
    }

    fn writer(&self) -> String {
        self.ledger.writer()
    }

    fn is_gone(&self, writer: &str) -> bool {
        self.ledger.is_gone(writer)
    }

    fn store_id(&self) -> &str {
        self.ledger.store_id()
    }

    fn keyring(&self) -> &Keyring {
        self.ledger.keyring()
    }

    fn health(&self) -> Health {
        self.ledger.health()
    }

    fn load(&self) -> Load {
        self.ledger.load()
    }

    fn distrust(&self, what: String) {
        self.ledger.distrust(what);
    }

    async fn close(&self) {
        let settled = async {
            let _none_under_way = self.clearing.write().await;
            self.copies.settle().await;
        };
        if tokio::time::timeout(CLOSING, settled).await.is_err() {
            tracing::warn!(
                steps = self.copies.waiting(),
                "[SESSIONS][HOT] not all was told before the end"
            );
        }
        self.ledger.close().await;
    }
}
