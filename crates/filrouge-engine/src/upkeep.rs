//! Maintenance that a process performs for its store, and the store's condition. No service in this module concerns any user's
//! content.

use std::time::Duration;

use filrouge_store::Durability;
use filrouge_store::ledger::{Health, Position, StoreLoad};
use filrouge_store::verify::VerificationReport;
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::watch;

use crate::counters::Counters;
use crate::engine::Upkeep;

mod index;
mod indexing;
mod sweep;

pub(crate) use index::Indexing;

/// The timeout of a query to a store without which live calls can continue.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

impl Upkeep {
    /// Queries the store, so that a store that does not answer is not reported as ready.
    ///
    /// # Errors
    /// The ledger's; `store_unavailable` after 2 s when there is a spool in which live calls continue.
    pub async fn probe_store(&self) -> Result<(), Failure> {
        let query = self
            .ledger
            .query(|snapshot| snapshot.view.newest_log().map(|_| ()));
        if self.spool.is_none() {
            return query.await;
        }
        let late = |_| {
            let what = "the store does not answer";
            Err(Failure::new(ErrorCode::StoreUnavailable, what))
        };
        tokio::time::timeout(QUERY_TIMEOUT, query)
            .await
            .unwrap_or_else(late)
    }

    /// The store's last known health.
    #[must_use]
    pub fn health(&self) -> Health {
        self.ledger.health()
    }

    /// The store's counters in this process.
    #[must_use]
    pub fn load(&self) -> StoreLoad {
        self.ledger.load()
    }

    /// The newest durable commit.
    #[must_use]
    pub fn position(&self) -> Position {
        self.ledger.position()
    }

    /// The number of the newest durable commit, as a receiver that is notified of changes.
    #[must_use]
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.ledger.commits()
    }

    /// The durability of an answered write.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.ledger.backend().durability
    }

    /// Whether a process that recorded streams or held a lease has certainly ended.
    #[must_use]
    pub fn has_exited(&self, writer: &str) -> bool {
        self.ledger.has_exited(writer)
    }

    /// The name of this process among those that record streams into the store.
    #[must_use]
    pub fn writer(&self) -> String {
        self.ledger.writer()
    }

    /// The counters of this process.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The number of values of `runtime_context` that could not be remembered, so that they are not masked when they recur.
    #[must_use]
    pub fn runtime_context_lost(&self) -> u64 {
        self.secrets.lost()
    }

    /// Verifies the entire store.
    ///
    /// # Errors
    /// Only the store's, when it does not answer.
    pub async fn verify(&self) -> Result<VerificationReport, Failure> {
        self.ledger.verify(None).await
    }

    /// Finishes pending writes and releases the store.
    pub async fn close(&self) {
        self.ledger.close().await;
    }
}
