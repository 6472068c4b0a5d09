//! Ephemeral sessions: sessions whose rows are stored only in a hot store (DESIGN §7).
//!
//! The rules of turns run on cached rows; one commit writes the changes. The hot store accepts the commit only if the
//! session still has the version that was cached. Otherwise the session is reloaded and the rules run again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use filrouge_types::{Clock, ErrorCode, Failure, Result, SessionId, TenantId, Timestamp, lock};
use quick_cache::{Weighter, sync, unsync};
use tokio::sync::watch;

use super::rows::EphemeralRows;
use super::{Edition, HotKey, HotStore};
use crate::command::{Adopt, Command, Outcome};
use crate::keyring::{Entropy, Keyring};
use crate::ledger::SnapshotQuery;
use crate::verify::Suspects;

mod cached;
mod counts;
mod extract;
mod gate;
mod ledger;
mod write;

use cached::{CachedSession, SessionName};
pub use counts::EphemeralCounts;
pub use extract::{FieldRetention, ItemRetention};
pub use gate::{Gate, OpenGate};

/// The maximum number of attempts at an operation that concurrent writers invalidate.
const ATTEMPTS_MAX: u32 = 64;

/// The number of sessions whose newest known version is remembered, even after their rows are evicted.
const KNOWN_EDITIONS_MAX: usize = 1 << 16;

/// The default limit of the cached sessions, in bytes of their rows.
const CACHE_BYTES: u64 = 64 << 20;

/// The cache slot of a session. Its mutex allows one loader or writer at a time.
type Slot = Arc<tokio::sync::Mutex<Option<CachedSession>>>;

/// The cached sessions, each with its size in bytes.
type Slots = unsync::Cache<HotKey, (Slot, u64), SizeWeighter>;

/// Weighs the cached sessions by their size in bytes.
struct SizeWeighter;

impl Weighter<HotKey, (Slot, u64)> for SizeWeighter {
    fn weight(&self, _: &HotKey, (_, bytes): &(Slot, u64)) -> u64 {
        *bytes
    }
}

fn new_slots(bytes: u64) -> Mutex<Slots> {
    Mutex::new(Slots::with_weighter(EXPECTED_SLOTS, bytes, SizeWeighter))
}

/// The ephemeral sessions of a hot store.
pub struct EphemeralSessions {
    hot: Arc<dyn HotStore>,
    gate: Arc<dyn Gate>,
    keyring: Arc<Keyring>,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
    store_id: String,
    /// The time without writes after which the start of a turn interrupts an open turn.
    turn_timeout: Duration,
    /// The cached sessions.
    slots: Mutex<Slots>,
    /// The newest version of each session that this process knows.
    known_editions: sync::Cache<HotKey, Edition>,
    counts: Mutex<EphemeralCounts>,
    /// The reasons why this process refuses the sessions ([`crate::Ledger::distrust`]).
    suspects: Mutex<Suspects>,
    /// Publishes the number of commits of this process.
    commits: watch::Sender<u64>,
}

