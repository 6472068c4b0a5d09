//! Several writers on one store, and what they know about it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::http::CrashClient;
use crate::model;
use crate::op::Op;
use crate::server::CrashServer;
use crate::workload::{WriteResult, Writer};

/// How long to wait for an expected event.
const EVENT_WITHIN: Duration = Duration::from_secs(30);

/// Polls until `condition` returns true.
///
/// # Panics
/// After [`EVENT_WITHIN`].
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        let late = begun.elapsed() > EVENT_WITHIN;
        assert!(!late, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Stops the writers when it is dropped, also by a panic.
pub(crate) struct StopOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A logical clock that all writers share.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clone for Clock {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::SeqCst)))
    }
}

impl Clock {
    pub(crate) fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// The writers of one store. A clone knows the same about a copy of the store, and will send it the same writes.
#[derive(Debug, Clone)]
pub(crate) struct CrashWorld {
    clock: Clock,
    writers: Vec<Writer>,
    sessions: usize,
    /// The number of the current set of sessions, from 1.
    set: usize,
    /// For each writer, the index of its first write to the current set.
    set_starts: Vec<usize>,
}

impl CrashWorld {
    /// Creates `writers` writers, which share `sessions` sessions at a time.
    pub(crate) fn new(writers: usize, sessions: usize, rng: &mut StdRng) -> Self {
        let writers = (1..=writers)
            .map(|n| Writer::new(format!("writer-{n}"), StdRng::from_rng(rng)))
            .collect();
        let mut world = Self {
            clock: Clock::default(),
            writers,
            sessions,
            set: 0,
            set_starts: Vec::new(),
        };
        world.next_sessions();
        world
    }

    /// Switches all writers to a new set of sessions, so that sessions stay small.
    pub(crate) fn next_sessions(&mut self) {
        self.set += 1;
        let sessions: Vec<String> = (1..=self.sessions)
            .map(|n| format!("session-{}-{n}", self.set))
            .collect();
        self.writers.iter_mut().for_each(|w| w.switch_to(&sessions));
        self.set_starts = self.writers.iter().map(|w| w.ops().len()).collect();
    }

    /// Runs all writers, each on its own thread, until the server is killed after `life`.
    pub(crate) fn write_until_killed(&mut self, server: &mut CrashServer, life: Duration) {
        let ending = AtomicBool::new(false);
        let origin = server.origin().to_owned();
        std::thread::scope(|scope| {
            for writer in &mut self.writers {
                scope.spawn(|| {
                    writer.write_until_end(&CrashClient::new(&origin), &self.clock, &ending);
                });
            }
            std::thread::sleep(life);
            ending.store(true, Ordering::SeqCst);
            server.kill();
        });
    }

    /// Runs a task for each writer on its own thread.
    pub(crate) fn for_each_writer(
        &mut self,
        origin: &str,
        task: impl Fn(&mut Writer, &CrashClient, &Clock) + Sync,
    ) {
        std::thread::scope(|scope| {
            for writer in &mut self.writers {
                scope.spawn(|| task(writer, &CrashClient::new(origin), &self.clock));
            }
        });
    }

    /// Sends `count` writes of the first writer, one after the other; returns whether all were answered.
    pub(crate) fn write_sequentially(&mut self, origin: &str, count: usize) -> bool {
        let client = CrashClient::new(origin);
        (0..count).all(|_| match self.writers[0].step(&client, &self.clock) {
            Ok(WriteResult::OutcomeKnown) => true,
            Ok(WriteResult::Refused(response)) => panic!("{response:?}"),
            Err(_) => false,
        })
    }

    /// Returns whether the server accepts a write of the first writer.
    pub(crate) fn accepts_a_write(&mut self, origin: &str) -> bool {
        matches!(
            self.writers[0].write(&CrashClient::new(origin), &self.clock),
            Ok(WriteResult::OutcomeKnown)
        )
    }

    /// Retries every write of unknown outcome after a restart. Each outcome must become known.
    pub(crate) fn resolve_unknown_outcomes(&mut self, origin: &str) {
        let client = CrashClient::new(origin);
        self.writers
            .iter_mut()
            .for_each(|w| w.resolve_unknown_outcomes(&client, &self.clock));
    }

    /// Compares the server's responses with the known writes to the current sessions.
    pub(crate) fn check(&self, origin: &str) {
        let current = self
            .writers
            .iter()
            .zip(&self.set_starts)
            .flat_map(|(w, start)| &w.ops()[*start..]);
        model::check(&CrashClient::new(origin), current);
    }

    /// Compares the server's responses with all known writes.
    pub(crate) fn check_all(&self, origin: &str) {
        model::check(&CrashClient::new(origin), self.ops());
    }

    /// Returns the number of acknowledged writes that are missing, completely or in part.
    pub(crate) fn count_lost(&self, origin: &str) -> usize {
        model::count_lost(&CrashClient::new(origin), self.ops())
    }

    /// Returns all writes; those of each writer are in order.
    pub(crate) fn ops(&self) -> impl Iterator<Item = &Op> {
        self.writers.iter().flat_map(|w| w.ops())
    }

    /// Returns the number of acknowledged writes.
    pub(crate) fn acked(&self) -> usize {
        self.ops().filter(|op| op.acked().is_some()).count()
    }
}
