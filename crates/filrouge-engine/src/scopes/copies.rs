//! Updates copies of durable sessions in the hot store after commits of the ledger. Each commit causes a *step*, which
//! is the update of one copy. Steps go through a bounded queue, so that no write waits for the hot store. Removals must
//! be done before a write that deletes contents returns, so they bypass the queue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_store::hot::{HotKey, HotStore, RecentUpdate};
use filrouge_types::Failure;
use quick_cache::sync::Cache;
use tokio::sync::{mpsc, oneshot};

use super::tally::TierTally;

/// The maximum number of queued steps.
const QUEUE: usize = 4096;
/// The maximum number of bytes of turns in queued steps.
const QUEUE_BYTES: usize = 64 << 20;
/// The maximum number of steps sent in one call.
const AT_ONCE: usize = 256;
/// The maximum number of failed removals that are kept for a retry.
const REMOVALS: usize = 10_000;
/// The interval between two retries of failed removals.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// A job of the task that sends to the hot store.
enum Job {
    Step(HotKey, RecentUpdate),
    /// Answered when all jobs before it are done.
    Settle(oneshot::Sender<()>),
}

/// A removal from the hot store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removal {
    /// Afterwards the hot store refuses copies and updates older than this seq.
    seq: u64,
    /// Whether to remove an ephemeral session of the same id as well: there may be one that was never moved into the
    /// ledger.
    session: bool,
}

impl Removal {
    /// Removes only the copy.
    pub(super) const fn of_copy(seq: u64) -> Self {
        Self {
            seq,
            session: false,
        }
    }

    /// Removes the copy and an ephemeral session of the same id.
    pub(super) const fn of_session(seq: u64) -> Self {
        Self { seq, session: true }
    }

    /// The removal that covers both removals.
    fn merged_with(self, other: Self) -> Self {
        Self {
            seq: self.seq.max(other.seq),
            session: self.session || other.session,
        }
    }
}

/// Sends steps and removals to the hot store.
pub(super) struct Copies {
    jobs: mpsc::Sender<Job>,
    shared: Arc<Shared>,
}

struct Shared {
    hot: Arc<dyn HotStore>,
    tally: Arc<TierTally>,
    /// Number of queued steps.
    waiting: AtomicU64,
    /// The number of bytes of turns in queued steps.
    bytes: AtomicUsize,
    /// Removals that failed.
    removals: Mutex<HashMap<HotKey, Removal>>,
    /// Sessions whose failed removals were not kept, because there was no room: they are not retried.
    unkept: Cache<HotKey, ()>,
}

/// A removal that belongs to a write. If this is dropped before the copy was removed or the removal cancelled, the copy
/// is removed later.
pub(super) struct PendingRemoval {
    shared: Arc<Shared>,
    key: HotKey,
    removal: Option<Removal>,
}

impl PendingRemoval {
    /// Cancels the removal: the write has changed nothing.
    pub(super) fn cancel(mut self) {
        self.removal = None;
    }

    /// Removes the copy from the hot store. A removal that fails is retried until it succeeds.
    pub(super) async fn remove(mut self, removal: Removal) {
        self.removal = Some(removal);
        match self.shared.remove(self.key, removal).await {
            Ok(()) => self.removal = None,
            Err(failure) => {
                self.shared
                    .tally
                    .count(|counts| counts.removals_failed += 1);
                tracing::warn!(key = %self.key, code = failure.code.as_str(),
                    "[SESSIONS][HOT] a copy is not removed yet");
            }
        }
    }
}

impl Drop for PendingRemoval {
    fn drop(&mut self) {
        if let Some(removal) = self.removal.take() {
            self.shared.keep(self.key, removal);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves the map consistent: each change is one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bytes_of(step: &RecentUpdate) -> usize {
    step.puts.as_ref().map_or(0, |turn| turn.record.len())
}

impl Copies {
    /// Starts the task that sends to the hot store; the task ends when this value is dropped. Call it within a Tokio
    /// runtime.
    pub(super) fn start(hot: Arc<dyn HotStore>, tally: Arc<TierTally>) -> Self {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            hot,
            tally,
            waiting: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            removals: Mutex::default(),
            unkept: Cache::new(REMOVALS),
        });
        tokio::spawn(send(shared.clone(), waiting));
        Self { jobs, shared }
    }

    /// Whether steps are accepted. While the hot store is known to fail, they are not, and each call counts a dropped
    /// step.
    pub(super) fn accepts_steps(&self) -> bool {
        let accepts = self.shared.hot.failure().is_none();
        if !accepts {
            self.shared.tally.count(|counts| counts.steps_dropped += 1);
        }
        accepts
    }

    /// Queues a step. If there is no room, it is dropped and counted.
    pub(super) fn send(&self, key: HotKey, step: RecentUpdate) {
        let bytes = bytes_of(&step);
        let before = self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        // The step is counted before it is queued, because the sending task may finish it first.
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let sent =
            before + bytes <= QUEUE_BYTES && self.jobs.try_send(Job::Step(key, step)).is_ok();
        if !sent {
            self.shared.done(bytes);
            self.shared.tally.count(|counts| counts.steps_dropped += 1);
        }
    }

    /// Number of queued steps.
    pub(super) fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Prepares a removal; call it before a write that deletes contents of a session.
    pub(super) fn begin(&self, key: HotKey) -> PendingRemoval {
        PendingRemoval {
            shared: self.shared.clone(),
            key,
            removal: Some(Removal::of_copy(0)),
        }
    }

    /// Whether a session's copy still has to be removed.
    pub(super) fn is_unremoved(&self, key: &HotKey) -> bool {
        locked(&self.shared.removals).contains_key(key) || self.shared.unkept.get(key).is_some()
    }

    /// The number of copies whose removal is to be retried.
    pub(super) fn unremoved(&self) -> u64 {
        locked(&self.shared.removals).len() as u64
    }

    /// Waits until every job that was queued before is done.
    pub(super) async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        if self.jobs.send(Job::Settle(done)).await.is_ok() {
            // The sending task ends only after `self` is dropped.
            let _ = settled.await;
        }
    }
}

