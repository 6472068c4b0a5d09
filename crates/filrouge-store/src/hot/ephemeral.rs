//! Ephemeral sessions: sessions like any other, whose rows lie in a hot store and nowhere else (DESIGN §7).
//!
//! The rules of a turn's life run over the rows in memory; what they have changed is put by one commit, which the hot
//! store takes only if nobody else has changed the session meanwhile. Then it is read again, and the rules run again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_types::{Clock, ErrorCode, Failure, SessionId, TenantId, Timestamp};
use quick_cache::{Weighter, sync, unsync};
use tokio::sync::watch;

use super::rows::HeldRows;
use super::{Edition, HotKey, HotStore};
use crate::command::{Adopt, Command, Outcome};
use crate::keyring::{Entropy, Keyring};
use crate::ledger::Inspect;
use crate::verify::Suspects;

mod counts;
mod gate;
mod held;
mod ledger;
mod take_out;
mod write;

pub use counts::EphemeralCounts;
pub use gate::{Gate, OpenGate};
use held::{Held, Named};
pub use take_out::{Keep, KeepItems};

/// How often a state that others change meanwhile is tried.
const TRIES: u32 = 64;

/// Sessions whose newest known state is remembered longer than their rows.
const SEEN: usize = 1 << 16;

/// Bytes of rows that are held, unless told otherwise.
const CACHE_BYTES: u64 = 64 << 20;

/// A session that is held, or that somebody is about to load: one at a time.
type Slot = Arc<tokio::sync::Mutex<Option<Held>>>;

/// Sessions that are held, each with its bytes.
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
    turn_timeout: Duration,
    held: Mutex<Slots>,
    seen: sync::Cache<HotKey, Edition>,
    counts: Mutex<EphemeralCounts>,
    suspects: Mutex<Suspects>,
    commits: watch::Sender<u64>,
}

impl EphemeralSessions {
    /// The sessions of the ledger called `store_id` in `hot`; bounded as that says.
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

    /// With another silence than 15 minutes after which an open turn is interrupted, when the next one begins.
    #[must_use]
    pub const fn with_turn_timeout(mut self, silence: Duration) -> Self {
        self.turn_timeout = silence;
        self
    }

    /// With another bound than 64 MiB for the sessions that are held in this process, in bytes of their rows.
    #[must_use]
    pub fn with_cache_bytes(mut self, bytes: u64) -> Self {
        self.held = slots(bytes);
        self
    }

    /// The hot store's name of a session.
    #[must_use]
    pub fn key(&self, tenant: &TenantId, session: &SessionId) -> HotKey {
        HotKey::new(&self.store_id, tenant, session)
    }

    /// Whether the session is there.
    ///
    /// # Errors
    /// `hot_unavailable`, `integrity_error`, the gate's.
    pub async fn holds(&self, tenant: &TenantId, session: &SessionId) -> Result<bool, Failure> {
        self.with(tenant, session, |held| held.is_some()).await
    }

    /// Does one write; gives the state that it has left. It makes the session when the write does. One that fails with
    /// `hot_unavailable` may have happened; done again it is answered as any retry.
    ///
    /// # Errors
    /// Those of the rules; `turn_expired` for a turn that may have been let go, `limit_exceeded` for one that is too
    /// large, `hot_unavailable`, the gate's.
    pub async fn write(&self, command: &Command) -> Result<(Outcome, Edition), Failure> {
        let Some(session) = command.write.session_id() else {
            let what = "a note is of no session";
            return Err(Failure::new(ErrorCode::Invalid, what));
        };
        let named = self.named(&command.scope.tenant, session);
        let slot = self.slot(&named.key);
        let mut held = slot.lock().await;
        let answer = self.written(named, &mut held, command).await;
        self.weigh(named.key, &slot, held.as_ref());
        answer
    }

    /// Puts a question to a sight of the session alone; `false`, and it is not put, when the session is absent.
    ///
    /// # Errors
    /// `hot_unavailable`, `integrity_error`, the gate's.
    pub async fn inspect(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        question: Inspect,
    ) -> Result<bool, Failure> {
        let suspects = self.suspects();
        let put = |held: Option<&Held>| {
            held.map(|held| question(&self.sight(&held.rows, &suspects)))
                .is_some()
        };
        self.with(tenant, session, put).await
    }

