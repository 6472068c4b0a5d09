//! Ephemeral sessions: sessions whose rows are stored only in a hot store (DESIGN §7).
//!
//! The rules of turns run on cached rows; one commit writes the changes. The hot store accepts the commit only if the
//! session still has the version that was cached. Otherwise the session is reloaded and the rules run again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_types::{Clock, ErrorCode, Failure, SessionId, TenantId, Timestamp};
use quick_cache::{Weighter, sync, unsync};
use tokio::sync::watch;

use super::rows::HeldRows;
use super::{Edition, HotKey, HotStore};
use crate::command::{Adopt, Command, Outcome};
use crate::keyring::{Entropy, Keyring};
use crate::ledger::SnapshotQuery;
use crate::verify::Suspects;

mod counts;
mod extract;
mod gate;
mod held;
mod ledger;
mod write;

pub use counts::EphemeralCounts;
pub use extract::{FieldRetention, ItemRetention};
pub use gate::{Gate, OpenGate};
use held::{HeldSession, SessionName};

/// The maximum number of attempts at an operation that concurrent writers invalidate.
const TRIES: u32 = 64;

/// The number of sessions whose newest seen version is remembered, even after their rows are evicted.
const SEEN: usize = 1 << 16;

/// The default limit of the cached sessions, in bytes of their rows.
const CACHE_BYTES: u64 = 64 << 20;

/// The cache slot of a session. Its mutex allows one loader or writer at a time.
type Slot = Arc<tokio::sync::Mutex<Option<HeldSession>>>;

/// The cached sessions, each with its size in bytes.
type Slots = unsync::Cache<HotKey, (Slot, u64), ByBytes>;

struct ByBytes;

impl Weighter<HotKey, (Slot, u64)> for ByBytes {
    fn weight(&self, _: &HotKey, (_, bytes): &(Slot, u64)) -> u64 {
        *bytes
    }
}

fn slots(bytes: u64) -> Mutex<Slots> {
    Mutex::new(Slots::with_weighter(SLOTS, bytes, ByBytes))
}

/// The ephemeral sessions of a hot store.
pub struct EphemeralSessions {
    hot: Arc<dyn HotStore>,
    gate: Arc<dyn Gate>,
    keyring: Arc<Keyring>,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
    store_id: String,
    /// The time without writes after which the next turn interrupts an open one.
    turn_timeout: Duration,
    /// The cached sessions.
    held: Mutex<Slots>,
    /// The newest version of each session that this process has seen.
    seen: sync::Cache<HotKey, Edition>,
    counts: Mutex<EphemeralCounts>,
    /// What this process no longer trusts ([`crate::Ledger::distrust`]).
    suspects: Mutex<Suspects>,
    /// Publishes the number of commits of this process.
    commits: watch::Sender<u64>,
}

impl EphemeralSessions {
    /// The sessions of the ledger called `store_id` in `hot`, with the hot store's limits.
    #[must_use]
    pub fn new(
        hot: Arc<dyn HotStore>,
        gate: Arc<dyn Gate>,
        keyring: Arc<Keyring>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        store_id: &str,
    ) -> Self {
        Self {
            hot,
            gate,
            keyring,
            entropy,
            clock,
            store_id: store_id.to_owned(),
            turn_timeout: Duration::from_secs(15 * 60),
            held: slots(CACHE_BYTES),
            seen: sync::Cache::new(SEEN),
            counts: Mutex::default(),
            suspects: Mutex::default(),
            commits: watch::Sender::new(0),
        }
    }

    /// Sets the time without writes after which the next turn interrupts an open one; the default is 15 minutes.
    #[must_use]
    pub const fn with_turn_timeout(mut self, timeout: Duration) -> Self {
        self.turn_timeout = timeout;
        self
    }

    /// Sets the limit of the sessions cached in this process, in bytes of their rows; the default is 64 MiB.
    #[must_use]
    pub fn with_cache_bytes(mut self, bytes: u64) -> Self {
        self.held = slots(bytes);
        self
    }

    /// The session's key in the hot store.
    #[must_use]
    pub fn key(&self, tenant: &TenantId, session: &SessionId) -> HotKey {
        HotKey::new(&self.store_id, tenant, session)
    }

    /// Whether the session exists.
    ///
    /// # Errors
    /// `hot_unavailable`, `integrity_error`, and the gate's errors.
    pub async fn holds(&self, tenant: &TenantId, session: &SessionId) -> Result<bool, Failure> {
        self.with(tenant, session, |held| held.is_some()).await
    }

    /// Executes one write; returns the outcome and the session's version afterwards. A write that fails with
    /// `hot_unavailable` may have taken effect; the response to a retry is then a replay.
    ///
    /// # Errors
    /// Those of the rules; `turn_expired` for a turn that may have been trimmed, `limit_exceeded` for a turn that is
    /// too large, `hot_unavailable`, and the gate's errors.
    pub async fn write(&self, command: &Command) -> Result<(Outcome, Edition), Failure> {
        let Some(session) = command.write.session_id() else {
            let what = "a note belongs to no session";
            return Err(Failure::new(ErrorCode::Invalid, what));
        };
        let named = self.named(&command.scope.tenant, session);
        let slot = self.slot(&named.key);
        let mut held = slot.lock().await;
        let answer = self.written(named, &mut held, command).await;
        self.weigh(named.key, &slot, held.as_ref());
        answer
    }

