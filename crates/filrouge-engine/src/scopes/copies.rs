//! Telling the hot store of what the ledger has taken: steps go through a bounded queue, so that no write waits for the
//! hot store; what must be gone before a write is answered goes past it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_store::hot::{HotKey, HotStore, Step};
use filrouge_types::Failure;
use quick_cache::sync::Cache;
use tokio::sync::{mpsc, oneshot};

use super::tally::Tally;

/// Most steps that wait.
const QUEUE: usize = 4096;
/// Most bytes of turns that wait.
const QUEUE_BYTES: usize = 64 << 20;
/// Most steps sent at once.
const AT_ONCE: usize = 256;
/// Most removals that are kept to be tried again.
const REMOVALS: usize = 10_000;
/// How often they are.
const AGAIN: Duration = Duration::from_secs(1);

enum Job {
    Step(HotKey, Step),
    /// Answered once all before it is done.
    Settle(oneshot::Sender<()>),
}

/// What has to go from the hot store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removal {
    /// Nothing older than this may take the copy's place.
    seq: u64,
    /// Whether an ephemeral session of that name goes as well: there may be one that was never taken into the ledger.
    session: bool,
}

impl Removal {
    /// The copy alone.
    pub(super) const fn of_copy(seq: u64) -> Self {
        Self {
            seq,
            session: false,
        }
    }

    /// All that there is.
    pub(super) const fn of_session(seq: u64) -> Self {
        Self { seq, session: true }
    }

    /// What either of them asks for.
    fn and(self, other: Self) -> Self {
        Self {
            seq: self.seq.max(other.seq),
            session: self.session || other.session,
        }
    }
}

/// The way of steps to the hot store.
pub(super) struct Copies {
    jobs: mpsc::Sender<Job>,
    shared: Arc<Shared>,
}

struct Shared {
    hot: Arc<dyn HotStore>,
    tally: Arc<Tally>,
    /// How many steps wait.
    waiting: AtomicU64,
    bytes: AtomicUsize,
    /// Removals that failed.
    removals: Mutex<HashMap<HotKey, Removal>>,
    /// Those that found no room there: nobody tries them again.
    unkept: Cache<HotKey, ()>,
}

/// A removal that follows a write. Whatever ends the write early, the copy is removed later.
pub(super) struct Begun {
    shared: Arc<Shared>,
    key: HotKey,
    removal: Option<Removal>,
}

impl Begun {
    /// The write has changed nothing.
    pub(super) fn take_back(mut self) {
        self.removal = None;
    }

