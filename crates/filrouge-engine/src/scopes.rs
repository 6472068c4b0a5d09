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
//! `durable = authenticated`, once in each process to search it for turns from before a login. The request waits no
//! longer than the hot store's timeout.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::command::{Command, Outcome, Scope, Write};
use filrouge_store::hot::{Edition, EphemeralSessions, HotKey, HotStore};
use filrouge_store::ledger::{LedgerLayer, QuerySubject, SnapshotQuery};
use filrouge_store::read::session_conflict;
use filrouge_store::{
    CommittedWrite, Durability, Entropy, FairSlots, Keyring, Ledger, Slot, SlotBounds, WorkSize,
};
use filrouge_types::{Clock, ErrorCode, Failure, IdentityId, Result, SessionId, TenantId};
use quick_cache::sync::Cache;
use tokio::sync::RwLock;
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

use copies::{Copies, Removal};
use gate::LedgerGate;
use recent::FILL_SLOTS;
use route::{LedgerPresence, Tier, identity_of};
use tally::TierTally;
use verified::{ShownSessions, ShownVersion};

/// The maximum number of sessions that are remembered as being in the ledger.
const IN_LEDGER_MAX: usize = 65_536;
/// The maximum number of sessions for which `TieredLedger::copied_extents` has an entry.
const COPIED_EXTENTS_MAX: usize = 16_384;
/// The maximum number of attempts to remove an ephemeral session that a session of the same id in the ledger hides, and
/// the pause after the first attempt. The pause after the second attempt is twice as long.
const REMOVAL_ATTEMPTS: (u32, Duration) = (3, Duration::from_millis(50));

/// The maximum number of requests that use ephemeral sessions at once. Each reads a note over the connection that the
/// ledger reserves for the server's own data.
const EPHEMERAL_SLOTS: SlotBounds = SlotBounds::without_shares(16);

/// The maximum time that closing waits for steps (updates of copies) that have not reached the hot store.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

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
    known_in_ledger: Cache<HotKey, LedgerPresence>,
    shown_sessions: ShownSessions,
    /// For each session, the seq up to which the newest copy was built, and the limit of turns that was requested for
    /// it.
    copied_extents: Cache<HotKey, (u64, usize)>,
    /// One slot for each copy that may be built at once.
    fill_slots: FairSlots,
    ephemeral_slots: FairSlots,
    /// For each ephemeral session that this process has written to, the incarnation for which it has checked, after the
    /// write, that the ledger has no session of that id.
    checked_incarnations: Cache<HotKey, u64>,
    /// A write that deletes contents holds this lock for reading until it is done. Closing locks it for writing, and so
    /// waits for all of them.
    deletion_lock: Arc<RwLock<()>>,
}

#[async_trait]
impl LedgerLayer for TieredLedger {
    fn inner(&self) -> &dyn Ledger {
        self.ledger.as_ref()
    }

    async fn write(&self, command: Command) -> Result<CommittedWrite> {
        if command.write.is_retraction() {
            return self.write_uninterrupted(command).await;
        }
        self.write_to_tier(command).await
    }

    async fn inspect(&self, subject: QuerySubject<'_>, query: SnapshotQuery) -> Result<()> {
        match subject {
            QuerySubject::Session(scope, session) => {
                self.inspect_session(scope, session, query).await
            }
            subject => self.ledger.inspect(subject, query).await,
        }
    }

    async fn close(&self) {
        let flushed = async {
            let _no_deletions = self.deletion_lock.write().await;
            self.copies.flush().await;
        };
        if tokio::time::timeout(CLOSE_TIMEOUT, flushed).await.is_err() {
            tracing::warn!(
                steps = self.copies.queued_steps(),
                "[SESSIONS][HOT] not all writes reached the hot store before it was closed"
            );
        }
        self.ledger.close().await;
    }
}

