//! A tiered ledger (DESIGN §7): sessions of known identities are in the durable ledger, with copies of their newest
//! turns in a hot store. Anonymous sessions that need not be durable are only in the hot store.
//!
//! | session and caller | handled by |
//! |---|---|
//! | any session, under `durable = all` | the ledger |
//! | a session that is in the ledger or was erased from it | the ledger |
//! | any other session, an anonymous caller | the hot store |
//! | any other session, the operator | the hot store if it has the session; otherwise the ledger |
//! | any other session, an identity reads | the hot store if it has the session; otherwise the ledger |
//! | any other session, an identity writes | the ledger, once the session was moved there from the hot store (login) |
//!
//! A request for a durable session waits for the hot store in two cases only: to remove contents from it, and, under
//! `durable = authenticated`, once in each process to search it for turns from before a login. The request never waits
//! longer than the hot store's timeout.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::command::{Command, Outcome, Scope, Write};
use filrouge_store::hot::{Edition, EphemeralSessions, HistoryVersion, HotKey, HotStore};
use filrouge_store::ledger::{LedgerLayer, QuerySubject, SnapshotQuery};
use filrouge_store::read::session_conflict;
use filrouge_store::{CommittedWrite, Durability, Entropy, Keyring, Ledger};
use filrouge_types::{Clock, ErrorCode, Failure, IdentityId, SessionId, TenantId};
use quick_cache::sync::Cache;
use tokio::sync::{RwLock, Semaphore};
use tracing::Instrument;

mod copies;
mod gate;
mod late;
mod ledger;
mod login;
mod options;
mod recent;
mod route;
mod sealed;
mod step;
mod tally;
#[cfg(test)]
mod tests;
mod verified;
mod view;

pub use options::{DurablePolicy, TierOptions};
pub(crate) use view::session_ephemeral;
pub use view::{HotReceipt, HotState, HotView, RecentTurns, TierCounts};

use copies::{Copies, PendingRemoval, Removal};
use gate::LedgerGate;
use recent::FILLS;
use route::{InLedger, SessionTier, identity_of};
use tally::TierTally;
use verified::Sightings;

/// The maximum number of sessions that are remembered as being in the ledger.
const IN_LEDGER_MAX: usize = 65_536;
/// The maximum number of sessions for which the extent of the newest copy is remembered.
const FILLED: usize = 16_384;
/// The maximum number of tries to remove an ephemeral session that the ledger's session of the same id hides; and the
/// pause after the first try, which grows with each further one.
const REMOVAL_TRIES: (u32, Duration) = (3, Duration::from_millis(50));

/// The maximum time that closing waits for steps (updates of copies) that have not reached the hot store.
const CLOSING: Duration = Duration::from_secs(5);

/// A durable ledger with a hot store in front of it.
pub struct TieredLedger {
    this: Weak<Self>,
    ledger: Arc<dyn Ledger>,
    hot: Arc<dyn HotStore>,
    ephemeral: EphemeralSessions,
    gate: Arc<LedgerGate>,
    keyring: Arc<Keyring>,
    entropy: Arc<dyn Entropy>,
    options: TierOptions,
    tally: Arc<TierTally>,
    copies: Copies,
    known_in_ledger: Cache<HotKey, InLedger>,
    verified: Sightings,
    /// For each session, the seq up to which the newest copy was built, and the limit of turns that was requested for
    /// it.
    filled: Cache<HotKey, (u64, usize)>,
    /// Permits for building copies.
    filling: Arc<Semaphore>,
    /// The incarnations of ephemeral sessions whose ids were not in the ledger after this process wrote to them.
    only_hot: Cache<HotKey, u64>,
    /// Each write that deletes contents locks this for reading until the write is done; closing locks it for writing.
    clearing: Arc<RwLock<()>>,
}

#[async_trait]
impl LedgerLayer for TieredLedger {
    fn inner(&self) -> &dyn Ledger {
        self.ledger.as_ref()
    }

    async fn write(&self, command: Command) -> Result<CommittedWrite, Failure> {
        if command.write.retracts() {
            return self.write_uninterrupted(command).await;
        }
        self.write_to_tier(command).await
    }

    async fn inspect(&self, about: QuerySubject<'_>, query: SnapshotQuery) -> Result<(), Failure> {
        match about {
            QuerySubject::Session(scope, session) => {
                self.inspect_session(scope, session, query).await
            }
            about => self.ledger.inspect(about, query).await,
        }
    }

    async fn close(&self) {
        let settled = async {
            let _none_under_way = self.clearing.write().await;
            self.copies.settle().await;
        };
        if tokio::time::timeout(CLOSING, settled).await.is_err() {
            tracing::warn!(
                steps = self.copies.waiting(),
                "[SESSIONS][HOT] not all writes reached the hot store before it was closed"
            );
        }
        self.ledger.close().await;
    }
}