    /// Has the hot store forget. Should it not answer, it is told again until it does.
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

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(removal) = self.removal.take() {
            self.shared.keep(self.key, removal);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one call of a map.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bytes_of(step: &Step) -> usize {
    step.puts.as_ref().map_or(0, |turn| turn.record.len())
}

impl Copies {
    /// Begins to send; ends when dropped. To be called within a Tokio runtime.
    pub(super) fn start(hot: Arc<dyn HotStore>, tally: Arc<Tally>) -> Self {
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

    /// Whether steps are taken: not while the hot store is known to fail.
    pub(super) fn takes(&self) -> bool {
        let takes = self.shared.hot.failure().is_none();
        if !takes {
            self.shared.tally.count(|counts| counts.steps_dropped += 1);
        }
        takes
    }

    /// Sends a step when its turn comes. What finds no room is dropped and counted.
    pub(super) fn send(&self, key: HotKey, step: Step) {
        let bytes = bytes_of(&step);
        let before = self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Counted first: who sends may be faster.
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let sent =
            before + bytes <= QUEUE_BYTES && self.jobs.try_send(Job::Step(key, step)).is_ok();
        if !sent {
            self.shared.done(bytes);
            self.shared.tally.count(|counts| counts.steps_dropped += 1);
        }
    }

    /// How many steps wait.
    pub(super) fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// To be called before a write that takes something away from a session.
    pub(super) fn begin(&self, key: HotKey) -> Begun {
        Begun {
            shared: self.shared.clone(),
            key,
            removal: Some(Removal::of_copy(0)),
        }
    }

    /// Whether a session's copy is still to be removed.
    pub(super) fn is_unremoved(&self, key: &HotKey) -> bool {
        locked(&self.shared.removals).contains_key(key) || self.shared.unkept.get(key).is_some()
    }

    /// How many copies are still to be removed.
    pub(super) fn unremoved(&self) -> u64 {
        locked(&self.shared.removals).len() as u64
    }

    /// Waits until all that was sent before has been done with.
    pub(super) async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        if self.jobs.send(Job::Settle(done)).await.is_ok() {
            // Who sends ends after this alone.
            let _ = settled.await;
        }
    }
}

impl Shared {
    fn done(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Keeps a removal to be tried again.
    fn keep(&self, key: HotKey, removal: Removal) {
        let mut removals = locked(&self.removals);
        if removals.len() < REMOVALS || removals.contains_key(&key) {
            let known = removals.entry(key).or_insert(removal);
            *known = known.and(removal);
        } else {
            self.unkept.insert(key, ());
            tracing::error!(%key, "[SESSIONS][HOT] a copy is not removed, and not tried again: too many wait");
        }
    }

    async fn remove(&self, key: HotKey, removal: Removal) -> Result<(), Failure> {
        let hot = &self.hot;
        self.tally
            .noted(hot.forget_recent(&key, removal.seq).await)?;
        if removal.session {
            self.tally.noted(hot.forget(&key, None).await)?;
        }
        self.unkept.remove(&key);
        let mut removals = locked(&self.removals);
        if removals
            .get(&key)
            .is_some_and(|known| known.and(removal) == removal)
        {
            removals.remove(&key);
        }
        Ok(())
    }

    async fn advance(&self, mut steps: Vec<(HotKey, Step)>) {
        // Those of writes that overtook each other on the way here; of one session's the order is that of their seqs.
        steps.sort_by_key(|(key, step)| (*key, step.before.seq));
        let told: Vec<_> = steps.iter().map(|(_, step)| bytes_of(step)).collect();
        match self.tally.noted(self.hot.advance(steps).await) {
            Ok(()) => self
                .tally
                .count(|counts| counts.steps_sent += told.len() as u64),
            Err(_) => self
                .tally
                .count(|counts| counts.steps_dropped += told.len() as u64),
        }
        told.into_iter().for_each(|bytes| self.done(bytes));
    }

    /// Tries the removals that failed again, until one fails again.
    async fn remove_again(&self) {
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

async fn send(shared: Arc<Shared>, mut waiting: mpsc::Receiver<Job>) {
    let mut jobs = Vec::new();
    let mut again = tokio::time::interval(AGAIN);
    again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            count = waiting.recv_many(&mut jobs, AT_ONCE) => {
                if count == 0 {
                    return;
                }
            }
            _ = again.tick() => {
                shared.remove_again().await;
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
            // Who waited may have given up.
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
    async fn a_removal_that_finds_no_room_is_told() {
        let clock = Arc::new(FixedClock::at(0));
        let hot = Arc::new(MemoryHot::new(HotBounds::default(), 1 << 20, clock));
        let copies = Copies::start(hot, Arc::default());
        let key = |n: u64| HotKey(u128::from(n).to_be_bytes());
        // Nothing runs between these.
        for n in 0..=REMOVALS as u64 {
            drop(copies.begin(key(n)));
        }
        assert_eq!(copies.unremoved(), REMOVALS as u64);
        assert!(copies.is_unremoved(&key(0)) && copies.is_unremoved(&key(REMOVALS as u64)));
        copies.begin(key(1)).take_back();
        assert!(copies.is_unremoved(&key(1)), "another one's");
        copies
            .begin(key(REMOVALS as u64))
            .remove(Removal::of_copy(1))
            .await;
        assert!(!copies.is_unremoved(&key(REMOVALS as u64)));
    }
}