impl Shared {
    fn done(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Keeps a failed removal for a retry.
    fn keep(&self, key: HotKey, removal: Removal) {
        let mut removals = locked(&self.removals);
        if removals.len() < REMOVALS || removals.contains_key(&key) {
            let kept = removals.entry(key).or_insert(removal);
            *kept = kept.merged_with(removal);
        } else {
            self.unkept.insert(key, ());
            tracing::error!(%key, "[SESSIONS][HOT] a copy is not removed, and this is not retried: too many are waiting");
        }
    }

    async fn remove(&self, key: HotKey, removal: Removal) -> Result<(), Failure> {
        let hot = &self.hot;
        self.tally
            .observe(hot.forget_recent(&key, removal.seq).await)?;
        if removal.session {
            self.tally.observe(hot.forget(&key, None).await)?;
        }
        self.unkept.remove(&key);
        let mut removals = locked(&self.removals);
        if removals
            .get(&key)
            .is_some_and(|kept| kept.merged_with(removal) == removal)
        {
            removals.remove(&key);
        }
        Ok(())
    }

    async fn advance(&self, mut steps: Vec<(HotKey, RecentUpdate)>) {
        // Writes may overtake each other on the way to this task; the seqs restore the order of one session.
        steps.sort_by_key(|(key, step)| (*key, step.before.seq));
        let sizes: Vec<_> = steps.iter().map(|(_, step)| bytes_of(step)).collect();
        match self.tally.observe(self.hot.advance(steps).await) {
            Ok(()) => self
                .tally
                .count(|counts| counts.steps_sent += sizes.len() as u64),
            Err(_) => self
                .tally
                .count(|counts| counts.steps_dropped += sizes.len() as u64),
        }
        sizes.into_iter().for_each(|bytes| self.done(bytes));
    }

    /// Retries failed removals; stops at the first one that fails again.
    async fn retry_removals(&self) {
        let due: Vec<(HotKey, Removal)> = {
            let removals = locked(&self.removals);
            removals.iter().map(|(key, due)| (*key, *due)).collect()
        };
        for (key, removal) in due {
            if self.remove(key, removal).await.is_err() {
                return;
            }
        }
    }
}

/// Does the queued jobs and retries failed removals, until [`Copies`] is dropped.
async fn send(shared: Arc<Shared>, mut waiting: mpsc::Receiver<Job>) {
    let mut jobs = Vec::new();
    let mut again = tokio::time::interval(RETRY_EVERY);
    again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            count = waiting.recv_many(&mut jobs, AT_ONCE) => {
                if count == 0 {
                    return;
                }
            }
            _ = again.tick() => {
                shared.retry_removals().await;
                continue;
            }
        }
        let (mut steps, mut settled) = (Vec::new(), Vec::new());
        for job in jobs.drain(..) {
            match job {
                Job::Step(key, step) => steps.push((key, step)),
                Job::Settle(done) => settled.push(done),
            }
        }
        if !steps.is_empty() {
            shared.advance(steps).await;
        }
        for done in settled {
            // The waiting caller may have given up.
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use filrouge_store::hot::{HotBounds, MemoryHot};
    use filrouge_types::FixedClock;

    use super::*;

    #[tokio::test]
    async fn a_removal_that_finds_no_room_is_reported() {
        let clock = Arc::new(FixedClock::at(0));
        let hot = Arc::new(MemoryHot::new(HotBounds::default(), 1 << 20, clock));
        let copies = Copies::start(hot, Arc::default());
        let key = |n: u64| HotKey(u128::from(n).to_be_bytes());
        // The sending task does not run between these calls.
        for n in 0..=REMOVALS as u64 {
            drop(copies.begin(key(n)));
        }
        assert_eq!(copies.unremoved(), REMOVALS as u64);
        assert!(copies.is_unremoved(&key(0)) && copies.is_unremoved(&key(REMOVALS as u64)));
        copies.begin(key(1)).cancel();
        assert!(
            copies.is_unremoved(&key(1)),
            "the removal that another write caused stays"
        );
        copies
            .begin(key(REMOVALS as u64))
            .remove(Removal::of_copy(1))
            .await;
        assert!(!copies.is_unremoved(&key(REMOVALS as u64)));
    }
}
