//! Several writers on one store, and what all of them together know of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::http::Client;
use crate::model;
use crate::op::Op;
use crate::server::Server;
use crate::workload::{Step, Writer};

/// Tells before from after, across all writers.
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

/// The clients of one store. A clone knows the same of a copy of the store, and will write the same to it.
#[derive(Debug, Clone)]
pub(crate) struct World {
    clock: Clock,
    writers: Vec<Writer>,
    sessions: usize,
    /// How many sets of sessions there were.
    sets: usize,
    /// Where the current set begins in each writer's list of writes.
    since: Vec<usize>,
}

impl World {
    /// So many writers, who share so many sessions at a time.
    pub(crate) fn new(writers: usize, sessions: usize, rng: &mut StdRng) -> Self {
        let writers = (1..=writers)
            .map(|n| Writer::new(format!("writer-{n}"), StdRng::from_rng(rng)))
            .collect();
        let mut world = Self {
            clock: Clock::default(),
            writers,
            sessions,
            sets: 0,
            since: Vec::new(),
        };
        world.next_sessions();
        world
    }

    /// Goes on with a new set of sessions, so that sessions do not grow without end.
    pub(crate) fn next_sessions(&mut self) {
        self.sets += 1;
        let sessions: Vec<String> = (1..=self.sessions)
            .map(|n| format!("session-{}-{n}", self.sets))
            .collect();
        self.writers.iter_mut().for_each(|w| w.turn_to(&sessions));
        self.since = self.writers.iter().map(|w| w.ops().len()).collect();
    }

    /// All writers write, each on a thread of its own, until the server is killed after `life`.
    pub(crate) fn write_until_killed(&mut self, server: &mut Server, life: Duration) {
        let ending = AtomicBool::new(false);
        let origin = server.origin().to_owned();
        std::thread::scope(|scope| {
            for writer in &mut self.writers {
                scope
                    .spawn(|| writer.write_until_gone(&Client::new(&origin), &self.clock, &ending));
            }
            std::thread::sleep(life);
            ending.store(true, Ordering::SeqCst);
            server.kill();
        });
    }

    /// Runs a task with each writer on a thread of its own.
    pub(crate) fn each(
        &mut self,
        origin: &str,
        task: impl Fn(&mut Writer, &Client, &Clock) + Sync,
    ) {
        std::thread::scope(|scope| {
            for writer in &mut self.writers {
                scope.spawn(|| task(writer, &Client::new(origin), &self.clock));
            }
        });
    }

    /// The first writer makes so many writes one after the other; returns whether all were answered.
    pub(crate) fn write_some(&mut self, origin: &str, count: usize) -> bool {
        let client = Client::new(origin);
        (0..count).all(|_| match self.writers[0].step(&client, &self.clock) {
            Ok(Step::Settled) => true,
            Ok(Step::Refused(reply)) => panic!("{reply:?}"),
            Err(_) => false,
        })
    }

    /// Whether the first writer can write.
    pub(crate) fn takes_a_write(&mut self, origin: &str) -> bool {
        matches!(
            self.writers[0].write(&Client::new(origin), &self.clock),
            Ok(Step::Settled)
        )
    }

    /// After a restart: every write of unknown outcome is sent again, and must succeed.
    pub(crate) fn settle(&mut self, origin: &str) {
        let client = Client::new(origin);
        self.writers
            .iter_mut()
            .for_each(|w| w.settle(&client, &self.clock));
    }

    /// Compares the server with all that is known of the current sessions.
    pub(crate) fn check(&self, origin: &str) {
        let current = self
            .writers
            .iter()
            .zip(&self.since)
            .flat_map(|(w, since)| &w.ops()[*since..]);
        model::check(&Client::new(origin), current);
    }

    /// Compares the server with all that is known.
    pub(crate) fn check_all(&self, origin: &str) {
        model::check(&Client::new(origin), self.ops());
    }

    /// How many acknowledged writes are not there, in whole or in part.
    pub(crate) fn lost(&self, origin: &str) -> usize {
        model::lost(&Client::new(origin), self.ops())
    }

    /// All writes, those of each writer in order.
    pub(crate) fn ops(&self) -> impl Iterator<Item = &Op> {
        self.writers.iter().flat_map(|w| w.ops())
    }

    /// How many writes were acknowledged.
    pub(crate) fn acked(&self) -> usize {
        self.ops().filter(|op| op.acked().is_some()).count()
    }
}
