//! Indexes kept in step while a process lives.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::indexes::Indexes;
use super::source_index::{SourceIndex, locked};
use super::step::Step;

/// How often a source is looked at while there are questions, and while there are none.
const BUSY: Duration = Duration::from_secs(1);
const CALM: Duration = Duration::from_secs(30);
/// For so long after a question there may be another one.
const ASKED: Duration = Duration::from_secs(60);
/// The longest pause after a step.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Whether all is to stop.
#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    told: Condvar,
}

impl Stop {
    fn is_told(&self) -> bool {
        *locked(&self.stopped)
    }

    fn tell(&self) {
        *locked(&self.stopped) = true;
        self.told.notify_all();
    }

    /// Waits that long, or until all is to stop.
    fn wait(&self, time: Duration) {
        let stopped = locked(&self.stopped);
        let waited = self.told.wait_timeout_while(stopped, time, |told| !*told);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// A thread that keeps indexes in step, in small steps with pauses as long: it takes half a core at most. It ends when
/// this is dropped.
pub struct Indexer {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Indexer {
    /// Starts it.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(indexes: Arc<Indexes>) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let own = stop.clone();
        let thread = std::thread::Builder::new()
            .name("indexer".to_owned())
            .spawn(move || run(&indexes, &own))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Indexer {
    fn drop(&mut self) {
        self.stop.tell();
        if let Some(thread) = self.thread.take() {
            // A panic of it was told when it happened; what was applied is whole.
            drop(thread.join());
        }
    }
}

fn run(indexes: &Indexes, stop: &Stop) {
    let mut looked: Option<Instant> = None;
    while !stop.is_told() {
        let asked = indexes.asked().is_some_and(|at| at.elapsed() < ASKED);
        let every = if asked { BUSY } else { CALM };
        if looked.is_some_and(|at| at.elapsed() < every) {
            stop.wait(BUSY);
            continue;
        }
        looked = Some(Instant::now());
        let mut idle = true;
        for index in indexes.open_all() {
            idle &= feed(&index, stop);
        }
        if !idle {
            // There is more to do, or to look at.
            looked = None;
        }
    }
}

/// Works on one index for a while; whether there is nothing left to do.
fn feed(index: &SourceIndex, stop: &Stop) -> bool {
    let until = Instant::now() + BUSY;
    while !stop.is_told() && Instant::now() < until {
        let began = Instant::now();
        let more = match index.step(&|| stop.is_told()) {
            Ok(Step::Done(_)) => true,
            Ok(Step::Idle) => tidy(index),
            // It is told already; what fails now is tried again later.
            Ok(Step::Elsewhere) | Err(_) => false,
        };
        if !more {
            return true;
        }
        stop.wait(began.elapsed().min(PAUSE_MAX));
    }
    false
}

/// A step of tidying; whether there is more.
fn tidy(index: &SourceIndex) -> bool {
    match index.tidy() {
        Ok(more) => more,
        Err(why) => {
            index.note(&why);
            false
        }
    }
}
