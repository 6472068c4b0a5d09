//! Queries of a tiered ledger, which may need both tiers.

use std::sync::{Arc, Mutex};

use filrouge_store::CommittedWrite;
use filrouge_store::command::{Command, Scope, Viewer, Write};
use filrouge_store::hot::HotHealth;
use filrouge_store::ledger::{QuerySubject, SnapshotQuery};
use filrouge_types::{Result, SessionId, lock};

use super::TieredLedger;
use super::tally::is_hot_outage;
use super::view::{HotReceipt, HotView};

/// Wraps a query, so that it can be reclaimed if it never ran: the returned closure then returns it.
fn reclaimable(query: SnapshotQuery) -> (SnapshotQuery, impl FnOnce() -> Option<SnapshotQuery>) {
    let slot = Arc::new(Mutex::new(Some(query)));
    let take = |slot: &Mutex<Option<SnapshotQuery>>| lock(slot).take();
    let shared = slot.clone();
    let wrapped: SnapshotQuery = Box::new(move |snapshot| {
        if let Some(query) = take(&shared) {
            query(snapshot);
        }
    });
    (wrapped, move || take(&slot))
}

impl TieredLedger {
    /// Whether a write to this session, if made now, would go only to the hot store.
    ///
    /// # Errors
    /// Those of both stores.
    pub async fn is_ephemeral(&self, scope: &Scope, session: &SessionId) -> Result<bool> {
        match &scope.viewer {
            _ if !self.allows_ephemeral() => Ok(false),
            Viewer::EndUser(None) => Ok(self.ledger_presence(scope, session).await?.is_none()),
            Viewer::EndUser(Some(_)) => Ok(false),
            Viewer::Operator => match self.in_hot(scope, session).await {
                // A write to the session would go to the ledger, or fail.
                Err(failure) if is_hot_outage(&failure) => Ok(false),
                is_only_hot => is_only_hot,
            },
        }
    }

    /// The state of the hot store in this process; makes no query.
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

    /// Whether the session's contents were removed from the hot store. Call it after a redaction or an erasure has
    /// returned.
    pub fn receipt(&self, scope: &Scope, session: &SessionId) -> HotReceipt {
        match self.copies.is_removal_pending(&self.key(scope, session)) {
            true => HotReceipt::Unreachable,
            false => HotReceipt::Erased,
        }
    }

    /// Where contents that were erased from the hot store may remain, and until when.
    pub fn remains(&self) -> Option<&'static str> {
        self.hot.remains()
    }

    /// Performs a write that deletes contents. If it erased them, asks the hot store to rewrite its files, too.
    pub(super) async fn write_and_rewrite_files(&self, command: Command) -> Result<CommittedWrite> {
        let erases = matches!(command.write, Write::Redact(_) | Write::Erase(_));
        let written = self.write_to_tier(command).await;
        if erases && written.is_ok() {
            self.hot.note_erasure();
            self.hot.rewrite_if_due().await;
        }
        written
    }

    /// Runs a query about one session on the tier that has the session.
    pub(super) async fn inspect_session(
        &self,
        scope: &Scope,
        session: &SessionId,
        query: SnapshotQuery,
    ) -> Result<()> {
        if !self.allows_ephemeral() || self.ledger_presence(scope, session).await?.is_some() {
            return self.inspect_durable(scope, session, query).await;
        }
        let (wrapped, reclaim) = reclaimable(query);
        let slot = self.ephemeral_slot(scope).await;
        let answered = self
            .ephemeral
            .inspect(&scope.tenant, session, wrapped)
            .await;
        drop(slot);
        let answered = self.tally.observe(answered)?;
        match reclaim() {
            Some(query) if scope.viewer == Viewer::EndUser(None) => {
                self.ephemeral.inspect_absent(query);
                Ok(())
            }
            Some(query) if !answered => {
                let subject = QuerySubject::Session(scope, session);
                self.ledger.inspect(subject, query).await
            }
            _ => Ok(()),
        }
    }
}
