//! Updates copies of durable sessions in the hot store after commits of the ledger. Each commit causes a *step*, which
//! is the update of one copy. Steps go through a bounded queue, so that no write waits for the hot store. Removals must
//! be done before a write that deletes contents returns, so they bypass the queue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filrouge_store::hot::{HotKey, HotStore, RecentUpdate};
use filrouge_types::{Failure, lock};
use quick_cache::sync::Cache;
use tokio::sync::{mpsc, oneshot};

use super::tally::TierTally;

/// The maximum number of queued steps.
const QUEUED_STEPS_MAX: usize = 4096;
/// The maximum number of bytes of turns in queued steps.
const QUEUED_BYTES_MAX: usize = 64 << 20;
/// The maximum number of steps sent in one call.
const STEPS_PER_CALL: usize = 256;
/// The maximum number of failed removals that are kept for a retry.
const FAILED_REMOVALS_MAX: usize = 10_000;
/// The interval between two retries of failed removals.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// A job of the task that sends steps to the hot store.
enum Job {
    Step(HotKey, RecentUpdate),
    /// A request to be notified when all jobs before it are done.
    Flush(oneshot::Sender<()>),
}

/// A removal from the hot store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removal {
    /// After the removal, the hot store refuses copies and updates that are older than this seq.
    seq: u64,
    /// Whether to remove an ephemeral session of the same id as well. One may remain that was never moved into the
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

    /// A removal that removes everything that either of the two would.
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
    steps: AtomicU64,
    /// Number of bytes of turns in queued steps.
    bytes: AtomicUsize,
    /// Removals that failed.
    removals: Mutex<HashMap<HotKey, Removal>>,
    /// Sessions whose failed removals were not kept, because the map was full. These removals are not retried.
    given_up: Cache<HotKey, ()>,
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
            self.shared.keep_for_retry(self.key, removal);
        }
    }
}

fn bytes_of(step: &RecentUpdate) -> usize {
    step.puts.as_ref().map_or(0, |turn| turn.record.len())
}

impl Copies {
    /// Starts the task that sends to the hot store; the task ends when this value is dropped. Call it within a Tokio
    /// runtime.
    pub(super) fn start(hot: Arc<dyn HotStore>, tally: Arc<TierTally>) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUED_STEPS_MAX);
        let shared = Arc::new(Shared {
            hot,
            tally,
            steps: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            removals: Mutex::default(),
            given_up: Cache::new(FAILED_REMOVALS_MAX),
        });
        tokio::spawn(run(shared.clone(), queue));
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
        let queued_bytes = self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        // The step is counted before it is queued, because the sending task may finish it first.
        self.shared.steps.fetch_add(1, Ordering::Relaxed);
        let sent = queued_bytes + bytes <= QUEUED_BYTES_MAX
            && self.jobs.try_send(Job::Step(key, step)).is_ok();
        if !sent {
            self.shared.step_done(bytes);
            self.shared.tally.count(|counts| counts.steps_dropped += 1);
        }
    }

    /// Number of queued steps.
    pub(super) fn queued_steps(&self) -> u64 {
        self.shared.steps.load(Ordering::Relaxed)
    }

    /// Prepares a removal; call it before a write that deletes contents of a session.
    pub(super) fn prepare_removal(&self, key: HotKey) -> PendingRemoval {
        PendingRemoval {
            shared: self.shared.clone(),
            key,
            removal: Some(Removal::of_copy(0)),
        }
    }

    /// Whether a failed removal of a session's copy is still to be retried, or was given up.
    pub(super) fn is_removal_pending(&self, key: &HotKey) -> bool {
        lock(&self.shared.removals).contains_key(key) || self.shared.given_up.get(key).is_some()
    }

    /// The number of copies whose removal is to be retried.
    pub(super) fn pending_removals(&self) -> u64 {
        lock(&self.shared.removals).len() as u64
    }

    /// Waits until every job that was queued before is done.
    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.jobs.send(Job::Flush(done)).await.is_ok() {
            // The sending task ends only after `self` is dropped.
            let _ = flushed.await;
        }
    }
}

