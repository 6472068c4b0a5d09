//! The spool: what is written of live calls while the ledger does not answer waits on this machine's disk, and goes into the
//! ledger, in order and once, when it is back (DESIGN §6, "Ledger down"; docs/spool.md).
//!
//! | who writes | while the ledger does not answer |
//! |---|---|
//! | under the newest fence of a session that this process has seen the ledger accept | waits here: 202 |
//! | anybody else | the failure as it is: 503 |
//!
//! A session of which writes wait goes on here until they are drained. What the ledger refuses then is kept as a dead letter.

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

/// How the spool behaves.
#[derive(Debug, Clone)]
pub struct SpoolOptions {
    /// Where its folders lie.
    pub directory: PathBuf,
    /// How long a write of a live call waits for the ledger before it is spooled.
    pub after: Duration,
    /// Bytes that may wait.
    pub bytes: u64,
    /// Writes of one session that may wait.
    pub session_entries: usize,
    /// How long the drain waits at first, and at most, before it asks a ledger again that does not answer.
    pub pause: (Duration, Duration),
}

impl SpoolOptions {
    /// A spool in `directory`: 1 s of patience, 64 MiB, 10,000 writes of a session; asked again after 100 ms to 2 s.
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

/// What the drain and the writers share.
struct Core {
    inner: Arc<dyn Ledger>,
    keyring: Arc<Keyring>,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
    options: SpoolOptions,
    /// Locked before the state, when both are.
    files: Mutex<Files>,
    state: Mutex<State>,
    /// Something waits that did not before.
    wake: Notify,
    /// The ledger answers again.
    up: Notify,
    probe: Arc<Probe>,
    /// Changes whenever a session has nothing more that waits.
    settled: watch::Sender<u64>,
}

impl Core {
    fn state(&self) -> MutexGuard<'_, State> {
        // What a panic leaves is as far as it came; each step of a change stands by itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A ledger with a spool behind it.
pub struct Spooling {
    core: Arc<Core>,
    stop: watch::Sender<bool>,
    drain: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl Spooling {
    /// A spool for `inner`, whose keys are `keyring` and whose clock is `clock`. Folders that a process has left behind are
    /// taken over, and drained. To be called within a Tokio runtime.
    ///
    /// # Errors
    /// `store_unavailable` when the directory cannot be used.
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

    /// Ends the drain between two writes; what waits stays on disk.
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
            tracing::error!(error = %e, "the drain of the spool has ended by itself");
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