    /// Runs a query on a snapshot of only this session. Returns `false`, without running the query, when the session is
    /// absent.
    ///
    /// # Errors
    /// `hot_unavailable`, `integrity_error`, and the gate's errors.
    pub async fn inspect(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        query: SnapshotQuery,
    ) -> Result<bool, Failure> {
        let suspects = self.suspects();
        let run_query = |held: Option<&HeldSession>| {
            held.map(|held| query(&self.snapshot(&held.rows, &suspects)))
                .is_some()
        };
        self.with(tenant, session, run_query).await
    }

    /// Runs a query on an empty snapshot, for a session that the hot store lacks. An anonymous caller that asks for a
    /// turn gets `turn_expired`.
    pub fn inspect_absent(&self, query: SnapshotQuery) {
        let suspects = self.suspects();
        query(&self.snapshot(&HeldRows::default(), &suspects));
    }

    /// Reads the entire session in the form that the ledger adopts; also returns the version that was read. Two reads
    /// of one version return the same data. Seqs and ordinals count from 1, even if the oldest turns were trimmed.
    /// Returns `None` when the session is absent or fails verification; in the latter case the session is removed,
    /// counted and logged.
    ///
    /// # Errors
    /// `hot_unavailable`, `session_erased`, and the gate's errors; `integrity_error` if this process distrusts the
    /// sessions ([`crate::Ledger::distrust`]).
    pub async fn extract(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        keep: &FieldRetention,
    ) -> Result<Option<(Edition, Adopt)>, Failure> {
        let suspects = self.suspects();
        let take = |held: Option<&HeldSession>| {
            held.map(|held| {
                let snapshot = self.snapshot(&held.rows, &suspects);
                let adopt = extract::adopt(&snapshot, tenant, session, keep);
                (held.edition, adopt)
            })
        };
        for _ in 0..TRIES {
            let Some((edition, adopt)) = self.with(tenant, session, take).await? else {
                return Ok(None);
            };
            match adopt {
                Err(failure)
                    if failure.code == ErrorCode::IntegrityError && suspects.is_empty() =>
                {
                    let named = self.named(tenant, session);
                    if self.forget_damaged(named, edition, &failure).await? {
                        return Ok(None);
                    }
                }
                adopt => return adopt.map(|adopt| Some((edition, adopt))),
            }
        }
        Err(contended(self.named(tenant, session)))
    }

    /// Removes the session; if `expected` is given, only if the session has that version. Returns whether the session
    /// is absent afterwards.
    ///
    /// # Errors
    /// `hot_unavailable`.
    pub async fn forget(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        expected: Option<Edition>,
    ) -> Result<bool, Failure> {
        let named = self.named(tenant, session);
        let slot = self.slot(&named.key);
        let mut held = slot.lock().await;
        *held = None;
        self.weigh(named.key, &slot, None);
        self.hot.forget(&named.key, expected).await
    }

    /// The counters of this process.
    #[must_use]
    pub fn counts(&self) -> EphemeralCounts {
        *locked(&self.counts)
    }

    fn count(&self, add: impl FnOnce(&mut EphemeralCounts)) {
        add(&mut locked(&self.counts));
    }

    /// Runs `read` on the session's current version in the hot store.
    async fn with<T>(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        read: impl FnOnce(Option<&HeldSession>) -> T,
    ) -> Result<T, Failure> {
        let named = self.named(tenant, session);
        let slot = self.slot(&named.key);
        let mut held = slot.lock().await;
        let before = held.take();
        *held = self.current(named, before).await?;
        self.weigh(named.key, &slot, held.as_ref());
        Ok(read(held.as_ref()))
    }

    fn named<'a>(&self, tenant: &'a TenantId, session: &'a SessionId) -> SessionName<'a> {
        SessionName {
            tenant,
            session,
            key: self.key(tenant, session),
        }
    }

    /// The session's cache slot; creates an empty one if needed.
    fn slot(&self, key: &HotKey) -> Slot {
        let mut held = locked(&self.held);
        if let Some((slot, _)) = held.get(key) {
            return slot.clone();
        }
        let slot = Slot::default();
        held.insert(*key, (slot.clone(), EMPTY_BYTES));
        slot
    }

    /// Updates the session's size in the cache, or removes the slot when no session is cached in it.
    fn weigh(&self, key: HotKey, slot: &Slot, held: Option<&HeldSession>) {
        let mut all = locked(&self.held);
        match held {
            Some(held) => all.insert(key, (slot.clone(), held.rows.bytes() + EMPTY_BYTES)),
            // Waiters for the slot find it empty.
            None => drop(all.remove(&key)),
        }
    }

    /// The newest version of the session that this process has seen.
    fn seen(&self, key: &HotKey) -> Option<Edition> {
        self.seen.get(key)
    }

    /// Remembers the newest version of the session that this process has seen.
    fn remember(&self, key: HotKey, edition: Edition) {
        self.seen.insert(key, edition);
    }

    fn suspects(&self) -> Suspects {
        locked(&self.suspects).clone()
    }

    /// An open turn whose last write is older than this time is interrupted by the next turn.
    fn idle_since(&self, now: Timestamp) -> Timestamp {
        let timeout = i64::try_from(self.turn_timeout.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(now.as_micros().saturating_sub(timeout))
    }

    /// Wakes the followers of this process's sessions.
    fn wake_followers(&self) {
        self.commits.send_modify(|commits| *commits += 1);
    }
}

/// The approximate overhead of a slot in bytes.
const EMPTY_BYTES: u64 = 256;

/// The expected number of cached sessions.
const SLOTS: usize = 1 << 10;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each value is changed by one call that does not panic midway.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The failure after too many concurrent writes to the session.
fn contended(named: SessionName<'_>) -> Failure {
    let what = format!(
        "session {:?} has too many concurrent writers",
        named.session.as_str()
    );
    Failure::new(ErrorCode::HotUnavailable, what).with_hint("try again")
}
