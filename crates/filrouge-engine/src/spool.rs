//! The spool: a durable queue on this machine's disk for writes of live calls while the ledger does not answer. When
//! the ledger answers again, the drain (a background task) writes the queue into it, each session's writes in order,
//! and each write once (DESIGN §6, "Ledger down"; docs/spool.md).
//!
//! | write | while the ledger does not answer |
//! |---|---|
//! | of a live call, under its session's newest fence, which this process has seen the ledger accept | queued: 202 |
//! | a lease of an unknown session, which the request may create | the session begins in the spool: 202 |
//! | any other | refused with the ledger's failure: 503 |
//!
//! While a session has queued writes, its new writes join the queue. An entry (a queued write) is *done* when it leaves
//! the queue: the ledger has accepted it, or has refused it so that it became a dead letter, or its session was erased.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use filrouge_store::{Entropy, Keyring, Ledger};
use filrouge_types::{Clock, ErrorCode, Failure, lock};
use tokio::sync::{Notify, watch};

mod admin;
mod clear;
mod drain;
mod files;
mod finish;
mod folder;
mod frame;
mod known;
mod lease;
mod ledger;
mod local_session;
mod probe;
mod queue;
mod seen;
mod state;
#[cfg(test)]
mod tests;
mod view;
mod write;

pub use admin::{ListedState, ListedWrite, SpoolAdmin};
pub use view::{SpoolCounts, SpoolView, SpooledSession};

use files::Files;
use probe::Probe;
use seen::SeenSessions;
use state::State;

/// Options of the spool.
#[derive(Debug, Clone)]
pub struct SpoolOptions {
    /// The directory that contains a folder for each store, and in it a folder for each process.
    pub directory: PathBuf,
    /// The time that a write of a live call waits for the ledger before it is spooled.
    pub after: Duration,
    /// The maximum number of bytes that may be queued.
    pub bytes: u64,
    /// The maximum number of queued writes of one session.
    pub session_entries: usize,
    /// The first and the longest pause between the drain's attempts to write an entry that the ledger does not accept;
    /// each pause is twice as long as the one before.
    pub pause: (Duration, Duration),
    /// Whether sessions without an identity may begin in the spool. They may not if they are ephemeral: nothing of them
    /// may reach a disk.
    pub anonymous: bool,
}

impl SpoolOptions {
    /// A spool in `directory` with the defaults: 1 s until a write is spooled, 64 MiB, 10,000 writes per session,
    /// retries after 100 ms to 2 s.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            after: Duration::from_secs(1),
            bytes: 64 << 20,
            session_entries: 10_000,
            pause: (Duration::from_millis(100), Duration::from_secs(2)),
            anonymous: true,
        }
    }
}

/// State shared by the drain and the tasks that serve callers' writes.
struct Core {
    inner: Arc<dyn Ledger>,
    keyring: Arc<Keyring>,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
    options: SpoolOptions,
    /// Code that locks both `files` and `state` locks this one first.
    files: Mutex<Files>,
    state: Mutex<State>,
    seen: SeenSessions,
    /// Notified when a write is queued.
    wake: Notify,
    /// Notified when the ledger answers again.
    up: Notify,
    probe: Arc<Probe>,
    /// Changes whenever a session's queue becomes empty. The number itself has no meaning.
    drained: watch::Sender<u64>,
}

impl Core {
    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic the state stays usable: each step of a change leaves it consistent.
        lock(&self.state)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        lock(&self.files)
    }
}

/// A ledger with a spool in front of it: the spool queues writes while the inner ledger does not answer.
pub struct SpooledLedger {
    core: Arc<Core>,
    stop: watch::Sender<bool>,
    drain: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl SpooledLedger {
    /// Opens a spool for the ledger `inner`, whose keys are in `keyring`, and starts the drain. Folders of processes
    /// that have exited are locked by this process and drained as well. Call it within a Tokio runtime.
    ///
    /// # Errors
    /// `store_unavailable` if the directory cannot be used.
    pub fn open(
        inner: Arc<dyn Ledger>,
        keyring: Arc<Keyring>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        options: SpoolOptions,
    ) -> Result<Arc<Self>, Failure> {
        let (files, recovered) = Files::open(
            &options.directory,
            keyring.clone(),
            inner.store_id(),
            entropy.as_ref(),
            clock.as_ref(),
        )
        .map_err(|e| unusable(&options, &e))?;
        let seen = SeenSessions::new(&options.directory.join(inner.store_id()));
        let probe = Arc::new(Probe::new(inner.clone(), options.after));
        let core = Arc::new(Core {
            inner,
            keyring,
            entropy,
            clock,
            options,
            files: Mutex::new(files),
            state: Mutex::default(),
            seen,
            wake: Notify::new(),
            up: Notify::new(),
            probe,
            drained: watch::Sender::new(0),
        });
        core.recover(recovered);
        let (stop, stop_receiver) = watch::channel(false);
        let drain = tokio::spawn(drain::run(core.clone(), stop_receiver));
        Ok(Arc::new(Self {
            core,
            stop,
            drain: Mutex::new(Some(drain)),
        }))
    }

    /// Stops the drain and waits for its end: each session's task finishes the write that it is sending. Queued writes
    /// stay on disk.
    async fn stop_draining(&self) {
        self.stop.send_replace(true);
        let drain = lock(&self.drain).take();
        if let Some(drain) = drain
            && let Err(e) = drain.await
        {
            tracing::error!(error = %e, "the drain of the spool has ended unexpectedly");
        }
    }
}

impl Drop for SpooledLedger {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

fn unusable(options: &SpoolOptions, e: &std::io::Error) -> Failure {
    let what = format!("the spool {}: {e}", options.directory.display());
    Failure::new(ErrorCode::StoreUnavailable, what)
        .with_hint("check that the folder may be written, or name another one in `spool.dir`")
}
