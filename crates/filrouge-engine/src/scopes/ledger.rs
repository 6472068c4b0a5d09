//! Queries that a tiered ledger answers from both tiers.

use std::sync::{Arc, Mutex, PoisonError};

use filrouge_store::command::{Scope, Viewer};
use filrouge_store::hot::HotHealth;
use filrouge_store::ledger::{QuerySubject, SnapshotQuery};
use filrouge_types::{Failure, SessionId};

use super::TieredLedger;
use super::tally::is_hot;
use super::view::{HotReceipt, HotView};

/// Wraps a query. The returned closure returns the query again if it never ran.
fn returnable(query: SnapshotQuery) -> (SnapshotQuery, impl FnOnce() -> Option<SnapshotQuery>) {
    let kept = Arc::new(Mutex::new(Some(query)));
    let take = |kept: &Mutex<Option<SnapshotQuery>>| {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take()
    };
    let shared = kept.clone();
    let wrapped: SnapshotQuery = Box::new(move |snapshot| {
        if let Some(query) = take(&shared) {
            query(snapshot);
        }
    });
    (wrapped, move || take(&kept))
}

impl TieredLedger {
    /// Whether a write to this session, if made now, would go only to the hot store.
    ///
    /// # Errors
    /// Those of both stores.
    pub async fn is_ephemeral(&self, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
        match &scope.viewer {
            _ if !self.has_scopes() => Ok(false),
            Viewer::EndUser(None) => Ok(self.in_ledger(scope, session).await?.is_none()),
            Viewer::EndUser(Some(_)) => Ok(false),
            Viewer::Operator => match self.in_hot(scope, session).await {
                // A write to the session would go to the ledger, or fail.
                Err(failure) if is_hot(&failure) => Ok(false),
                found => found,
            },
        }
    }

    /// The state of the hot store in this process; makes no query.
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

    /// The health of the hot store; queries it.
    pub async fn hot_health(&self) -> HotHealth {
        self.hot.health().await
    }

    /// Whether the session's contents were removed from the hot store, once a redaction or an erasure has returned.
    #[must_use]
    pub fn receipt(&self, scope: &Scope, session: &SessionId) -> HotReceipt {
        match self.copies.is_unremoved(&self.key(scope, session)) {
            true => HotReceipt::Unreachable,
            false => HotReceipt::Erased,
        }
    }

    /// Runs a query about one session on the tier that has the session.
    pub(super) async fn inspect_session(
        &self,
        scope: &Scope,
        session: &SessionId,
        query: SnapshotQuery,
    ) -> Result<(), Failure> {
        if !self.has_scopes() || self.in_ledger(scope, session).await?.is_some() {
            return self.inspect_durable(scope, session, query).await;
        }
        let (wrapped, take_back) = returnable(query);
        let answered = self
            .ephemeral
            .inspect(&scope.tenant, session, wrapped)
            .await;
        let answered = self.tally.observe(answered)?;
        match take_back() {
            Some(query) if scope.viewer == Viewer::EndUser(None) => {
                self.ephemeral.inspect_absent(query);
                Ok(())
            }
            Some(query) if !answered => {
                let about = QuerySubject::Session(scope, session);
                self.ledger.inspect(about, query).await
            }
            _ => Ok(()),
        }
    }
}
