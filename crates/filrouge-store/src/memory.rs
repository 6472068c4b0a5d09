//! The in-memory ledger: the same rows in maps. Nothing is durable; for tests and `memory:`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use filrouge_types::{Clock, Failure};
use tokio::sync::watch;

use crate::command::Command;
use crate::keyring::{Entropy, Keyring};
use crate::ledger::{About, Backend, Durability, Health, Inspect, Ledger, Load, Position, Stored};
use crate::read::Sight;
use crate::record::Check;
use crate::rules::{self, Context, Group};
use crate::verify::Suspects;

pub(crate) mod rows;

use rows::Rows;

/// A ledger in memory.
pub struct MemoryLedger {
    rows: Mutex<Rows>,
    keyring: Arc<Keyring>,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
    suspects: Mutex<Suspects>,
    store_id: String,
    commits: watch::Sender<u64>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Rows are put only after all checks have passed, so a panic leaves none half written.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryLedger {
    /// An empty ledger, called `memory`. One that shares a hot store with others needs a name of its own:
    /// [`Self::with_store_id`].
    #[must_use]
    pub fn new(keyring: Arc<Keyring>, entropy: Arc<dyn Entropy>, clock: Arc<dyn Clock>) -> Self {
        Self {
            rows: Mutex::default(),
            keyring,
            entropy,
            clock,
            suspects: Mutex::default(),
            store_id: "memory".to_owned(),
            commits: watch::Sender::new(0),
        }
    }

    /// Under another name, such as a [`crate::random_id`]: a hot store keeps the sessions of ledgers apart by it.
    #[must_use]
    pub fn with_store_id(mut self, store_id: impl Into<String>) -> Self {
        self.store_id = store_id.into();
        self
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn write(&self, command: Command) -> Result<Stored, Failure> {
        let mut rows = locked(&self.rows);
        let suspects = locked(&self.suspects).clone();
        let ctx = Context {
            keyring: &self.keyring,
            entropy: self.entropy.as_ref(),
            now: self.clock.now(),
            suspects: &suspects,
        };
        let mut group = Group::begin(&*rows)?;
        let outcome = rules::apply(&mut *rows, &mut group, &ctx, &command)?;
        if let Some(row) = group.finish(&mut *rows, &ctx)? {
            self.commits.send_replace(row.commit_no);
        }
        Ok(Stored {
            outcome,
            durability: Durability::Ephemeral,
        })
    }

    async fn inspect(&self, _: About<'_>, question: Inspect) -> Result<(), Failure> {
        let rows = locked(&self.rows);
        let suspects = locked(&self.suspects).clone();
        question(&Sight {
            view: &*rows,
            keyring: &self.keyring,
            check: Check::Keyed,
            suspects: &suspects,
        });
        Ok(())
    }

    fn position(&self) -> Position {
        let rows = locked(&self.rows);
        rows.log.values().next_back().map_or(
            Position {
                commit_no: 0,
                link: [0; 16],
            },
            |row| Position {
                commit_no: row.commit_no,
                link: row.link,
            },
        )
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    fn backend(&self) -> Backend {
        Backend {
            kind: "memory",
            version: None,
            durability: Durability::Ephemeral,
        }
    }

    fn witnessed(&self) -> Position {
        self.position()
    }

    fn writer(&self) -> String {
        String::new()
    }

    fn is_gone(&self, _: &str) -> bool {
        false
    }

    fn load(&self) -> Load {
        Load::default()
    }

    fn store_id(&self) -> &str {
        &self.store_id
    }

    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn health(&self) -> Health {
        let suspects = locked(&self.suspects);
        Health {
            read_only: None,
            integrity: (!suspects.is_empty()).then(|| suspects.to_string()),
        }
    }

    fn distrust(&self, what: String) {
        let mut suspects = locked(&self.suspects);
        *suspects = suspects.and(Suspects::everything(what));
    }

    async fn close(&self) {}
}