impl TieredLedger {
    /// A tiered ledger of `ledger`, whose keys are `keyring`, with `hot` in front of it. Call it within a Tokio
    /// runtime: a task sends steps until the tiered ledger is dropped.
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
            shown_sessions: ShownSessions::new(),
            copied_extents: Cache::new(COPIED_EXTENTS_MAX),
            fill_slots: FairSlots::new(FILL_SLOTS),
            ephemeral_slots: FairSlots::new(EPHEMERAL_SLOTS),
            checked_incarnations: Cache::new(IN_LEDGER_MAX),
            deletion_lock: Arc::default(),
        })
    }

    /// Counts since this process started.
    pub fn counts(&self) -> TierCounts {
        TierCounts {
            steps_waiting: self.copies.queued_steps(),
            removals_waiting: self.copies.pending_removals(),
            ephemeral: self.ephemeral.counts(),
            ..self.tally.counts()
        }
    }

    /// Waits until the hot store has received the steps of all writes that have returned, and until copies that are
    /// being built are complete. A step that the hot store does not accept is dropped and counted.
    pub async fn flush(&self) {
        self.copies.flush().await;
        self.fill_slots.wait_until_all_released().await;
    }

    /// Sends a write to the tier of its session.
    async fn write_to_tier(&self, command: Command) -> Result<CommittedWrite> {
        if !self.allows_ephemeral() {
            return self.write_to_ledger(command).await;
        }
        match self.tier_of_write(&command).await? {
            Tier::Ledger => self.write_durable(command).await,
            Tier::Hot => self.write_ephemeral(command).await,
        }
    }

    /// Performs a write that deletes contents in both tiers. It completes even if the caller has disconnected, because
    /// stopping halfway would leave contents that must be deleted.
    async fn write_uninterrupted(&self, command: Command) -> Result<CommittedWrite> {
        let internal = |detail: String| Failure::new(ErrorCode::Internal, detail);
        let Some(scopes) = self.this.upgrade() else {
            return Err(internal("the stores are being closed".to_owned()));
        };
        let guard = self.deletion_lock.clone().read_owned().await;
        let write = async move {
            let _guard = guard;
            scopes.write_and_rewrite_files(command).await
        };
        let written = tokio::spawn(write.in_current_span()).await;
        written.unwrap_or_else(|e| Err(internal(format!("the task of a write ended early: {e}"))))
    }

    /// Writes to the ledger, and updates or removes the session's copy.
    async fn write_to_ledger(&self, command: Command) -> Result<CommittedWrite> {
        let Some(session) = command.write.session_id() else {
            return self.ledger.write(command).await;
        };
        let key = self.key(&command.scope, session);
        let scope = command.scope.clone();
        let pending = command
            .write
            .is_retraction()
            .then(|| self.copies.prepare_removal(key));
        let written = self.ledger.write(command).await;
        let stored = match (written, pending) {
            (Ok(stored), Some(pending)) => {
                let removal = match &stored.outcome {
                    // This seq is after all items of the session, so the hot store accepts no older copy.
                    Outcome::Erased(erased) => Some(Removal::of_session(erased.items + 1)),
                    Outcome::Redacted(redacted) => Some(Removal::of_copy(redacted.redaction_seq)),
                    Outcome::Session {
                        written: Some(written),
                        ..
                    } => Some(Removal::of_copy(written.last_seq)),
                    _ => None,
                };
                match removal {
                    // A removal that fails is retried later.
                    Some(removal) => {
                        self.shown_sessions.forget(&key);
                        pending.remove(removal).await;
                    }
                    None => pending.cancel(),
                }
                if let Outcome::Redacted(_) = stored.outcome {
                    self.record_written(key, &scope, &stored.outcome);
                }
                return Ok(stored);
            }
            (Err(failure), Some(pending)) => {
                if failure.code.retry() {
                    // The write may have been committed, so the copy is removed.
                    self.shown_sessions.forget(&key);
                } else {
                    pending.cancel();
                }
                return Err(failure);
            }
            (written, None) => written?,
        };
        self.record_written(key, &scope, &stored.outcome);
        self.send_to_copy(key, &stored.outcome);
        Ok(stored)
    }

    /// Records that the caller of a write was shown the resulting history.
    fn record_written(&self, key: HotKey, scope: &Scope, outcome: &Outcome) {
        if let Some(written) = step::written_range(outcome) {
            let shown = ShownVersion {
                as_of: step::version_after(written),
                has_permanent_access: false,
            };
            self.shown_sessions.record_shown(key, scope, shown);
        }
    }

    /// Queues the step of a write, which updates the session's copy.
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
    async fn write_durable(&self, command: Command) -> Result<CommittedWrite> {
        let required = self.required_search(&command);
        let stored = self.write_to_ledger(command).await?;
        if let Some((scope, session, identity)) = required {
            let key = self.key(&scope, &session);
            if !self.is_searched(&key) {
                self.known_in_ledger.insert(key, LedgerPresence::default());
                // An ephemeral session of that id may have been created between the search and this write.
                self.search_hot_store(&scope, &session, &identity).await;
            }
        }
        Ok(stored)
    }

    /// The search that a write requires; `None` if the write has no identity, or if the hot store was searched already.
    fn required_search(&self, command: &Command) -> Option<(Scope, SessionId, IdentityId)> {
        let scope = &command.scope;
        let session = command.write.session_id()?;
        let identity = identity_of(command)?;
        let is_required = !self.is_searched(&self.key(scope, session));
        is_required.then(|| (scope.clone(), session.clone(), identity.clone()))
    }

    /// Waits until it is the caller's turn to use an ephemeral session.
    async fn ephemeral_slot(&self, scope: &Scope) -> Option<Slot> {
        let slots = &self.ephemeral_slots;
        slots.acquire(&scope.caller(), WorkSize::Small).await
    }

    /// Whether the hot store has the session.
    async fn has_ephemeral(&self, scope: &Scope, session: &SessionId) -> Result<bool> {
        let _slot = self.ephemeral_slot(scope).await;
        let is_ephemeral = self.ephemeral.has_session(&scope.tenant, session).await;
        self.tally.observe(is_ephemeral)
    }

    /// Performs a write to an ephemeral session.
    async fn write_ephemeral(&self, command: Command) -> Result<CommittedWrite> {
        let slot = self.ephemeral_slot(&command.scope).await;
        let written = self.ephemeral.write(&command).await;
        drop(slot);
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
        if self.checked_incarnations.get(&key) != Some(edition.incarnation) {
            let presence = self.ledger_presence(&command.scope, session).await?;
            if presence.is_some() {
                // The ephemeral session is removed only if this write created it. An older one has earlier turns, which
                // a login moves to the owner of the ledger's session.
                if edition.version == 1 {
                    self.remove_hidden(tenant, session, edition).await?;
                }
                return Err(session_conflict());
            }
            self.checked_incarnations.insert(key, edition.incarnation);
        }
        Ok(stored)
    }

    /// Removes an ephemeral session that the ledger's session of the same id hides, unless another process has written
    /// to it since `edition`: that process makes the same check.
    async fn remove_hidden(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        edition: Edition,
    ) -> Result<()> {
        let (attempts_max, pause) = REMOVAL_ATTEMPTS;
        let mut attempts = 1;
        loop {
            let removed = self.ephemeral.forget(tenant, session, Some(edition)).await;
            match self.tally.observe(removed) {
                Err(_) if attempts < attempts_max => tokio::time::sleep(pause * attempts).await,
                removed => return removed.map(|_| ()),
            }
            attempts += 1;
        }
    }
}
