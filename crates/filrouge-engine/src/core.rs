//! The state that all services share: one ledger, the settings, and state in memory, such as counters.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use filrouge_store::command::{Interrupt, Outcome, Scope, Write};
use filrouge_store::{CommittedWrite, Durability, Entropy, Ledger};
use filrouge_types::{Clock, Result, Turn};

use crate::cleaning::Cleaner;
use crate::counters::Counters;
use crate::following::CommitNotifier;
use crate::scopes::TieredLedger;
use crate::secrets::{Masked, Registry};
use crate::settings::Settings;
use crate::shared::{command_as, unexpected_outcome};
use crate::spool::SpooledLedger;
use crate::trace::Trace;
use crate::upkeep::Indexing;
use crate::validate::Limits;
use crate::written::Written;

/// The shared state of the services.
pub struct Core {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) secrets: Registry,
    pub(crate) counters: Counters,
    pub(crate) index: OnceLock<Indexing>,
    pub(crate) cleaner: OnceLock<Arc<dyn Cleaner>>,
    pub(crate) tiers: Option<Arc<TieredLedger>>,
    pub(crate) spool: Option<Arc<SpooledLedger>>,
    notifier: OnceLock<CommitNotifier>,
}

fn downcast<T: Any + Send + Sync>(ledger: &Arc<dyn Ledger>) -> Option<Arc<T>> {
    let any: Arc<dyn Any + Send + Sync> = ledger.clone();
    any.downcast().ok()
}

impl Core {
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let spool = downcast::<SpooledLedger>(&ledger);
        let tiers = downcast(spool.as_ref().map_or(&ledger, |spool| spool.inner()));
        Self {
            ledger,
            entropy,
            clock,
            settings,
            secrets: Registry::default(),
            counters: Counters::default(),
            index: OnceLock::new(),
            cleaner: OnceLock::new(),
            tiers,
            spool,
            notifier: OnceLock::new(),
        }
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// The notifier that wakes followers; the first call starts it.
    pub(crate) fn commit_notifier(&self) -> &CommitNotifier {
        self.notifier
            .get_or_init(|| CommitNotifier::start(self.ledger.clone()))
    }

    /// Writes a command, counts it and logs it. If the write erases contents or hides the session from some callers,
    /// the index drops the session before and after the write.
    pub(crate) async fn write(&self, scope: &Scope, write: Write) -> Result<CommittedWrite> {
        match write.is_retraction() {
            true => self.write_and_forget(scope, write).await,
            false => self.write_and_log(scope, write).await,
        }
    }

    /// Writes a command, counts it and logs it. Does not update the index.
    pub(crate) async fn write_and_log(
        &self,
        scope: &Scope,
        write: Write,
    ) -> Result<CommittedWrite> {
        let command = command_as(scope, write);
        let trace = Trace::begin(&command);
        let written = self.ledger.write(command).await;
        match &written {
            // A spooled write is logged when it is durable in the ledger.
            Ok(stored) if stored.durability == Durability::Spooled => {}
            Ok(stored) => trace
                .iter()
                .for_each(|trace| trace.log_committed(&stored.outcome)),
            Err(failure) => {
                self.counters.count_refused_write(failure.code);
                if let Some(trace) = &trace {
                    self.report_refused_link(trace.command(), failure).await;
                }
            }
        }
        written
    }

    /// Performs a write that returns a turn. Counts the credentials that were `masked` in its content, unless it is a
    /// replay.
    pub(crate) async fn write_turn(
        &self,
        scope: &Scope,
        write: Write,
        masked: &Masked,
    ) -> Result<Written<Turn>> {
        let stored = self.write(scope, write).await?;
        let Outcome::Turn(turn, _) = stored.outcome else {
            return Err(unexpected_outcome());
        };
        let replayed = turn.replayed;
        let written = Written::new(*turn, replayed, stored.durability);
        Ok(self.count_masked(written, masked))
    }

    /// Interrupts a turn; returns `false` if the turn was not changed, for example because it had ended.
    pub(crate) async fn interrupt_turn(&self, scope: &Scope, interrupt: Interrupt) -> Result<bool> {
        let stored = self.write(scope, Write::Interrupt(interrupt)).await?;
        match stored.outcome {
            Outcome::Interrupted(committed) => Ok(committed.is_some()),
            _ => Err(unexpected_outcome()),
        }
    }

    /// Returns the keyed form of a request's fingerprint, which the ledger stores. Computing it from a guessed request
    /// requires the keyring.
    pub(crate) fn keyed_fingerprint(&self, fingerprint: [u8; 16]) -> [u8; 16] {
        self.ledger.keyring().request_fingerprint(&fingerprint)
    }
}
