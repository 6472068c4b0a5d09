//! What a process does for its store, and how the store is. Nothing here is anybody's content.

use std::time::Duration;

use filrouge_store::Durability;
use filrouge_store::ledger::{Health, Load, Position};
use filrouge_store::verify::Report;
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::watch;

use crate::counters::Counters;
use crate::engine::Upkeep;

mod index;
mod indexing;
mod sweep;

pub(crate) use index::Indexing;

/// How long a store is asked that live calls can do without.
const ASKED: Duration = Duration::from_secs(2);

impl Upkeep {
    /// Asks the store, so that one that does not answer is not called ready.
    ///
    /// # Errors
    /// The ledger's; `store_unavailable` after 2 s when there is a spool that live calls go on in.
    pub async fn ask(&self) -> Result<(), Failure> {
        let asked = self.ledger.ask(|sight| sight.view.newest_log().map(|_| ()));
        if self.spool.is_none() {
            return asked.await;
        }
        let late = |_| {
            let what = "the store does not answer";
            Err(Failure::new(ErrorCode::StoreUnavailable, what))
        };
        tokio::time::timeout(ASKED, asked)
            .await
            .unwrap_or_else(late)
    }

    /// How the store is, as far as is known.
    #[must_use]
    pub fn health(&self) -> Health {
        self.ledger.health()
    }

    /// What the store has done in this process, and what waits for it.
    #[must_use]
    pub fn load(&self) -> Load {
        self.ledger.load()
    }

    /// The newest durable commit.
    #[must_use]
    pub fn position(&self) -> Position {
        self.ledger.position()
    }

    /// The number of the newest durable commit as it grows.
    #[must_use]
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.ledger.commits()
    }

    /// What an answered write has survived.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.ledger.backend().durability
    }

    /// Whether a process that has recorded streams, or holds a lease, is certain not to be there any more.
    #[must_use]
    pub fn is_gone(&self, writer: &str) -> bool {
        self.ledger.is_gone(writer)
    }

    /// This process among those that record streams into the store.
    #[must_use]
    pub fn writer(&self) -> String {
        self.ledger.writer()
    }

    /// What this process has counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many values of `runtime_context` could not be held, so that they are not masked when they come back.
    #[must_use]
    pub fn runtime_context_lost(&self) -> u64 {
        self.secrets.lost()
    }

    /// Verifies the whole store.
    ///
    /// # Errors
    /// Only when the store does not answer.
    pub async fn verify(&self) -> Result<Report, Failure> {
        self.ledger.verify(None).await
    }

    /// Finishes what is under way and releases the store.
    pub async fn close(&self) {
        self.ledger.close().await;
    }
}
