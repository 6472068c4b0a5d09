//! What the two scopes answer as one ledger.

use std::sync::{Arc, Mutex, PoisonError};

use filrouge_store::command::{Scope, Viewer};
use filrouge_store::hot::HotHealth;
use filrouge_store::ledger::{About, Inspect};
use filrouge_types::{Failure, SessionId};

use super::TwoScopes;
use super::tally::is_hot;
use super::view::{HotReceipt, HotView};

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
    pub(super) async fn inspect_session(
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
