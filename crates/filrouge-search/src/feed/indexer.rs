//! Keeps indexes up to date while a process runs.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::indexes::Indexes;
use super::source_index::SourceIndex;
use super::step::StepOutcome;

/// The intervals at which sources are checked for changes: `BUSY_INTERVAL` while searches arrive, `CALM_INTERVAL`
/// otherwise.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);
const CALM_INTERVAL: Duration = Duration::from_secs(30);
/// The time after a search for which further searches are expected.
const BUSY_FOR: Duration = Duration::from_secs(60);
/// The longest pause after a step.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// A thread that keeps indexes up to date in small steps. Each step is followed by a pause as long as the step, so the
/// thread uses about half a core. The thread ends when this value is dropped.
pub struct Indexer {
    /// A channel on which nothing is sent: dropping it ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Indexer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub fn start(indexes: Arc<Indexes>) -> io::Result<Self> {
        let (stop, stopping) = channel();
        let thread = std::thread::Builder::new()
            .name("indexer".to_owned())
            .spawn(move || run(&indexes, &stopping))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Indexer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was logged when it happened, and every change was applied entirely or not at all.
            drop(thread.join());
        }
    }
}

/// Waits for `time`, and returns whether the indexer should continue.
fn wait_while_running(stopping: &Receiver<()>, time: Duration) -> bool {
    stopping.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
}

fn run(indexes: &Indexes, stopping: &Receiver<()>) {
    let mut last_check: Option<Instant> = None;
    while wait_while_running(stopping, Duration::ZERO) {
        let is_busy = indexes
            .last_used()
            .is_some_and(|at| at.elapsed() < BUSY_FOR);
        let interval = if is_busy {
            BUSY_INTERVAL
        } else {
            CALM_INTERVAL
        };
        if last_check.is_some_and(|at| at.elapsed() < interval) {
            wait_while_running(stopping, BUSY_INTERVAL);
            continue;
        }
        last_check = Some(Instant::now());
        let mut idle = true;
        for index in indexes.open_all() {
            idle &= feed_index(&index, stopping);
        }
        if !idle {
            // More work may remain: check again at once.
            last_check = None;
        }
    }
}

/// Updates one index for about a second. Returns true if no work is left, or if the rest must be retried later.
fn feed_index(index: &SourceIndex, stopping: &Receiver<()>) -> bool {
    let until = Instant::now() + BUSY_INTERVAL;
    let stopped = || !wait_while_running(stopping, Duration::ZERO);
    while !stopped() && Instant::now() < until {
        let began = Instant::now();
        let more = match index.step(&stopped) {
            Ok(StepOutcome::Done(_)) => true,
            // Maintenance runs while the index is up to date.
            Ok(StepOutcome::Idle) => index.tidy().unwrap_or_else(|why| {
                index.log_failure(&why);
                false
            }),
            // Another process feeds the index, or the step failed and logged why. Both cases are retried later.
            Ok(StepOutcome::Locked) | Err(_) => false,
        };
        if !more {
            return true;
        }
        wait_while_running(stopping, began.elapsed().min(MAX_PAUSE));
    }
    false
}
