//! Maintenance that a process performs for its store, and reports on the store's condition. No operation here returns
//! users' contents.

use std::time::Duration;

use filrouge_store::ledger::{Health, Position, StoreLoad};
use filrouge_store::verify::VerificationReport;
use filrouge_store::{Durability, Lane};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::watch;

use crate::counters::Counters;
use crate::engine::Upkeep;

mod index;
mod indexing;
mod sweep;

pub(crate) use index::Indexing;

/// The timeout of [`Upkeep::probe_store`] if there is a spool, in which live calls continue without the store.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

impl Upkeep {
    /// Sends a small query to the store, to check whether it answers.
    ///
    /// # Errors
    /// The ledger's errors. If there is a spool, also `store_unavailable` after 2 s without an answer.
    pub async fn probe_store(&self) -> Result<(), Failure> {
        let query = self
            .ledger
            .query(|snapshot| snapshot.view.newest_log(Lane::FIRST).map(|_| ()));
        if self.spool.is_none() {
            return query.await;
        }
        let timed_out = |_| Err(ErrorCode::StoreUnavailable.failure("the store does not answer"));
        tokio::time::timeout(QUERY_TIMEOUT, query)
            .await
            .unwrap_or_else(timed_out)
    }

    /// The store's last known health.
    pub fn health(&self) -> Health {
        self.ledger.health()
    }

    /// The store's counters in this process.
    pub fn load(&self) -> StoreLoad {
        self.ledger.load()
    }

    /// The newest durable commit of each lane.
    pub fn position(&self) -> Position {
        self.ledger.position()
    }

    /// A receiver of the number of durable commits, which is notified when the number changes.
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.ledger.commits()
    }

    /// The durability of a write that the ledger has acknowledged.
    pub fn durability(&self) -> Durability {
        self.ledger.backend().durability
    }

    /// Whether the process with this name, which recorded streams or held a lease, has exited.
    pub async fn has_exited(&self, writer: &str) -> bool {
        self.ledger.has_exited(writer).await
    }

    /// The name of this process among those that record streams into the store.
    pub fn writer(&self) -> String {
        self.ledger.writer()
    }

    /// The counters of this process.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The number of times that values of `runtime_context` could not be kept, so that they are not masked where they
    /// reappear.
    pub fn runtime_context_lost(&self) -> u64 {
        self.secrets.lost()
    }

    /// Verifies the entire store.
    ///
    /// # Errors
    /// Only the store's errors if it does not answer. The report lists the findings of the verification.
    pub async fn verify(&self) -> Result<VerificationReport, Failure> {
        self.ledger.verify(None).await
    }

    /// Finishes pending writes and releases the store.
    pub async fn close(&self) {
        self.ledger.close().await;
    }
}
