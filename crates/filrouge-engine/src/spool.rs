//! The spool: a durable queue on this machine's disk for writes of live calls while the ledger does not answer. When it answers
//! again, the drain writes them into the ledger, in order and once (DESIGN §6, "Ledger down"; docs/spool.md).
//!
//! | write | while the ledger does not answer |
//! |---|---|
//! | under the newest fence of a session, if this process has seen the ledger accept it | is queued here: 202 |
//! | any other | returns the ledger's failure unchanged: 503 |
//!
//! While writes of a session are queued, its later writes are queued as well, until none is left. A queued write that the
//! ledger refuses becomes a dead letter.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_store::{Entropy, Keyring, Ledger};
use filrouge_types::{Clock, ErrorCode, Failure};
use tokio::sync::{Notify, watch};

mod clear;
mod drain;
mod files;
mod folder;
mod frame;
mod here;
mod known;
mod lease;
mod ledger;
mod letters;
mod probe;
mod queue;
mod settle;
mod state;
#[cfg(test)]
mod tests;
mod view;
mod write;

pub use letters::{Letters, Line, LineState};
pub use view::{SpoolCounts, SpoolView, Waiting};

use files::Files;
use probe::Probe;
use state::State;

/// Options of the spool.
#[derive(Debug, Clone)]
pub struct SpoolOptions {
    /// The directory of the spool's folders.
    pub directory: PathBuf,
    /// The time that a write of a live call waits for the ledger before it is spooled.
    pub after: Duration,
    /// The maximum number of bytes that may be queued.
    pub bytes: u64,
    /// The maximum number of queued writes of one session.
    pub session_entries: usize,
    /// The first and the longest pause between the drain's attempts while the ledger does not answer.
    pub pause: (Duration, Duration),
}

impl SpoolOptions {
    /// A spool in `directory` with the defaults: 1 s until a write is spooled, 64 MiB, 10,000 writes per session, retries after
    /// 100 ms to 2 s.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            after: Duration::from_secs(1),
            bytes: 64 << 20,
            session_entries: 10_000,
            pause: (Duration::from_millis(100), Duration::from_secs(2)),
        }
    }
}

/// State shared by the drain and the writers.
struct Core {
    inner: Arc<dyn Ledger>,
    keyring: Arc<Keyring>,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
    options: SpoolOptions,
    /// Locked before the state when both are locked.
    files: Mutex<Files>,
    state: Mutex<State>,
    /// Notified when a write is queued.
    wake: Notify,
    /// Notified when the ledger answers again.
    up: Notify,
    probe: Arc<Probe>,
    /// Changes whenever the last queued write of a session is settled.
    settled: watch::Sender<u64>,
}

impl Core {
    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic the state stays usable: each step of a change leaves it consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A ledger with a spool: writes are queued while the inner ledger does not answer.
pub struct Spooling {
    core: Arc<Core>,
    stop: watch::Sender<bool>,
    drain: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl Spooling {
    /// Opens a spool for the ledger `inner`, whose keys are in `keyring`. Takes over and drains the folders of processes that
    /// have exited. Call it within a Tokio runtime.
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
        let probe = Arc::new(Probe::new(inner.clone(), options.after));
        let core = Arc::new(Core {
            inner,
            keyring,
            entropy,
            clock,
            options,
            files: Mutex::new(files),
            state: Mutex::default(),
            wake: Notify::new(),
            up: Notify::new(),
            probe,
            settled: watch::Sender::new(0),
        });
        core.recover(recovered);
        let (stop, stopped) = watch::channel(false);
        let drain = tokio::spawn(drain::run(core.clone(), stopped));
        Ok(Arc::new(Self {
            core,
            stop,
            drain: Mutex::new(Some(drain)),
        }))
    }

    /// Stops the drain between two writes; queued writes stay on disk.
    async fn stop_draining(&self) {
        self.stop.send_replace(true);
        let drain = self
            .drain
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(drain) = drain
            && let Err(e) = drain.await
        {
            tracing::error!(error = %e, "the drain of the spool has ended unexpectedly");
        }
    }
}

impl Drop for Spooling {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

fn unusable(options: &SpoolOptions, e: &std::io::Error) -> Failure {
    let what = format!("the spool {}: {e}", options.directory.display());
    Failure::new(ErrorCode::StoreUnavailable, what)
        .with_hint("check that the folder may be written, or name another one in `spool.dir`")
}