    /// Puts a question to the sight of a hot store that has not got the session that is asked for: to who is nobody, a turn
    /// that is asked for has expired there.
    pub fn inspect_absent(&self, question: Inspect) {
        let suspects = self.suspects();
        question(&self.sight(&HeldRows::default(), &suspects));
    }

    /// The whole session for the ledger, with the state that it was found in; the same every time, as long as it is in
    /// one state. Seqs and ordinals count from 1 in it, also where the oldest turns were let go. `None` when the session is
    /// absent, also when it was not what was put: then it is forgotten, counted and told in the log.
    ///
    /// # Errors
    /// `hot_unavailable`, `session_erased`, the gate's; `integrity_error` while the ledger of it is distrusted.
    pub async fn take_out(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        keep: &Keep,
    ) -> Result<Option<(Edition, Adopt)>, Failure> {
        let suspects = self.suspects();
        let take = |held: Option<&Held>| {
            held.map(|held| {
                let sight = self.sight(&held.rows, &suspects);
                let adopt = take_out::adopt(&sight, tenant, session, keep);
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
                    if self.damaged(named, edition, &failure).await? {
                        return Ok(None);
                    }
                }
                adopt => return adopt.map(|adopt| Some((edition, adopt))),
            }
        }
        Err(contended(self.named(tenant, session)))
    }

    /// Forgets the session, with `expected` only in that state; whether it is gone.
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

    /// What has happened in this process.
    #[must_use]
    pub fn counts(&self) -> EphemeralCounts {
        *locked(&self.counts)
    }

    fn count(&self, add: impl FnOnce(&mut EphemeralCounts)) {
        add(&mut locked(&self.counts));
    }

    /// Shows the session as the hot store has it now.
    async fn with<T>(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        see: impl FnOnce(Option<&Held>) -> T,
    ) -> Result<T, Failure> {
        let named = self.named(tenant, session);
        let slot = self.slot(&named.key);
        let mut held = slot.lock().await;
        let before = held.take();
        *held = self.current(named, before).await?;
        self.weigh(named.key, &slot, held.as_ref());
        Ok(see(held.as_ref()))
    }

    fn named<'a>(&self, tenant: &'a TenantId, session: &'a SessionId) -> Named<'a> {
        Named {
            tenant,
            session,
            key: self.key(tenant, session),
        }
    }

    /// Where the session is held, or is to be.
    fn slot(&self, key: &HotKey) -> Slot {
        let mut held = locked(&self.held);
        if let Some((slot, _)) = held.get(key) {
            return slot.clone();
        }
        let slot = Slot::default();
        held.insert(*key, (slot.clone(), EMPTY_BYTES));
        slot
    }

    /// Notes how much a session takes that is held now; of one that is not, nothing is held.
    fn weigh(&self, key: HotKey, slot: &Slot, held: Option<&Held>) {
        let mut all = locked(&self.held);
        match held {
            Some(held) => all.insert(key, (slot.clone(), held.rows.bytes() + EMPTY_BYTES)),
            // Others may be waiting for it; they find it empty.
            None => drop(all.remove(&key)),
        }
    }

    /// The newest state of a session that this process has come across.
    fn seen(&self, key: &HotKey) -> Option<Edition> {
        self.seen.get(key)
    }

    fn see(&self, key: HotKey, edition: Edition) {
        self.seen.insert(key, edition);
    }

    fn suspects(&self) -> Suspects {
        locked(&self.suspects).clone()
    }

    fn silence(&self, now: Timestamp) -> Timestamp {
        let silence = i64::try_from(self.turn_timeout.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(now.as_micros().saturating_sub(silence))
    }

    /// Wakes whoever follows the sessions of this process.
    fn told(&self) {
        self.commits.send_modify(|commits| *commits += 1);
    }
}

/// About what a slot takes by itself.
const EMPTY_BYTES: u64 = 256;

/// About how many sessions are held.
const SLOTS: usize = 1 << 10;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each is changed by one call that does not panic between its steps.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Others have written to the session all the time.
fn contended(named: Named<'_>) -> Failure {
    let what = format!(
        "session {:?} is written to by too many at once",
        named.session.as_str()
    );
    Failure::new(ErrorCode::HotUnavailable, what).with_hint("try again")
}