impl EphemeralSessions {
    /// The sessions of the ledger called `store_id` in `hot`, with the hot store's limits.
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
            slots: new_slots(CACHE_BYTES),
            known_editions: sync::Cache::new(KNOWN_EDITIONS_MAX),
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
        self.slots = new_slots(bytes);
        self
    }

    /// The session's key in the hot store.
    pub fn key(&self, tenant: &TenantId, session: &SessionId) -> HotKey {
        HotKey::new(&self.store_id, tenant, session)
    }

    /// Whether the session exists.
    ///
    /// # Errors
    /// `hot_unavailable`, `integrity_error`, and the gate's errors.
    pub async fn has_session(&self, tenant: &TenantId, session: &SessionId) -> Result<bool> {
        self.with_session(tenant, session, |cached| cached.is_some())
            .await
    }

    /// Executes one write; returns the outcome and the session's version afterwards. A write that fails with
    /// `hot_unavailable` may have taken effect; the response to a retry is then a replay.
    ///
    /// # Errors
    /// Those of the rules; `turn_expired` for a turn that may have been trimmed, `limit_exceeded` for a turn that is
    /// too large, `hot_unavailable`, and the gate's errors.
    pub async fn write(&self, command: &Command) -> Result<(Outcome, Edition)> {
        let Some(session) = command.write.session_id() else {
            return Err(ErrorCode::Invalid.failure("a note belongs to no session"));
        };
        let name = self.session_name(&command.scope.tenant, session);
        let slot = self.slot(&name.key);
        let mut cached = slot.lock().await;
        let answer = self.execute(name, &mut cached, command).await;
        self.update_slot_size(name.key, &slot, cached.as_ref());
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
    ) -> Result<bool> {
        let suspects = self.suspects();
        let run_query = |cached: Option<&CachedSession>| {
            cached
                .map(|cached| query(&self.snapshot(&cached.rows, &suspects)))
                .is_some()
        };
        self.with_session(tenant, session, run_query).await
    }

    /// Runs a query on an empty snapshot, for a session that the hot store lacks. An anonymous caller's query for a
    /// turn fails with `turn_expired`.
    pub fn inspect_absent(&self, query: SnapshotQuery) {
        let suspects = self.suspects();
        query(&self.snapshot(&EphemeralRows::default(), &suspects));
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
    ) -> Result<Option<(Edition, Adopt)>> {
        let suspects = self.suspects();
        let adopt_session = |cached: Option<&CachedSession>| {
            cached.map(|cached| {
                let snapshot = self.snapshot(&cached.rows, &suspects);
                let adopt = extract::adopt(&snapshot, tenant, session, keep);
                (cached.edition, adopt)
            })
        };
        for _ in 0..ATTEMPTS_MAX {
            let Some((edition, adopt)) = self.with_session(tenant, session, adopt_session).await?
            else {
                return Ok(None);
            };
            match adopt {
                Err(failure)
                    if failure.code == ErrorCode::IntegrityError && suspects.is_empty() =>
                {
                    let name = self.session_name(tenant, session);
                    if self.forget_damaged(name, edition, &failure).await? {
                        return Ok(None);
                    }
                }
                adopt => return adopt.map(|adopt| Some((edition, adopt))),
            }
        }
        Err(too_many_writers(self.session_name(tenant, session)))
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
    ) -> Result<bool> {
        let name = self.session_name(tenant, session);
        let slot = self.slot(&name.key);
        let mut cached = slot.lock().await;
        *cached = None;
        self.update_slot_size(name.key, &slot, None);
        self.hot.forget(&name.key, expected).await
    }

    /// The counters of this process.
    pub fn counts(&self) -> EphemeralCounts {
        *lock(&self.counts)
    }

    fn count(&self, add: impl FnOnce(&mut EphemeralCounts)) {
        add(&mut lock(&self.counts));
    }

    /// Runs `read` on the session's current version in the hot store.
    async fn with_session<T>(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        read: impl FnOnce(Option<&CachedSession>) -> T,
    ) -> Result<T> {
        let name = self.session_name(tenant, session);
        let slot = self.slot(&name.key);
        let mut cached = slot.lock().await;
        let previous = cached.take();
        *cached = self.load_current(name, previous).await?;
        self.update_slot_size(name.key, &slot, cached.as_ref());
        Ok(read(cached.as_ref()))
    }

    /// The name of a session, with its key in the hot store.
    fn session_name<'a>(&self, tenant: &'a TenantId, session: &'a SessionId) -> SessionName<'a> {
        SessionName {
            tenant,
            session,
            key: self.key(tenant, session),
        }
    }

    /// The session's cache slot; creates an empty one if needed.
    fn slot(&self, key: &HotKey) -> Slot {
        let mut slots = lock(&self.slots);
        if let Some((slot, _)) = slots.get(key) {
            return slot.clone();
        }
        let slot = Slot::default();
        slots.insert(*key, (slot.clone(), EMPTY_SLOT_BYTES));
        slot
    }

    /// Updates the session's size in the cache, or removes the slot when no session is cached in it.
    fn update_slot_size(&self, key: HotKey, slot: &Slot, cached: Option<&CachedSession>) {
        let mut slots = lock(&self.slots);
        match cached {
            Some(cached) => {
                slots.insert(key, (slot.clone(), cached.rows.bytes() + EMPTY_SLOT_BYTES));
            }
            // Calls that wait for the slot then load the session.
            None => drop(slots.remove(&key)),
        }
    }

    /// The newest version of the session that this process knows.
    fn known_edition(&self, key: &HotKey) -> Option<Edition> {
        self.known_editions.get(key)
    }

    /// Remembers the newest version of the session.
    fn remember_edition(&self, key: HotKey, edition: Edition) {
        self.known_editions.insert(key, edition);
    }

    fn suspects(&self) -> Suspects {
        lock(&self.suspects).clone()
    }

    /// The start of a turn interrupts open turns whose last write is older than this time.
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
const EMPTY_SLOT_BYTES: u64 = 256;

/// The expected number of cached sessions.
const EXPECTED_SLOTS: usize = 1 << 10;

/// The failure after too many concurrent writes to the session.
fn too_many_writers(name: SessionName<'_>) -> Failure {
    let detail = format!(
        "session {:?} has too many concurrent writers",
        name.session.as_str()
    );
    Failure::new(ErrorCode::HotUnavailable, detail).with_hint("try again")
}
