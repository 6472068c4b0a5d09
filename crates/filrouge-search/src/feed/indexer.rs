//! Indexes kept in step while a process lives.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::indexes::Indexes;
use super::source_index::SourceIndex;
use super::step::Step;

/// How often a source is looked at while there are questions, and while there are none.
const BUSY: Duration = Duration::from_secs(1);
const CALM: Duration = Duration::from_secs(30);
/// For so long after a question there may be another one.
const ASKED: Duration = Duration::from_secs(60);
/// The longest pause after a step.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A thread that keeps indexes in step, in small steps with pauses as long: it takes half a core at most. It ends when
/// this is dropped.
pub struct Indexer {
    /// Nothing is ever sent: it ends.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Indexer {
    /// Starts it.
    ///
    /// # Errors
    /// When the system gives no thread.
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
            // A panic of it was told when it happened; what was applied is whole.
            drop(thread.join());
        }
    }
}

/// Whether nothing has ended within that time.
fn goes_on(stopping: &Receiver<()>, time: Duration) -> bool {
    stopping.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
}

fn run(indexes: &Indexes, stopping: &Receiver<()>) {
    let mut looked: Option<Instant> = None;
    while goes_on(stopping, Duration::ZERO) {
        let asked = indexes.asked().is_some_and(|at| at.elapsed() < ASKED);
        let every = if asked { BUSY } else { CALM };
        if looked.is_some_and(|at| at.elapsed() < every) {
            goes_on(stopping, BUSY);
            continue;
        }
        looked = Some(Instant::now());
        let mut idle = true;
        for index in indexes.open_all() {
            idle &= feed(&index, stopping);
        }
        if !idle {
            // There is more to do, or to look at.
            looked = None;
        }
    }
}

/// Works on one index for a while; whether there is nothing left to do.
fn feed(index: &SourceIndex, stopping: &Receiver<()>) -> bool {
    let until = Instant::now() + BUSY;
    let stopped = || !goes_on(stopping, Duration::ZERO);
    while !stopped() && Instant::now() < until {
        let began = Instant::now();
        let more = match index.step(&stopped) {
            Ok(Step::Done(_)) => true,
            Ok(Step::Idle) => tidy(index),
            // It is told already; what fails now is tried again later.
            Ok(Step::Elsewhere) | Err(_) => false,
        };
        if !more {
            return true;
        }
        goes_on(stopping, began.elapsed().min(PAUSE_MAX));
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
