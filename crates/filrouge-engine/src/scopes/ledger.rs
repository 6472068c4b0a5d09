//! Two scopes as one ledger.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::command::{Command, Scope, Viewer};
use filrouge_store::hot::HotHealth;
use filrouge_store::ledger::{About, Backend, Health, Inspect};
use filrouge_store::{Keyring, Ledger, Load, Position, Stored};
use filrouge_types::{Failure, SessionId};
use tokio::sync::watch;

use super::TwoScopes;
use super::step::Kind;
use super::tally::is_hot;
use super::view::{HotReceipt, HotView};

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

impl TwoScopes {
    /// Whether a write to this session, asked now, goes to the hot store and nowhere else.
    ///
    /// # Errors
    /// The stores'.
    pub async fn is_ephemeral(&self, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
        match &scope.viewer {
            _ if !self.has_scopes() => Ok(false),
            Viewer::EndUser(None) => Ok(self.in_ledger(scope, session).await?.is_none()),
            Viewer::EndUser(Some(_)) => Ok(false),
            Viewer::Operator => match self.in_hot(scope, session).await {
                // As its write would go: to the ledger, or nowhere.
                Err(failure) if is_hot(&failure) => Ok(false),
                found => found,
            },
        }
    }

    /// The hot store as this process uses it; asks nothing.
    #[must_use]
    pub fn view(&self) -> HotView {
        HotView {
            kind: self.hot.kind(),
            bounds: self.hot.bounds(),
            durable: self.options.durable.as_str(),
            failure: self.hot.failure(),
            counts: self.counts(),
        }
    }

    /// How the hot store is: asks it.
    pub async fn hot_health(&self) -> HotHealth {
        self.hot.health().await
    }

    /// Once a redaction or an erasure is answered: what has become of the session's copy in the hot store.
    #[must_use]
    pub fn receipt(&self, scope: &Scope, session: &SessionId) -> HotReceipt {
        match self.copies.is_unremoved(&self.key(scope, session)) {
            true => HotReceipt::Unreachable,
            false => HotReceipt::Erased,
        }
    }

    /// A question about one session, put where the session is.
    async fn inspect_session(
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
            Some(question) if !answered => {
                let about = About::Session(scope, session);
                self.ledger.inspect(about, question).await
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Ledger for TwoScopes {
    async fn write(&self, command: Command) -> Result<Stored, Failure> {
        if Kind::of(&command.write) == Kind::Clears {
            return self.written_to_the_end(command).await;
        }
        self.written(command).await
    }

    async fn inspect(&self, about: About<'_>, question: Inspect) -> Result<(), Failure> {
        match about {
            About::Session(scope, session) => self.inspect_session(scope, session, question).await,
            about => self.ledger.inspect(about, question).await,
        }
    }

    fn backend(&self) -> Backend {
        self.ledger.backend()
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