impl TieredLedger {
    /// A tiered ledger of `ledger`, whose keys are `keyring`, with `hot` in front of it. Call it within a Tokio
    /// runtime: a task sends steps until the tiered ledger is dropped.
    #[must_use]
    pub fn new(
        ledger: Arc<dyn Ledger>,
        hot: Arc<dyn HotStore>,
        keyring: Arc<Keyring>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        options: TierOptions,
    ) -> Arc<Self> {
        let tally = Arc::<TierTally>::default();
        let gate = Arc::new(LedgerGate(ledger.clone()));
        let ephemeral = EphemeralSessions::new(
            hot.clone(),
            gate.clone(),
            keyring.clone(),
            entropy.clone(),
            clock,
            ledger.store_id(),
        )
        .with_turn_timeout(options.turn_timeout);
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            copies: Copies::start(hot.clone(), tally.clone()),
            ledger,
            hot,
            ephemeral,
            gate,
            keyring,
            entropy,
            options,
            tally,
            known_in_ledger: Cache::new(IN_LEDGER_MAX),
            verified: Sightings::new(),
            filled: Cache::new(FILLED),
            filling: Arc::new(Semaphore::new(FILLS as usize)),
            only_hot: Cache::new(IN_LEDGER_MAX),
            clearing: Arc::default(),
        })
    }

    /// Counts since this process started.
    #[must_use]
    pub fn counts(&self) -> TierCounts {
        TierCounts {
            steps_waiting: self.copies.waiting(),
            removals_waiting: self.copies.unremoved(),
            ephemeral: self.ephemeral.counts(),
            ..self.tally.counts()
        }
    }

    /// Waits until the hot store has received the steps of all writes that have returned, and until copies that are
    /// being built are complete. A step that the hot store does not accept is dropped and counted.
    pub async fn settle(&self) {
        self.copies.settle().await;
        // The semaphore is never closed.
        let _none = self.filling.acquire_many(FILLS).await;
    }

    /// Sends a write to the tier of its session.
    async fn write_to_tier(&self, command: Command) -> Result<CommittedWrite, Failure> {
        if !self.has_scopes() {
            return self.write_to_ledger(command).await;
        }
        match self.tier_of_write(&command).await? {
            SessionTier::Ledger => self.write_durable(command).await,
            SessionTier::Hot => self.write_ephemeral(command).await,
        }
    }

    /// Performs a write that deletes contents in both tiers. It completes even if the caller is gone, because stopping
    /// halfway would leave contents that must be deleted.
    async fn write_uninterrupted(&self, command: Command) -> Result<CommittedWrite, Failure> {
        let ended = |what: String| Failure::new(ErrorCode::Internal, what);
        let Some(scopes) = self.this.upgrade() else {
            return Err(ended("the stores are being closed".to_owned()));
        };
        let under_way = self.clearing.clone().read_owned().await;
        let write = async move {
            let _under_way = under_way;
            scopes.write_to_tier(command).await
        };
        let written = tokio::spawn(write.in_current_span()).await;
        written.unwrap_or_else(|e| Err(ended(format!("the task of a write ended early: {e}"))))
    }

    /// Writes to the ledger, and updates or removes the session's copy.
    async fn write_to_ledger(&self, command: Command) -> Result<CommittedWrite, Failure> {
        let Some(session) = command.write.session_id() else {
            return self.ledger.write(command).await;
        };
        let key = self.key(&command.scope, session);
        let scope = command.scope.clone();
        let pending = command.write.retracts().then(|| self.copies.begin(key));
        let written = self.ledger.write(command).await;
        let stored = match (written, pending) {
            (Ok(stored), Some(pending)) => {
                self.remove_deleted(key, &scope, &stored.outcome, pending)
                    .await;
                return Ok(stored);
            }
            (Err(failure), Some(pending)) => {
                if failure.code.retry() {
                    // The write may have been committed, so the copy is removed.
                    self.verified.forget(&key);
                } else {
                    pending.cancel();
                }
                return Err(failure);
            }
            (written, None) => written?,
        };
        self.note_written(key, &scope, &stored.outcome);
        self.send_to_copy(key, &stored.outcome);
        Ok(stored)
    }

    /// Removes from the copy what a write has deleted.
    async fn remove_deleted(
        &self,
        key: HotKey,
        scope: &Scope,
        outcome: &Outcome,
        pending: PendingRemoval,
    ) {
        match outcome {
            Outcome::Erased(erased) => {
                // A seq after all items of the session: no older copy is accepted.
                let removal = Removal::of_session(erased.items + 1);
                self.remove_copy(key, pending, removal).await;
            }
            Outcome::Redacted(redacted) => {
                let removal = Removal::of_copy(redacted.redaction_seq);
                self.remove_copy(key, pending, removal).await;
                self.note_written(key, scope, outcome);
            }
            Outcome::Session { put: Some(put), .. } => {
                self.remove_copy(key, pending, Removal::of_copy(put.last_seq))
                    .await;
            }
            _ => pending.cancel(),
        }
    }

    /// Removes the copy. A removal that fails is retried later.
    async fn remove_copy(&self, key: HotKey, pending: PendingRemoval, removal: Removal) {
        self.verified.forget(&key);
        pending.remove(removal).await;
    }

    /// Records that the caller that wrote has seen the resulting history.
    fn note_written(&self, key: HotKey, scope: &Scope, outcome: &Outcome) {
        if let Some(put) = step::written_range(outcome) {
            let as_of: HistoryVersion = step::after(put);
            self.verified.note_shown(key, scope, as_of, false);
        }
    }

    /// Queues a write's step for the copy.
    fn send_to_copy(&self, key: HotKey, outcome: &Outcome) {
        if step::written_range(outcome).is_none() || !self.copies.accepts_steps() {
            return;
        }
        match step::step(outcome, &key, &self.keyring) {
            Ok(Some(step)) => self.copies.send(key, step),
            Ok(None) => {}
            Err(failure) => tracing::error!(%key, %failure, "a write does not reach its copy"),
        }
    }

    /// Performs a write to a durable session. After an identity's first write to it in this process, searches the hot
    /// store for turns from before the login.
    async fn write_durable(&self, command: Command) -> Result<CommittedWrite, Failure> {
        let due = self.due_search(&command);
        let stored = self.write_to_ledger(command).await?;
        if let Some((scope, session, identity)) = due {
            let key = self.key(&scope, &session);
            if !self
                .known_in_ledger
                .get(&key)
                .is_some_and(|state| state.searched)
            {
                self.known_in_ledger.insert(key, InLedger::default());
                // An ephemeral session of that id may have been created between the search and this write.
                self.search(&scope, &session, &identity).await;
            }
        }
        Ok(stored)
    }

    /// The search that a write requires; `None` if the write has no identity, or if the hot store was searched already.
    fn due_search(&self, command: &Command) -> Option<(Scope, SessionId, IdentityId)> {
        let scope = &command.scope;
        let session = command.write.session_id()?;
        let identity = identity_of(command)?;
        let state = self.known_in_ledger.get(&self.key(scope, session));
        let due = !state.is_some_and(|state| state.searched);
        due.then(|| (scope.clone(), session.clone(), identity.clone()))
    }

    /// Performs a write to an ephemeral session.
    async fn write_ephemeral(&self, command: Command) -> Result<CommittedWrite, Failure> {
        let written = self.ephemeral.write(&command).await;
        let (outcome, edition) = self.tally.observe(written)?;
        let stored = CommittedWrite {
            outcome,
            durability: Durability::Ephemeral,
        };
        let tenant = &command.scope.tenant;
        let Some(session) = command.write.session_id() else {
            return Ok(stored);
        };
        if matches!(command.write, Write::Redact(_) | Write::Erase(_)) {
            self.gate.raise(tenant, session, edition).await?;
        }
        // A session of this id may have been created in the ledger at the same time. It hides this ephemeral session,
        // so the write must fail.
        let key = self.key(&command.scope, session);
        if self.only_hot.get(&key) != Some(edition.incarnation) {
            if self.in_ledger(&command.scope, session).await?.is_some() {
                // The ephemeral session is removed only if this write created it. An older one has earlier turns, which
                // a login moves to the owner of the ledger's session.
                if edition.version == 1 {
                    self.end(tenant, session, edition).await?;
                }
                return Err(session_conflict());
            }
            self.only_hot.insert(key, edition.incarnation);
        }
        Ok(stored)
    }

    /// Removes an ephemeral session that the ledger's session of the same id hides, unless another process has written
    /// to it since `edition`: that process makes the same check.
    async fn end(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        edition: Edition,
    ) -> Result<(), Failure> {
        let (times, pause) = REMOVAL_TRIES;
        let mut tries = 1;
        loop {
            let gone = self.ephemeral.forget(tenant, session, Some(edition)).await;
            match self.tally.observe(gone) {
                Err(_) if tries < times => tokio::time::sleep(pause * tries).await,
                gone => return gone.map(|_| ()),
            }
            tries += 1;
        }
    }
}