impl Shared {
    fn step_done(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.steps.fetch_sub(1, Ordering::Relaxed);
    }

    /// Keeps a failed removal for a retry.
    fn keep_for_retry(&self, key: HotKey, removal: Removal) {
        let mut removals = lock(&self.removals);
        if removals.len() < FAILED_REMOVALS_MAX || removals.contains_key(&key) {
            let kept = removals.entry(key).or_insert(removal);
            *kept = kept.merged_with(removal);
        } else {
            self.given_up.insert(key, ());
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
        self.given_up.remove(&key);
        let mut removals = lock(&self.removals);
        if removals
            .get(&key)
            .is_some_and(|kept| kept.merged_with(removal) == removal)
        {
            removals.remove(&key);
        }
        Ok(())
    }

    /// Sends steps to the hot store in one call.
    async fn send_steps(&self, mut steps: Vec<(HotKey, RecentUpdate)>) {
        // Concurrent writes may queue their steps in another order than their commits; sorting by seq restores the
        // order within each session.
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
        sizes.into_iter().for_each(|bytes| self.step_done(bytes));
    }

    /// Retries failed removals; stops at the first one that fails again.
    async fn retry_removals(&self) {
        let due: Vec<(HotKey, Removal)> = {
            let removals = lock(&self.removals);
            removals.iter().map(|(key, due)| (*key, *due)).collect()
        };
        for (key, removal) in due {
            if self.remove(key, removal).await.is_err() {
                return;
            }
            self.hot.note_erasure();
        }
    }
}

/// Performs the queued jobs and retries failed removals, until [`Copies`] is dropped.
async fn run(shared: Arc<Shared>, mut queue: mpsc::Receiver<Job>) {
    let mut jobs = Vec::new();
    let mut retry_timer = tokio::time::interval(RETRY_EVERY);
    retry_timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            count = queue.recv_many(&mut jobs, STEPS_PER_CALL) => {
                if count == 0 {
                    return;
                }
            }
            _ = retry_timer.tick() => {
                shared.retry_removals().await;
                shared.hot.rewrite_if_due().await;
                continue;
            }
        }
        let (mut steps, mut flushes) = (Vec::new(), Vec::new());
        for job in jobs.drain(..) {
            match job {
                Job::Step(key, step) => steps.push((key, step)),
                Job::Flush(done) => flushes.push(done),
            }
        }
        if !steps.is_empty() {
            shared.send_steps(steps).await;
        }
        for done in flushes {
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
    async fn a_removal_that_cannot_be_kept_for_a_retry_still_counts_as_pending() {
        let clock = Arc::new(FixedClock::at(0));
        let hot = Arc::new(MemoryHot::new(HotBounds::default(), 1 << 20, clock));
        let copies = Copies::start(hot, Arc::default());
        let key = |n: u64| HotKey(u128::from(n).to_be_bytes());
        // The sending task does not run between these calls.
        for n in 0..=FAILED_REMOVALS_MAX as u64 {
            drop(copies.prepare_removal(key(n)));
        }
        assert_eq!(copies.pending_removals(), FAILED_REMOVALS_MAX as u64);
        assert!(
            copies.is_removal_pending(&key(0))
                && copies.is_removal_pending(&key(FAILED_REMOVALS_MAX as u64))
        );
        copies.prepare_removal(key(1)).cancel();
        assert!(
            copies.is_removal_pending(&key(1)),
            "the removal that another write caused stays"
        );
        copies
            .prepare_removal(key(FAILED_REMOVALS_MAX as u64))
            .remove(Removal::of_copy(1))
            .await;
        assert!(!copies.is_removal_pending(&key(FAILED_REMOVALS_MAX as u64)));
    }
}
